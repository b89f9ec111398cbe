"""What came out of collectives: who sees a difference, and how results become checksums."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.rank.mpi.mpi_results import MpiResults
from paceline.guard.rank.remarks.compared_results import ComparedResults
from paceline.guard.rank.watched_calls import make_blocked_call
from paceline.guard.shared_memory.layout import BOARD_ROWS
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.shared_memory.result_board import ResultBoard

ALLREDUCE = BY_NAME["Allreduce"].code
TYPE = type("Datatype", (), {})
MPI = SimpleNamespace(Datatype=TYPE, IN_PLACE=object(), BOTTOM=object(), BYTE=TYPE(), PACKED=TYPE(), CHAR=TYPE())


def test_the_later_member_sees_the_earlier_ones_and_nobody_sees_other_positions(tmp_path: Path) -> None:
    boards = [ResultBoard(tmp_path / "board", member, 3) for member in range(3)]
    assert boards[0].meet(5, 7) == {0: 7}
    assert boards[2].meet(5, 8) == {0: 7, 2: 8}
    assert boards[1].meet(5 + BOARD_ROWS, 9) == {1: 9}
    assert boards[1].meet(5, 0) == {0: 7, 1: 0, 2: 8}


class Job:
    """Ranks of one process that compare their results."""

    def __init__(self, folder: Path, num_ranks: int) -> None:
        self.recorders = [
            Recorder(folder, f"world.{rank}", rank=rank, world_size=num_ranks) for rank in range(num_ranks)
        ]
        self._compared = [ComparedResults() for _ in range(num_ranks)]
        made = [
            recorder.communicator("mpi-world", "WORLD", range(num_ranks), rank)
            for rank, recorder in enumerate(self.recorders)
        ]
        self._communicators = [communicator for communicator in made if communicator is not None]

    def call(self, rank: int, checksum: int) -> None:
        recorder, communicator = self.recorders[rank], self._communicators[rank]
        number = recorder.begin_collective(communicator, ALLREDUCE, depth=1)
        recorder.unblock(number)
        self._compared[rank].compare(recorder, number, communicator, checksum)

    def told(self, rank: int) -> list[dict[str, Any]]:
        reader = RingReader(self.recorders[rank].folder / f"ring.world.{rank}")
        reader.read_texts()
        found = [dict(remark.facts) for remark in reader.remarks()]
        reader.close()
        return found


def test_the_first_difference_is_told_by_those_who_see_it(tmp_path: Path) -> None:
    job = Job(tmp_path, 3)
    for checksums in ((1, 1, 1), (2, 3, 2), (4, 4, 5)):
        for rank, checksum in enumerate(checksums):
            job.call(rank, checksum)
    identity = job._communicators[0].identity
    assert job.told(0) == []
    assert job.told(1) == [{"on": identity, "call": 2, "sums": [[0, 2], [1, 3]]}]
    assert job.told(2) == [{"on": identity, "call": 2, "sums": [[0, 2], [1, 3], [2, 2]]}]


def checksum(data: Any) -> int | None:
    buffers = Buffers(MPI)
    buffers.size(np.zeros(1))
    return MpiResults(buffers, lambda comm: None)._checksum(data)


def test_equal_results_have_one_checksum_in_whatever_form() -> None:
    assert checksum(np.ones(3)) == checksum(np.ones(3))
    assert checksum(np.array([0.0, 1.0])) == checksum(np.array([-0.0, 1.0]))
    assert checksum(bytearray(b"abc")) == checksum(b"abc")


def test_one_bit_makes_another_checksum() -> None:
    assert checksum(np.ones(3)) != checksum(np.nextafter(np.ones(3), 2.0))
    assert checksum(np.array([1, 2])) != checksum(np.array([1, 3]))


@pytest.mark.parametrize("data", [np.array([1.0, np.nan]), [np.ones(2), 1, TYPE()], None, object()])
def test_what_has_no_one_form_is_not_compared(data: Any) -> None:
    assert checksum(data) is None


def test_calls_that_do_not_give_all_the_same_are_made_as_ever() -> None:
    results = MpiResults(Buffers(MPI), lambda comm: None)
    assert results.making("Reduce") is make_blocked_call
    assert results.making("Allreduce") is not make_blocked_call
