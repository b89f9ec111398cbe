"""Workers synchronise with their own group and then with the world; rank 3 does it the other way round."""
# ranks: 4
# finding: deadlock communicator | deadlock
# out of line: 3
# cause: call-order

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
team = comm.Split(comm.rank // 2)


def share_in_team(values):
    team.Allreduce(MPI.IN_PLACE, values)  # <- here
    return values


def share_in_world(values):
    comm.Allreduce(MPI.IN_PLACE, values)  # <- here
    return values


order = [share_in_team, share_in_world]
if comm.rank == 3:
    order.reverse()  # fixed: pass
values = np.ones(4)
for _ in range(3):
    for share in order:
        values = share(values)
print("rank", comm.rank, values[0])
