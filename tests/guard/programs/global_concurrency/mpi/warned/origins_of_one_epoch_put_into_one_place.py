"""Ranks 1 and 2 put into one place in the same epoch between groups, which rank 0 has opened to both."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 1 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(24, 8, comm=comm)
world = comm.Get_group()
origins, target = world.Incl([1, 2]), world.Incl([0])
value = np.full(1, comm.rank, dtype="f8")
if comm.rank == 0:
    window.Post(origins)
    window.Wait()
else:
    window.Start(target)
    window.Put(value, 0)  # <- here  # fixed: window.Put(value, 0, target=comm.rank)
    window.Complete()
window.Free()
