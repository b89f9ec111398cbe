"""The script ends the job itself, with a code that it has computed."""
# ranks: 3

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
print("rank", comm.rank, "begins", flush=True)
comm.Barrier()
if comm.rank == 1:
    sys.stdout.flush()
    comm.Abort(np.int32(7))
comm.Barrier()
