"""Each step reads a part of the file; rank 1 has cached one of them."""
# ranks: 4
# finding: mismatch operation
# out of line: 1
# cause: skipped-call | uneven-steps

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
file = MPI.File.Open(comm, "parts.bin", MPI.MODE_CREATE | MPI.MODE_RDWR)
file.Set_size(8 * 1024)
part = np.zeros(8)
for step in range(6):
    if comm.rank == 1 and step == 3:
        continue  # fixed: pass
    file.Read_at_all(64 * step, part)  # <- here
file.Close()
