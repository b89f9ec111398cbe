"""Ranks outside of a group have the null communicator, and ask for it before they use it."""
# ranks: 4

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
value = np.full(1, comm.rank, dtype="f8")
for chosen in ((0, 1), (1, 2, 3), (3,)):
    part = comm.Split(color=0 if comm.rank in chosen else MPI.UNDEFINED, key=comm.rank)
    if part != MPI.COMM_NULL:
        total = np.zeros(1)
        part.Allreduce(value, total)
        print("rank", comm.rank, chosen, total[0])
        part.Free()
    assert part == MPI.COMM_NULL
    comm.Barrier()
idle = MPI.REQUEST_NULL
idle.Wait()
MPI.Request.Waitall([idle, MPI.REQUEST_NULL])
