"""The groups that a communicator is made of are freed as little as Python frees them."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: groups

from mpi4py import MPI

comm = MPI.COMM_WORLD
everybody = comm.Get_group()
for _ in range(1100):
    group = everybody.Incl([0])  # <- here
    # fixed: group.Free()
comm.Barrier()
