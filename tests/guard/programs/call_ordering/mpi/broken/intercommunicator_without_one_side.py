"""Only the lower half makes the intercommunicator: its leader waits for that of the upper half."""
# ranks: 4
# finding: deadlock
# out of line: 2 3
# cause: skipped-call
# says: left out the Create_intercomm

from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < comm.size // 2
half = comm.Split(color=int(low), key=comm.rank)
if low:  # fixed: if True:
    between = half.Create_intercomm(0, comm, comm.size // 2 if low else 0, tag=3)  # <- here
    print("rank", comm.rank, "talks to", between.remote_size)
comm.Barrier()
