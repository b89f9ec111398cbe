"""The classic bug, as a job: each rank takes ceil(N / W) samples and the last rank whatever remains.

Run bare, it hangs: `mpiexec -n 7 python examples/classic.py`. Under the guard, it says why:
`paceline run -n 7 examples/classic.py`.
"""

from math import ceil

import numpy
from mpi4py import MPI

NUM_SAMPLES, BATCH_SIZE, NUM_EPOCHS = 100, 3, 1

comm = MPI.COMM_WORLD
share = ceil(NUM_SAMPLES / comm.size)
samples = range(comm.rank * share, min(NUM_SAMPLES, (comm.rank + 1) * share))
total = numpy.zeros(1)

for _ in range(NUM_EPOCHS):
    for step in range(len(samples) // BATCH_SIZE):
        batch = samples[step * BATCH_SIZE : (step + 1) * BATCH_SIZE]
        total += sum(batch)
        comm.Barrier()  # all ranks end each step together
    comm.Barrier()  # all ranks end each epoch together

everything = numpy.zeros(1)
comm.Reduce(total, everything, root=0)
if comm.rank == 0:
    print("sum of all samples:", everything[0])
