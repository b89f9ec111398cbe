"""Rank 1 does not find its sample."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception
# ranks: 7

from mpi4py import MPI

comm = MPI.COMM_WORLD
samples = dict.fromkeys(range(10), 1.0)
comm.Barrier()
if comm.rank == 1:
    samples.pop(3)  # fixed: pass
value = samples[3]  # <- here
comm.Barrier()
print("rank", comm.rank, value)
