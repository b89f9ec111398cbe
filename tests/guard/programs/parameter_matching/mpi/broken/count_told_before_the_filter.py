"""The root tells the others how many particles come, and then drops some of them."""
# ranks: 3
# finding: mismatch count
# out of line: 0
# cause: shape
# says: tell them its size before the call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
random = np.random.default_rng(3)
for step in range(5):
    particles = random.random(30) if comm.rank == 0 else None
    # fixed: particles = particles[particles > 0.5] if comm.rank == 0 else None
    count = comm.bcast(len(particles) if comm.rank == 0 else None)
    if comm.rank == 0 and step == 3:
        particles = particles[particles > 0.5]
    if comm.rank != 0:
        particles = np.empty(count)
    comm.Bcast(particles, root=0)  # <- here
print("rank", comm.rank, "done")
