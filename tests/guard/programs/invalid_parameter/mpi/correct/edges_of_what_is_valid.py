"""Arguments at the edge of what is valid: no partner, no elements, the largest tag, one's own rank."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
left, right = comm.rank - 1, comm.rank + 1
left = MPI.PROC_NULL if left < 0 else left
right = MPI.PROC_NULL if right == comm.size else right
edge, halo = np.full(2, comm.rank, dtype="f8"), np.full(2, -1.0)
comm.Sendrecv(edge, dest=right, recvbuf=halo, source=left)
print("rank", comm.rank, halo)

largest = comm.Get_attr(MPI.TAG_UB)
request = comm.Isend(edge, dest=np.int64((comm.rank + 1) % comm.size), tag=largest)
comm.Recv(halo, source=np.int32((comm.rank - 1) % comm.size), tag=largest)
request.Wait()

comm.Bcast(np.empty(0), root=comm.size - 1)
comm.Allreduce([np.empty(0), 0, MPI.DOUBLE], [np.empty(0), 0, MPI.DOUBLE])
comm.Bcast([edge, 0, MPI.DOUBLE], root=0)
print("rank", comm.rank, comm.sendrecv(comm.rank, dest=comm.rank, source=comm.rank))
