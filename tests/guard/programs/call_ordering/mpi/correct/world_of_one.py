"""COMM_SELF: collectives and messages of a rank with itself, in any number."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm, alone = MPI.COMM_WORLD, MPI.COMM_SELF
total = np.zeros(2)
for step in range(comm.rank * 3):
    alone.Barrier()
    alone.Allreduce(np.full(2, step, dtype="f8"), total)
copy = alone.Dup()
request = copy.Irecv(total, source=0, tag=7)
copy.Send(np.full(2, 5.0), dest=0, tag=7)
request.Wait()
print("rank", comm.rank, total, alone.bcast("me", root=0))
comm.Barrier()
