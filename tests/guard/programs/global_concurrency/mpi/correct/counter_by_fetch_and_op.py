"""Ranks draw numbers from a counter in one atomic step: every number is drawn once."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype="i8")
memory[:] = 0
comm.Barrier()
drawn, number, one = [], np.zeros(1, dtype="i8"), np.ones(1, dtype="i8")
window.Lock_all()
for _ in range(5):
    window.Fetch_and_op(one, number, 0)
    window.Flush(0)
    drawn.append(int(number[0]))
window.Unlock_all()
everything = comm.allreduce(drawn)
print("rank", comm.rank, sorted(everything))
window.Free()
