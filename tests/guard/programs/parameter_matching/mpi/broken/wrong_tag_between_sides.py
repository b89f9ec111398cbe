"""A message goes to rank 1 of the other side, which is rank 3 of the job, with another tag than it waits for."""
# ranks: 4
# finding: message tag
# out of line: 0 3
# cause: wrong-tag
# says: from rank 0 with tag 6

from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < comm.size // 2
half = comm.Split(color=int(low), key=comm.rank)
between = half.Create_intercomm(0, comm, comm.size // 2 if low else 0, tag=3)
if comm.rank == 0:
    between.send("word", dest=1, tag=5)
elif comm.rank == 3:
    between.recv(source=0, tag=6)  # fixed: between.recv(source=0, tag=5)  # <- here
comm.Barrier()
