"""A pipeline: rank 0 decodes, rank 1 augments, rank 2 trains."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
image = np.zeros(8)
if comm.rank == 0:
    image += 1
    comm.Send(image, dest=1)
elif comm.rank == 1:
    comm.Recv(image, source=0)
    image *= 10
    comm.Send(image, dest=2)
else:
    comm.Recv(image, source=comm.rank - 1)  # from the stage before
comm.Barrier()
print(f"rank {comm.rank}: pixel {image[0]:.0f}")
