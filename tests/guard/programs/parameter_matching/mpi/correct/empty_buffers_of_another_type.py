"""Ranks that have nothing to give give an empty array of numpy's default type: no elements have no type."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
mine = np.array([number for number in range(10) if rank and number % size == rank])  # rank 0: np.array([]) is float64
counts = comm.allgather(mine.size)
everything, starts = np.zeros(sum(counts), dtype="i8"), np.cumsum([0, *counts[:-1]])
comm.Gatherv(mine, [everything, counts] if rank == 1 else None, root=1)
comm.Allgatherv(mine, [everything, counts])
comm.Allgatherv([mine, mine.size], [everything, (counts, starts)])
comm.Allgatherv([mine, np.int64(mine.size), MPI.INT64_T if rank else MPI.DOUBLE], [everything, counts, starts, "q"])
comm.Iallgatherv([mine, (mine.size, 0)], [everything, counts]).Wait()
back = np.empty_like(mine)
comm.Scatterv([everything, counts] if rank == 1 else None, back, root=1)
comm.Bcast(np.array([]) if rank else np.array([], dtype="i4"))
comm.Scatterv([np.array([]), [0] * size] if rank == 0 else None, np.array([], dtype="i4"), root=0)
print("rank", rank, everything.tolist(), back.tolist())

right, left = (rank + 1) % size, (rank - 1) % size
status, room, num = MPI.Status(), np.empty(16, dtype="i8"), -1
requests = [comm.Isend(np.arange(4), dest=right), comm.Isend(np.array([]), dest=right)]  # nothing: "that was all"
while status.Get_count(MPI.INT64_T) != 0 or num < 0:
    comm.Recv(room, source=left, status=status)
    num = max(num, 0) + status.Get_count(MPI.INT64_T)
MPI.Request.Waitall(requests)
comm.Sendrecv(np.array([]), dest=right, recvbuf=room, source=left)
comm.Sendrecv([np.arange(3), 0], dest=right, recvbuf=np.empty(2, dtype="f4"), source=left)
print("rank", rank, "got", num)
