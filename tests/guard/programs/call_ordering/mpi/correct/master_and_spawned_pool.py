"""A single rank spawns two pools at the same time; they get work and answer by messages, and one outlives the other."""
# ranks: 1

import sys

import numpy as np
from mpi4py import MPI

if len(sys.argv) > 1:
    master, status = MPI.Comm.Get_parent(), MPI.Status()
    while (number := master.recv(source=0, tag=MPI.ANY_TAG, status=status)) is not None:
        master.send(number * number, dest=0, tag=status.tag)
    total = np.zeros(1)
    master.Reduce([np.ones(1), MPI.DOUBLE], None, root=0)
    master.Bcast([total, MPI.DOUBLE], root=0)
    again = master.Dup()
    again.Barrier()
    again.Disconnect()
    master.Disconnect()
    sys.exit()
pools = [MPI.COMM_SELF.Spawn(sys.executable, [__file__, name], maxprocs=2) for name in ("first", "second")]
for pool in pools:
    for number in range(6):
        pool.send(number, dest=number % 2, tag=number)
    print(sorted(pool.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG) for _ in range(6)))
    for rank in range(2):
        pool.send(None, dest=rank)
    total = np.zeros(1)
    pool.Reduce(None, [total, MPI.DOUBLE], root=MPI.ROOT)
    print(total)
    pool.Bcast([total, MPI.DOUBLE], root=MPI.ROOT)
    again = pool.Dup()
    again.Barrier()
    again.Disconnect()
    pool.Disconnect()
