"""Rank 0 receives once, from anybody, with room for all; three ranks send."""
# ranks: 4
# warning: message-never-received
# warned ranks: 1 2 | 1 3 | 2 3
# says: from any rank
# says: rank 0 never received 2 messages

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    parts = np.zeros(3 * 2)
    comm.Recv(parts, source=MPI.ANY_SOURCE)  # fixed: [comm.Recv(part) for part in parts.reshape(3, 2)]
else:
    comm.Send(np.full(2, float(comm.rank)), dest=0)  # <- here
print("rank", comm.rank)
