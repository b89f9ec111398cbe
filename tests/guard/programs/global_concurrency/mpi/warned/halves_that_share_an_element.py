"""Two ranks write their halves of a result under shared locks, and both halves have the element in the middle."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 1 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(80, 8, comm=comm)
window.Lock_all()
comm.Barrier()
if comm.rank:
    begin = 5 * (comm.rank - 1)
    end = begin + 6 if comm.rank == 1 else 10  # fixed: end = begin + 5
    half = np.arange(begin, end, dtype="f8") + comm.rank
    window.Put(half, 0, target=begin)  # <- here
    window.Flush(0)
comm.Barrier()
window.Unlock_all()
window.Free()
