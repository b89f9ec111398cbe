"""Many handles at one time, all of them needed, and many one after the other, all of them freed."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rows = [comm.Split(color=0, key=n) for n in range(100)]
total = sum(row.allreduce(1) for row in rows)
shapes = [MPI.DOUBLE.Create_vector(2, 1, n + 1).Commit() for n in range(900)]
everybody = comm.Get_group()
for step in range(1500):
    everybody.Incl([step % 2]).Free()
    comm.Get_group().Free()
    MPI.INT.Create_contiguous(3).Commit().Free()
for _ in range(200):
    MPI.Win.Create(None, comm=comm).Free()
    comm.Dup().free()
    MPI.Intracomm(comm.Dup()).Free()
    MPI.Op.Create(lambda a, b, _: None).Free()
for handle in (*rows, *shapes, everybody):
    handle.Free()
print("rank", comm.rank, total, np.ones(1)[0])
