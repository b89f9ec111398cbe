"""Rank 0 writes a checkpoint larger than the system lets a file be; the others wait for it."""
# ranks: 3
# finding: peer-gone
# out of line: 0
# cause: disk-full

import resource

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))  # fixed: pass
    with open("checkpoint.bin", "wb", buffering=0) as checkpoint:
        checkpoint.write(bytes(1 << 16))
        checkpoint.write(bytes(1))  # <- here
comm.Barrier()
print("rank", comm.rank, "done")
