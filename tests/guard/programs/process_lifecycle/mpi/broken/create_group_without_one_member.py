"""All make a group of all, but the last member has left."""
# ranks: 4
# finding: peer-gone
# out of line: 3

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
group = comm.Get_group().Incl(range(comm.size))
if comm.rank != comm.size - 1:  # fixed: if True:
    team = comm.Create_group(group, tag=7)  # <- here
    team.Barrier()
print("rank", comm.rank, "done")
