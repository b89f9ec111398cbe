"""Only rank 0 makes a fence after its last access: the others come to the next one, and then to the end."""
# ranks: 4
# finding: mismatch operation
# out of line: 0
# cause: rank-conditional-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
window.Fence()
window.Put(np.ones(1), (comm.rank + 1) % comm.size)
if comm.rank == 0:  # fixed: if True:
    window.Fence()  # <- here
window.Fence()
window.Free()
