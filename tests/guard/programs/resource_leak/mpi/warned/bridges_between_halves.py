"""Two halves make an intercommunicator for each step and never free it."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: communicators made at

from mpi4py import MPI

comm = MPI.COMM_WORLD
half = comm.Split(color=comm.rank, key=0)
for _ in range(100):
    bridge = half.Create_intercomm(0, comm, 1 - comm.rank)  # <- here
    bridge.Barrier()
    # fixed: bridge.Free()
half.Free()
