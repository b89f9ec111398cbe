"""Rank 0 writes a checkpoint larger than the system lets a file be; the others wait for it."""

import resource

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    with open("checkpoint.bin", "wb", buffering=0) as checkpoint:
        checkpoint.write(bytes(1 << 16))
        checkpoint.write(bytes(1))  # <- here
comm.Barrier()
print("rank", comm.rank, "done")
