"""Each rank starts a fresh Python process that imports this file again."""
# ranks: 2

import multiprocessing
import sys


def square(value: int) -> int:
    return value * value


def main() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    comm.Barrier()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        squares = pool.map(square, range(5))
    print("rank", comm.rank, comm.allreduce(sum(squares)))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
