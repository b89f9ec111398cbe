"""Rank 0 writes the checkpoint to a full disk; the others wait for it."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 0:
    with open("/dev/full", "wb", buffering=0) as checkpoint:
        checkpoint.write(bytes(1000))  # <- here
comm.Barrier()
print("rank", comm.rank, "done")
