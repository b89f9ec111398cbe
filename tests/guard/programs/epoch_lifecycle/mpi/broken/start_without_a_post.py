"""Rank 0 starts an epoch with ranks 1 and 2, and rank 2 does not post its window."""
# ranks: 3
# finding: deadlock
# out of line: 2
# cause: unmatched-epoch
# says: to Post Win

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
everybody = comm.Get_group()
if comm.rank == 0:
    window.Start(everybody.Incl([1, 2]))  # <- here
    for target in (1, 2):
        window.Put(np.ones(1), target)
    window.Complete()  # <- here
elif comm.rank == 1:  # fixed: else:
    window.Post(everybody.Incl([0]))
    window.Wait()
comm.Barrier()
window.Free()
