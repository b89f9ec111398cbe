"""Wrong arguments on one rank alone: mpi4py refuses them before it calls MPI, the script goes on."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
values = np.ones(4)
for step in range(4):
    try:
        if comm.rank == step % 2:
            comm.Allreduce("not a buffer", values)
    except TypeError as error:
        print(f"rank {comm.rank} step {step}: {type(error).__name__}\n", end="", flush=True)
    comm.Allreduce(MPI.IN_PLACE, values)
comm.Barrier()
print(f"rank {comm.rank}: {values[0]}\n", end="", flush=True)
