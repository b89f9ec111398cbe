"""Workers are spawned twice; they work among themselves, with their parents, and all together."""
# ranks: 2

import sys
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
if len(sys.argv) > 1:
    parents = MPI.Comm.Get_parent()
    comm.Barrier()
    time.sleep(0.2 * comm.rank)
    total = comm.allreduce(comm.rank)
    task = parents.bcast(None, root=0)
    parents.gather(task + total, root=0)
    if comm.rank == 0:
        time.sleep(0.5)
        parents.send("from a worker", dest=1, tag=4)
    everybody = parents.Merge(high=True)
    everybody.Barrier()
    everybody.Free()
    parents.Disconnect()
    sys.exit()
for round_number in range(2):
    workers = comm.Spawn(sys.executable, [__file__, "worker"], maxprocs=2)
    mine = MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL
    workers.bcast(round_number, root=mine)
    print(comm.rank, workers.gather(None, root=mine))
    if comm.rank == 1:
        print(workers.recv(source=0, tag=4))
    everybody = workers.Merge(high=False)
    everybody.Barrier()
    print(comm.rank, everybody.size)
    everybody.Free()
    workers.Disconnect()
    comm.Barrier()
