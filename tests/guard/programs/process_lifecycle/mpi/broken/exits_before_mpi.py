"""A rank without work leaves before it has initialised MPI, though the others will wait for it there."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: early-exit

import os
import sys

work = ["a", "b"]
rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
if rank >= len(work):  # fixed: if False:
    sys.exit(0)  # <- here
from mpi4py import MPI  # noqa: E402

print("rank", rank, MPI.COMM_WORLD.allgather(rank))
