"""The result is sent with tag 12 and expected with tag 21."""
# ranks: 2
# finding: message tag
# out of line: 0 1 | 0
# cause: wrong-tag

from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 1:
    comm.send({"accuracy": 0.9}, dest=0, tag=12)
elif comm.rank == 0:
    print(comm.recv(source=1, tag=21))  # <- here  # fixed: print(comm.recv(source=1, tag=12))
comm.Barrier()
