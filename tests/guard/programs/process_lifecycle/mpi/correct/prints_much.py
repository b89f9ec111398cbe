"""Output on both streams, long and short, with and without a flush."""
# ranks: 7

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
for number in range(100):
    print(f"out {comm.rank} {number} " + "x" * 40)
sys.stdout.flush()
print(f"err {comm.rank}", file=sys.stderr)
comm.Barrier()
print(f"last of {comm.rank}, öäü", flush=True)
