"""One rank asks for a group with a rank that the job does not have."""
# ranks: 3
# finding: peer-gone
# out of line: 0
# cause: exception

from mpi4py import MPI

comm = MPI.COMM_WORLD
world = comm.Get_group()
wanted = [0, 3] if comm.rank == 0 else [0, 1]  # fixed: wanted = [0, 1]
pair = world.Incl(wanted)  # <- here
both = comm.Create(pair)
if both != MPI.COMM_NULL:
    both.Free()
pair.Free()
world.Free()
