"""Three ranks are members of a new group; a wrong bound leads one of them past the call that makes it."""
# ranks: 5
# finding: deadlock
# out of line: 2
# cause: skipped-call

from mpi4py import MPI

comm = MPI.COMM_WORLD
members = [0, 1, 2]
group = comm.group.Incl(members)
team = MPI.COMM_NULL
if comm.rank < len(members) - 1:  # fixed: if comm.rank < len(members):
    team = comm.Create_group(group)  # <- here
if team != MPI.COMM_NULL:
    print(team.allreduce(1))
comm.Barrier()
