"""The request of an object is kept until the end, and nobody waits for it."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0
# says: before the end

from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    pending = comm.isend({"step": 1}, dest=1)  # <- here
    # fixed: pending.wait()
else:
    print(comm.recv(source=0))
