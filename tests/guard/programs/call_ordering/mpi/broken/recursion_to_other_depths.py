"""A recursive refinement reduces at every level; one rank refines deeper than the others."""
# ranks: 3
# finding: mismatch operation | mismatch
# out of line: 0
# cause: uneven-steps | extra-call | rank-conditional-call | different-collectives

from mpi4py import MPI

comm = MPI.COMM_WORLD


def refine(interval, tolerance, depth=0):
    low, high = interval
    widest = comm.allreduce(high - low, op=MPI.MAX)  # <- here
    is_fine = high - low < tolerance  # fixed: is_fine = widest < tolerance
    if is_fine or widest > 100:
        return depth
    return refine((low, (low + high) / 2), tolerance, depth + 1)


width = 8.0 if comm.rank == 0 else 2.0
depth = refine((0.0, width), 0.6)
depths = comm.gather(depth, root=0)
if comm.rank == 0:
    print(depths)
