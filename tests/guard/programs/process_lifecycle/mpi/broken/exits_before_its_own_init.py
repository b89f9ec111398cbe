"""The script initialises MPI by itself, and a rank without work leaves before."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: early-exit

import os
import sys

import mpi4py

mpi4py.rc.initialize = False

from mpi4py import MPI  # noqa: E402

shards = {0: "a", 2: "c"}
rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
if rank not in shards:  # fixed: if False:
    sys.exit(0)  # <- here
MPI.Init()
print("rank", rank, MPI.COMM_WORLD.allgather(rank))
MPI.Finalize()
