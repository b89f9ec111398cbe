"""A cache makes one communicator per pair of ranks, uses it many times, and frees all at the end."""
# ranks: 3

from mpi4py import MPI

comm = MPI.COMM_WORLD
cache = {}


def part(members):
    if members not in cache:
        world = comm.Get_group()
        group = world.Incl(members)
        cache[members] = comm.Create_group(group)
        group.Free()
        world.Free()
    return cache[members]


for _ in range(40):
    for members in ((0, 1), (1, 2), (0, 2)):
        if comm.rank in members:
            assert part(members).allreduce(1) == 2
for communicator in cache.values():
    communicator.Free()
print("rank", comm.rank, sorted(cache))
