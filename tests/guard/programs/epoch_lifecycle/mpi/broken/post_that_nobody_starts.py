"""Rank 0 posts its window to rank 1, which starts no epoch, and waits for it."""
# ranks: 3
# finding: deadlock
# out of line: 1
# cause: unmatched-epoch
# says: to Complete an epoch on Win

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
everybody = comm.Get_group()
value = np.ones(1)
if comm.rank == 0:
    window.Post(everybody.Incl([1]))
    window.Wait()  # <- here
elif comm.rank == 1:
    target = everybody.Incl([0])
    # fixed: window.Start(target)
    # fixed: window.Put(value, 0)
    # fixed: window.Complete()
comm.Barrier()
window.Free()
