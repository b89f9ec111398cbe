"""A rank of one side fails; the other side waits for it in a barrier of both."""
# ranks: 4
# finding: peer-gone
# out of line: 3
# cause: exception
# says: FileNotFoundError

from pathlib import Path

from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < comm.size // 2
half = comm.Split(color=int(low), key=comm.rank)
between = half.Create_intercomm(0, comm, comm.size // 2 if low else 0, tag=3)
between.Barrier()
if comm.rank == 3:  # fixed: if False:
    Path("no-such-file").read_text()
between.Barrier()  # <- here
print("rank", comm.rank)
