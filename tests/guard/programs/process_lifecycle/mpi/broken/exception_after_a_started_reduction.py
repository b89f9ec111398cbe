"""A rank starts a reduction, finds a bad value before it waits for it, and raises: the others wait for its part."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def check(gradient):
    if not np.isfinite(gradient).all():
        raise ValueError("the gradient is not finite")  # <- here # fixed: gradient[:] = 0


for step in range(4):
    gradient = np.full(8, 1.0 / (comm.rank + 1))
    if comm.rank == 1 and step == 2:
        gradient[3] = np.nan
    loss, mean = np.array([gradient[0]]), np.empty(1)
    request = comm.Iallreduce(loss, mean)
    check(gradient)
    request.Wait()
    comm.Allreduce(MPI.IN_PLACE, gradient)
