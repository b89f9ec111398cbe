"""A window is made once and not freed before the end."""
# ranks: 2
# not found: the guard speaks of a leak only when handles grow in number, because programs keep a few until the end

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Create(np.zeros(2), comm=comm)  # <- here
window.Fence()
# fixed: window.Free()
