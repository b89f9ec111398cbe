"""Ranks of mpi4py that make a given number of calls of many kinds: `soak_calls.py CALLS FOLDER`, and nothing is wrong.

Two threads each have communicators of their own. Communicators and groups are made and freed all the time. Each rank
writes how many calls it has made.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
from mpi4py import MPI

_ROUNDS_OF_A_COMMUNICATOR = 20
_ALONE, _IN_PAIRS, _TOGETHER = 200, 12, 2  # calls of a round: most of them wait for nobody


class Caller:
    """Makes calls on communicators of its own, and counts them."""

    def __init__(self, world: MPI.Intracomm, number: int) -> None:
        self.num_calls, self._number = 0, number
        self._world, self._alone = world, MPI.COMM_SELF.Dup()
        self._numbers, self._sum = np.zeros(8), np.zeros(8)

    def make(self, num_calls: int) -> None:
        """Make about this number of calls; all ranks make as many."""
        turn = 0
        while self.num_calls < num_calls:
            made = self._make_communicator(turn)
            for _ in range(_ROUNDS_OF_A_COMMUNICATOR):
                self._make_round(made)
            made.Free()
            turn += 1
            self.num_calls += 2

    def _make_communicator(self, turn: int) -> MPI.Intracomm:
        """Make a communicator in one of several ways; all of them have an even number of ranks."""
        world = self._world
        if turn % 3 == 0:
            return world.Dup()
        if turn % 3 == 1:
            return world.Split(world.rank // 2 % 2, world.rank)
        everybody = world.Get_group()
        half = everybody.Incl([rank for rank in range(world.size) if rank // 2 % 2 == world.rank // 2 % 2])
        made = world.Create_group(half, tag=self._number)
        half.Free()
        everybody.Free()
        return made

    def _make_round(self, made: MPI.Intracomm) -> None:
        for _ in range(_ALONE // 2):
            self._alone.Allreduce(self._numbers, self._sum)
            self._alone.Bcast(self._numbers)
        peer = made.rank ^ 1
        for tag in range(_IN_PAIRS // 4):
            made.Sendrecv(self._numbers, peer, tag, self._sum, peer, tag)
            request = made.Irecv(self._sum, peer, tag)
            made.Send(self._numbers, peer, tag)
            request.Wait()
        for _ in range(_TOGETHER // 2):
            made.Allreduce(self._numbers, self._sum)
            made.Barrier()
        self.num_calls += _ALONE + _IN_PAIRS + _TOGETHER


def main(num_calls: int, folder: Path) -> None:
    world = MPI.COMM_WORLD
    assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
    callers = [Caller(world.Dup(), number) for number in range(2)]
    threads = [threading.Thread(target=caller.make, args=(num_calls // 2,)) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (folder / f"calls.{world.rank}").write_text(str(sum(caller.num_calls for caller in callers)))
    for caller in callers:
        caller._world.Free()
        caller._alone.Free()
    world.Barrier()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
