"""Rank 1 puts once more after it has completed its epoch."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception
# warning with Open MPI: buffer-in-use

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
world = comm.Get_group()
other = world.Incl([1 - comm.rank])
if comm.rank == 0:
    window.Post(other)
    window.Wait()
else:
    window.Start(other)
    window.Put(np.ones(1), 0)
    # fixed: window.Put(np.ones(1), 0)
    window.Complete()
    window.Put(np.ones(1), 0)  # <- here  # fixed: print("put")
comm.Barrier()
window.Free()
