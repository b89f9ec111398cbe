"""All ranks agree that the job has failed, and say so by their exit code."""
# ranks: 3

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
failed = comm.allreduce(comm.rank == 1, op=MPI.LOR)
print("rank", comm.rank, "failed" if failed else "fine", flush=True)
comm.Barrier()
if failed:
    sys.exit(3)
