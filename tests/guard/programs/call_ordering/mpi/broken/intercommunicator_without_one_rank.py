"""The last rank does not help to make the intercommunicator of the two halves."""
# ranks: 4
# finding: deadlock
# out of line: 3
# cause: skipped-call
# says: left out the Create_intercomm

from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < comm.size // 2
half = comm.Split(color=int(low), key=comm.rank)
between = MPI.COMM_NULL
if comm.rank != comm.size - 1:  # fixed: if True:
    between = half.Create_intercomm(0, comm, comm.size // 2 if low else 0, tag=3)  # <- here
comm.Barrier()
print("rank", comm.rank, "goes on")
