"""Ranks exchange halos in step; rank 0 alone has an observer, which asks for the energy of all."""
# ranks: 4
# finding: deadlock
# out of line: 0
# cause: rank-conditional-call
# says: which no other rank has made; it waits there for the other ranks

import numpy as np
from mpi4py import MPI


class Simulation:
    def __init__(self, comm):
        self.comm, self.values, self.observers = comm, np.full(4, float(comm.rank)), []

    @property
    def energy(self):
        return self.comm.allreduce(float(self.values @ self.values))  # <- here

    def exchange(self):
        right, left = (self.comm.rank + 1) % self.comm.size, (self.comm.rank - 1) % self.comm.size
        self.comm.Sendrecv(self.values[-1:], dest=right, recvbuf=self.values[:1], source=left)

    def run(self, num_steps):
        for self.step in range(num_steps):
            self.exchange()
            for observe in self.observers:
                observe(self)


def log_energy(simulation):
    if simulation.step % 5 == 0:
        energy = simulation.energy
        if simulation.comm.rank == 0:
            print("energy", energy)


simulation = Simulation(MPI.COMM_WORLD)
if simulation.comm.rank == 0:  # fixed: if True:
    simulation.observers.append(log_energy)
simulation.run(10)
print("rank", simulation.comm.rank, "done")
