"""All make a group of all, but the last member has left."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
group = comm.Get_group().Incl(range(comm.size))
if comm.rank != comm.size - 1:
    team = comm.Create_group(group, tag=7)  # <- here
    team.Barrier()
print("rank", comm.rank, "done")
