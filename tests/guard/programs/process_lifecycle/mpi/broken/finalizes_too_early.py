"""A rank without data calls Finalize by itself and returns, while the others still reduce."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: early-exit
# says: rank 2 called MPI.Finalize at

from mpi4py import MPI

comm = MPI.COMM_WORLD


def main():
    data = comm.scatter([[1, 2], [3], []] if comm.rank == 0 else None)
    if not data:
        MPI.Finalize()  # <- here # fixed: pass
        return  # fixed:
    print(comm.reduce(sum(data)))


main()
