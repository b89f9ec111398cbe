"""A file is opened for every record and never closed."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: files

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
row = np.full(2, comm.rank, dtype="f8")
for step in range(80):
    records = MPI.File.Open(comm, "records.bin", MPI.MODE_CREATE | MPI.MODE_RDWR)  # <- here
    records.Write_at(16 * (2 * step + comm.rank), row)
    # fixed: records.Close()
