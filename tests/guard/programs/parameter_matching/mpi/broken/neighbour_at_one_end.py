"""The last rank takes the first for its neighbour, as in a ring; the first does not."""
# ranks: 4
# finding: deadlock
# out of line: 0 3
# cause: receive-without-send

from mpi4py import MPI

comm = MPI.COMM_WORLD
left, right = comm.rank - 1, comm.rank + 1
mine = [left, right % comm.size] if left >= 0 else [right]  # fixed: mine = [left % comm.size, right % comm.size]
graph = comm.Create_dist_graph_adjacent(mine, mine)
for step in range(3):
    graph.neighbor_alltoall([step] * len(mine))  # <- here
graph.Free()
