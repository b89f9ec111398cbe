"""One rank's array is refused, the script catches that and goes on: the others wait for a call that it leaves out."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# says: Barrier

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()
grid = np.ones((4, 4))
edge = grid[:, 0] if rank == 1 else grid[0]
edge = np.ascontiguousarray(edge) if rank == 0 else edge  # fixed: edge = np.ascontiguousarray(edge)
total = np.zeros(4)
try:
    comm.Allreduce(edge, total)  # <- here
except (TypeError, ValueError, BufferError):
    print("the edge cannot be sent")
comm.Barrier()  # <- here
