"""The first two ranks make a grid of 2 x 2 of themselves."""
# ranks: 3
# finding: peer-gone
# out of line: 0 1 | 0 | 1
# cause: exception

from mpi4py import MPI

comm = MPI.COMM_WORLD
part = comm.Split(color=comm.rank // 2, key=comm.rank)
shape = [2, 2] if comm.rank < 2 else [1, 1]  # fixed: shape = MPI.Compute_dims(part.size, 2)
grid = part.Create_cart(shape)  # <- here
comm.Barrier()
grid.Free()
part.Free()
