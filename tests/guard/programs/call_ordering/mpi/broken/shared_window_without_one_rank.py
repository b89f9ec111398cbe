"""The last rank ends before the shared window is made."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: rank-conditional-call | early-exit

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == comm.size - 1:
    sys.exit(0)  # fixed: pass
window = MPI.Win.Allocate_shared(64, 8, comm=comm)  # <- here
window.Fence()
window.Free()
