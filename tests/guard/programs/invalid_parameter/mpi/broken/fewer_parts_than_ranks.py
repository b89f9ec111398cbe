"""The root deals a list that has one part less than there are ranks."""
# ranks: 3
# finding: peer-gone
# out of line: 0
# cause: exception

from mpi4py import MPI

comm = MPI.COMM_WORLD
parts = ["first", "second"]  # fixed: parts = ["first", "second", "third"]
mine = comm.scatter(parts if comm.rank == 0 else None, root=0)  # <- here
print("rank", comm.rank, mine)
