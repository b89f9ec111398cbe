"""Neighbours on a line exchange their edges; one rank sends an edge that is wider than its neighbour expects."""
# ranks: 4
# finding: mismatch count
# out of line: 2 3
# cause: splits
# says: rank 2 sends 3 elements to rank 3

import numpy as np
from mpi4py import MPI

line = MPI.COMM_WORLD.Create_cart([4], periods=[False])
sends = [2, 2]
if line.rank == 2:
    sends = [2, 3]  # fixed: sends = [2, 2]
expects = [2, 2]
given, taken = np.ones(sum(sends)), np.zeros(sum(expects))
line.Neighbor_alltoallv([given, sends], [taken, expects])  # <- here
print("rank", line.rank, taken.tolist())
