"""Decodes files of very different length; the files are split by their number."""

import time

from mpi4py import MPI

LENGTHS = [2] * 12 + [30] * 6  # sorted by length, as `ls -S` gives them
SECONDS_PER_UNIT = 0.01


def decode(length):
    time.sleep(length * SECONDS_PER_UNIT)
    return float(length)


comm = MPI.COMM_WORLD
mine = range(comm.rank, len(LENGTHS), comm.size)  # long and short ones for every rank
decoded = sum(decode(LENGTHS[file]) for file in mine)
total = comm.allreduce(decoded)
print(f"rank {comm.rank}: total {total:.0f}")
