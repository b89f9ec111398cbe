"""Rank 1 makes another call than the others, on a communicator that each rank reaches by an object of its own."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: rank-conditional-call

from mpi4py import MPI

world = MPI.COMM_WORLD
half = world.Dup()
comm = MPI.Comm.fromhandle(half.handle) if world.rank else MPI.Comm.f2py(half.py2f())
if world.rank == 1:  # fixed: if False:
    comm.allreduce(1)  # <- here
else:
    comm.Barrier()  # <- here
