"""Every rank reads its column of a file, line by line, in step with the others."""

import io

from mpi4py import MPI

TABLE = """\
1.0 2.0 3.0
1.5 2.5 3.5
1.0 n/a 3.0
2.0 2.0 2.0
"""

comm = MPI.COMM_WORLD
total = 0.0
for line in io.StringIO(TABLE):
    total += float(line.split()[comm.rank])
    comm.Barrier()
print(f"rank {comm.rank}: total {total}")
