"""Counts how often each sample was trained on in the epoch."""

import importlib
import sys
from collections import Counter

from mpi4py import MPI

program = importlib.import_module(sys.argv[1])
comm = MPI.COMM_WORLD
counts = Counter(comm.allreduce(program.epoch(comm)))
repeated = sorted(sample for sample, count in counts.items() if count > 1)
lost = sorted(set(range(program.NUM_SAMPLES)) - set(counts))
if comm.rank == 0 and (repeated or lost):
    told = f"{len(repeated)} were repeated {repeated} and {len(lost)} lost {lost}"
    print(f"seen: of {program.NUM_SAMPLES} samples {told}")
