"""Neighbourhood collectives: rings, lines, graphs with ranks that have no neighbours, uneven counts, late ranks."""
# ranks: 5

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
ring = comm.Create_cart([comm.size], periods=[True])
halo = np.zeros(2)
for step in range(5):
    if comm.rank == step:
        time.sleep(0.2)
    ring.Neighbor_alltoall(np.full(2, comm.rank, dtype="f8"), halo)
print("rank", comm.rank, halo)
line = comm.Create_cart([comm.size], periods=[False])
print("rank", comm.rank, line.neighbor_allgather(comm.rank))
line.Ineighbor_allgather(np.full(1, comm.rank, dtype="f8"), halo).Wait()
# a chain from rank 0 to rank 3; rank 4 meets nobody
sources = [comm.rank - 1] if 0 < comm.rank < 4 else []
chain = comm.Create_dist_graph_adjacent(sources, [comm.rank + 1] if comm.rank < 3 else [])
if comm.rank == 0:
    time.sleep(0.6)
counts = [comm.rank] if comm.rank < 3 else []
got = np.zeros(comm.rank)
chain.Neighbor_alltoallv([np.ones(comm.rank), counts], [got, [comm.rank - 1] if sources else []])
print("rank", comm.rank, got.sum(), chain.neighbor_alltoall([comm.rank] * len(counts)))
graph = comm.Create_graph([1, 2, 3, 4, 4], [1, 0, 3, 2])
print("rank", comm.rank, graph.neighbor_allgather(comm.rank))
