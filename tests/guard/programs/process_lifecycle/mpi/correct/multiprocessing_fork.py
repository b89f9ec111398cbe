"""Each rank has a forked pool, and a forked child that ends badly."""
# ranks: 3

import multiprocessing
import os

from mpi4py import MPI


def square(value: int) -> int:
    return value * value


def leave() -> None:
    os._exit(4)


comm = MPI.COMM_WORLD
comm.Barrier()
context = multiprocessing.get_context("fork")
with context.Pool(2) as pool:
    squares = pool.map(square, range(5))
child = context.Process(target=leave)
child.start()
child.join()
print("rank", comm.rank, comm.allreduce(sum(squares)), child.exitcode)
