"""Reductions are started ahead and waited for a step later; an empty batch starts none."""
# ranks: 3
# finding: mismatch operation | peer-gone | deadlock
# out of line: 1
# cause: skipped-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
sizes = [[4, 4, 4, 4, 4], [4, 4, 0, 4, 4], [4, 4, 4, 4, 4]][comm.rank]
pending = []
for size in sizes:
    if size == 0:
        continue  # fixed: pass
    gradient, total = np.full(4, float(size)), np.empty(4)
    pending.append((comm.Iallreduce(gradient, total), gradient, total))  # <- here
    if len(pending) > 1:
        pending[0][0].Wait()
        pending.pop(0)
for request, *_ in pending:
    request.Wait()
steps = comm.gather(len(sizes), root=0)
if comm.rank == 0:
    print(steps)
