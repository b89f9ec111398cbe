"""Datatypes, groups and operations are made in a loop, used, and freed in another order."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
matrix = np.arange(16.0).reshape(4, 4)
total = np.zeros(1)
for step in range(1500):
    column = MPI.DOUBLE.Create_vector(4, 1, 4).Commit()
    world = comm.Get_group()
    pair = world.Incl([0, 1])
    if step % 100 == 0:
        larger = MPI.Op.Create(lambda one, other, _: None, commute=True)
        comm.Bcast([matrix, 1, column], root=step % 3)
        larger.Free()
    world.Free()
    column.Free()
    pair.Free()
comm.Allreduce(np.ones(1), total)
print("rank", comm.rank, total[0])
