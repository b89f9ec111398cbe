"""Rank 1 closes the file after three records, the others after four."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: uneven-steps

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
file = MPI.File.Open(comm, "records.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
num_records = 3 if comm.rank == 1 else 4  # fixed: num_records = 4
for record in range(num_records):
    file.Write_ordered(np.full(2, record))  # <- here
file.Close()
