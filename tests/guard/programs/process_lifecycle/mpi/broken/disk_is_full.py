"""Rank 0 writes the checkpoint to a full disk; the others wait for it."""
# ranks: 3
# finding: peer-gone
# out of line: 0
# cause: disk-full

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 0:
    path = "/dev/full"  # fixed: path = "/dev/null"
    with open(path, "wb", buffering=0) as checkpoint:
        checkpoint.write(bytes(1000))  # <- here
comm.Barrier()
print("rank", comm.rank, "done")
