"""One rank states a count that its array does not have, and MPI reads on in the memory behind it."""
# ranks: 3
# not found: neither mpi4py nor the guard compares a stated count with the length of the array

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rows = np.ones(3 if comm.rank == 1 else 4)  # fixed: rows = np.ones(4)
total = np.zeros(4)
comm.Allreduce([rows, 4, MPI.DOUBLE], total)  # <- here
