"""Communicators of active ranks are made by those that are active only."""
# ranks: 4
# finding: mismatch operation
# out of line: 3
# cause: rank-conditional-call | different-collectives | skipped-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
particles = np.arange(10 * (3 - comm.rank))
active = None
if len(particles):  # fixed: if True:
    active = comm.Split(0 if len(particles) else MPI.UNDEFINED, comm.rank)  # <- here
if active is not None and active != MPI.COMM_NULL:
    total = active.allreduce(len(particles))
count = comm.allreduce(len(particles))
print("rank", comm.rank, count)
