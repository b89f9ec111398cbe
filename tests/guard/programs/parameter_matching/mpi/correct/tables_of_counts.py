"""Uneven tables of counts that fit by pairs: all forms, zeros, types that differ in nothing, parts of the world."""
# ranks: 4

import array

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD


def exchange(comm):
    rank, size = comm.rank, comm.size
    table = [[(3 * sender + receiver) % 4 for receiver in range(size)] for sender in range(size)]
    sends, expects = table[rank], [row[rank] for row in table]
    given, taken = np.full(sum(sends), rank, dtype="f8"), np.zeros(sum(expects))
    comm.Alltoallv([given, sends], [taken, expects])
    comm.Alltoallv([given, np.array(sends)], [taken, np.array(expects, dtype="i4")])
    comm.Alltoallv([given, (sends, None)], [taken, (expects, None), MPI.DOUBLE])
    comm.Alltoallv([given, array.array("i", sends), None, "d"], [taken, tuple(expects), None, MPI.DOUBLE])
    comm.Alltoallv([given.view("u1"), [8 * n for n in sends], MPI.BYTE], [taken, expects])  # bytes for floats
    triple = MPI.DOUBLE.Create_contiguous(3).Commit()
    comm.Alltoallv([np.ones(3 * size), 1, triple], [np.zeros(3 * size), 3, MPI.DOUBLE])  # a type of the user's own
    triple.Free()
    comm.Ialltoallv([given, sends], [taken, expects]).Wait()
    square = np.array([[(a + b) % 3 for b in range(size)] for a in range(size)])
    comm.Alltoallv(MPI.IN_PLACE, [np.full(square[rank].sum(), rank), square[rank]])
    comm.Alltoallv(np.zeros(size + 1), np.zeros(size * (2 if rank == 0 else 1)))  # mpi4py works the counts out

    mine = np.full(rank, rank, dtype="i8")
    counts = list(range(size))
    everything = np.zeros(sum(counts), dtype="i8")
    for root in range(size):
        if rank == root:
            comm.Gatherv(mine, [everything, counts], root=root)
            everything[sum(counts[:rank]) :][: counts[rank]] = mine
            comm.Gatherv(MPI.IN_PLACE, [everything, counts], root)
            comm.Scatterv([everything, (counts, None), MPI.INT64_T], MPI.IN_PLACE, root=root)
        else:
            comm.Gatherv(mine, None, root=root)
            comm.Gatherv([mine, rank, MPI.INT64_T], None, root)
            comm.Scatterv(None, mine, root=root)
    comm.Allgatherv(mine, [everything, counts])
    comm.Allgatherv(MPI.IN_PLACE, [everything, counts])
    comm.Iallgatherv([mine, MPI.LONG], [everything, counts, MPI.LONG]).Wait()
    part = np.zeros(rank)
    comm.Reduce_scatter(np.ones(sum(counts)), part, counts)
    comm.Reduce_scatter(np.ones(sum(counts)), part)
    return taken.sum(), everything.sum(), part.sum()


def types_of_their_own(comm):
    size = comm.size
    types = [MPI.DOUBLE if (comm.rank + other) % 2 else MPI.INT for other in range(size)]
    places = [8 * other for other in range(size)]
    sent, received = np.zeros(8 * size, dtype="u1"), np.zeros(8 * size, dtype="u1")
    comm.Alltoallw([sent, ([1] * size, places), types], [received, ([1] * size, places), types])
    comm.Alltoallw([sent, [1] * size, places, types], [received, [1] * size, places, types])


def among_neighbours():
    """On a ring, a line, a ring of two, and a graph of the user's own, with a width for each direction."""
    for dims, periods in (([4], [True]), ([4], [False]), ([2, 2], [True, False])):
        grid = world.Create_cart(dims, periods)
        to_left, to_right = [1, 2] * len(dims), [2, 1] * len(dims)  # what goes left comes from the right
        grid.Neighbor_alltoallv([np.ones(3 * len(dims)), to_left], [np.zeros(3 * len(dims)), to_right])
        if 2 not in dims:  # on a ring of two, Open MPI 5.0 takes the message for one side for that of the other
            grid.Ineighbor_alltoallv([np.ones(3 * len(dims)), to_left], [np.zeros(3 * len(dims)), to_right]).Wait()
        grid.Free()
    after, before = (world.rank + 1) % 4, (world.rank - 1) % 4
    graph = world.Create_dist_graph_adjacent([before], [after])
    graph.Neighbor_allgatherv(np.ones(world.rank), [np.zeros(before), [before]])
    graph.Free()


for _ in range(80):  # more often than the board has rows
    found = exchange(world)
half = world.Split(world.rank % 2, -world.rank)
of_half = exchange(half)
types_of_their_own(world)
types_of_their_own(half)
among_neighbours()
prepared = world.Allgatherv_init(np.ones(world.rank), [np.zeros(6), [0, 1, 2, 3]])
for _ in range(3):
    prepared.Start()
    prepared.Wait()
prepared.Free()
half.Free()
print("rank", world.rank, found, of_half)
