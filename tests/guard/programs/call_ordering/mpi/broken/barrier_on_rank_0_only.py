"""A barrier under `if rank == 0`; the others come to the end of the script."""
# ranks: 3
# finding: peer-gone
# out of line: 0
# cause: rank-conditional-call

from mpi4py import MPI

comm = MPI.COMM_WORLD
print("rank", comm.rank, "has finished", flush=True)
if comm.rank == 0:  # fixed: if True:
    comm.Barrier()  # <- here
    print("all have finished")
