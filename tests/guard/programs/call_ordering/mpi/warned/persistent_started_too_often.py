"""A persistent send is started once more than its receive."""
# ranks: 2
# warning: message-never-received
# warned ranks: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
room = np.ones(2)
if comm.rank == 0:
    request = comm.Send_init(room, dest=1, tag=3)  # <- here
    rounds = 4  # fixed: rounds = 3
else:
    request = comm.Recv_init(room, source=0, tag=3)
    rounds = 3
for _ in range(rounds):
    request.Start()
    request.Wait()
request.Free()
