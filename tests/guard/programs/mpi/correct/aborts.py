"""The script ends the job itself."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
print("rank", comm.rank, "begins", flush=True)
comm.Barrier()
if comm.rank == 1:
    sys.stdout.flush()
    comm.Abort(7)
comm.Barrier()
