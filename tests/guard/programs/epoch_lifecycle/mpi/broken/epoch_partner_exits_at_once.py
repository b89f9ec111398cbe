"""Rank 1 leaves at once, without the epoch for which rank 0 has posted its window."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: early-exit

import os

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
partner = comm.Get_group().Incl([1 - comm.rank])
if comm.rank == 0:
    window.Post(partner)
    window.Wait()  # <- here
else:
    os._exit(0)  # <- here # fixed: window.Start(partner)
    window.Put(np.ones(1), 0)
    window.Complete()
window.Free()
