"""Rank 1 raises, and the script prints exceptions in its own manner, as rich.traceback does."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: exception

import sys

from mpi4py import MPI

sys.excepthook = lambda kind, error, trace: print(f"!! {kind.__name__}: {error}", file=sys.stderr)
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    raise ValueError("bad batch")  # <- here  # fixed: pass
comm.Barrier()
