"""Ranks of mpi4py that add up and pass numbers around."""

from __future__ import annotations

from tests.chaos.injector import reach

reach("import")
import numpy as np  # noqa: E402

reach("init")
from mpi4py import MPI  # noqa: E402

comm = MPI.COMM_WORLD
total, left = np.zeros(4), np.zeros(1)
for step in range(12):
    comm.Allreduce(np.full(4, comm.rank + step, dtype="f8"), total)
    reach("between calls", step)
    comm.Sendrecv(np.full(1, comm.rank, "f8"), (comm.rank + 1) % comm.size, 0, left, (comm.rank - 1) % comm.size, 0)
    reach("inside a collective", step)
    comm.Barrier()
assert total[0] == sum(rank + 11 for rank in range(comm.size))
print("rank", comm.rank, "ends well", flush=True)
reach("in finalize")
