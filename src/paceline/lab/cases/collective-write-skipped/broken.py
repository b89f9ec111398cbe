"""Ranks write a table to one file, in turns: in each turn every rank writes a row."""

import numpy as np
from mpi4py import MPI

NUM_ROWS, NUM_COLUMNS = 11, 4

comm = MPI.COMM_WORLD
table = np.arange(NUM_ROWS * NUM_COLUMNS, dtype="f8").reshape(NUM_ROWS, NUM_COLUMNS)
file = MPI.File.Open(comm, "table.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
for first in range(0, NUM_ROWS, comm.size):
    row = first + comm.rank
    if row < NUM_ROWS:
        file.Write_at_all(row * table.strides[0], table[row])
file.Close()
comm.Barrier()
print(f"rank {comm.rank}: the file sums to {np.fromfile('table.bin').sum():.0f}")
