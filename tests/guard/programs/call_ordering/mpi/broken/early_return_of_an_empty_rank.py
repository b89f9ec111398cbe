"""A helper returns at once if a rank has no particles, and leaves out the collectives of the helper."""
# ranks: 4
# finding: mismatch operation
# out of line: 3
# cause: skipped-call | rank-conditional-call | different-collectives
# says: left out
# says: and the allreduce at

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def centre_of_mass(positions):
    if len(positions) == 0:
        return np.zeros(3)  # fixed: pass
    total = comm.allreduce(positions.sum(axis=0) if len(positions) else np.zeros(3))  # <- here
    count = comm.allreduce(len(positions))  # <- here
    return total / count


def kinetic_energy(velocities):
    return comm.reduce(float((velocities**2).sum()), root=0)


rng = np.random.default_rng(comm.rank)
positions = rng.normal(size=(12 - 2 * comm.rank, 3))
for step in range(6):
    if comm.rank == 3:
        positions = positions[: max(0, 6 - 2 * step)]
    centre_of_mass(positions)
    kinetic_energy(positions)
print("rank", comm.rank, "done")
