"""Only ranks with work exchange with their neighbours in the graph; rank 3 is in a barrier already."""
# ranks: 4
# finding: deadlock
# out of line: 3
# cause: rank-conditional-call | skipped-call

from mpi4py import MPI

comm = MPI.COMM_WORLD
sources = [(comm.rank - 1) % comm.size]
graph = comm.Create_dist_graph_adjacent(sources, [(comm.rank + 1) % comm.size])
if comm.rank != 3:  # fixed: if True:
    graph.neighbor_allgather(comm.rank)  # <- here
comm.Barrier()
