"""A rank sends head and body; its neighbour receives only one message per step, and the pairs drift apart."""
# ranks: 2
# finding: message dtype | message count | message tag | mismatch | deadlock
# cause: message-order | dtype

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    for step in range(4):
        comm.Send(np.array([step, 6], dtype="i4"), dest=1)  # <- here
        comm.Send(np.full(6, float(step)), dest=1)  # <- here
else:
    head, body = np.empty(2, dtype="i4"), np.empty(6)
    for _ in range(4):
        # fixed: comm.Recv(head, source=0)
        comm.Recv(body, source=0)  # <- here
print("rank", comm.rank, "done")
