"""Communicators made and freed in a loop, as libraries do."""
# ranks: 3

from mpi4py import MPI

comm = MPI.COMM_WORLD
total = 0
for step in range(100):
    part = comm.Split(color=(comm.rank + step) % 2, key=comm.rank)
    total += part.allreduce(1)
    part.Free()
print("rank", comm.rank, total)
