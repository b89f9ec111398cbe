"""The last rank has made a persistent barrier where the others made a persistent sum."""
# ranks: 3
# finding: mismatch operation
# out of line: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
mine, total = np.ones(4), np.zeros(4)


def prepare() -> MPI.Prequest:
    if comm.rank == comm.size - 1:  # fixed: if False:
        return comm.Barrier_init()  # <- here
    return comm.Allreduce_init(mine, total)


request = prepare()
for _ in range(3):
    request.Start()
    request.Wait()
print("rank", comm.rank, total)
