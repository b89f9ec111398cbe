"""A collective that is refused before anything is sent has not been made: the next one takes its position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from paceline.guard.observe.board_reader import differing_positions
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.compiled_recorder import RecorderInUse
from paceline.guard.rank.remarks.withdrawn_calls import is_refusal, withdraw
from paceline.guard.rank.watched_calls import make_wait
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory.layout import FAILED, WITHDRAWN
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rules.mismatch import doubtful_positions, find_mismatch, is_doubtful
from paceline.guard.verdict.snapshot import Call, Membership, Position, RankState, Snapshot, Waiting

ALLREDUCE, BARRIER, BCAST = (BY_NAME[name].code for name in ("Allreduce", "Barrier", "bcast"))
WORLD = "mpi-world"
KINDS: Sequence[type[Recorder]] = (Recorder, RecorderInUse)


class RanksOnBoards:
    """Ranks of one job that write to the same boards, and what each of them stopped for."""

    def __init__(self, kind: type[Recorder], folder: Path, num: int = 2) -> None:
        self.recorders = [kind(folder, f"world.0.{rank}", rank=rank, world_size=num) for rank in range(num)]
        self.stops: list[tuple[int, int]] = []
        self.worlds: list[Communicator] = []
        for rank, recorder in enumerate(self.recorders):
            recorder.stop = self._noting(rank)  # type: ignore[assignment, method-assign]
            made = recorder.communicator("mpi-world", "WORLD", range(num), rank)
            assert made is not None
            self.worlds.append(made)
        self._folder = folder

    def _noting(self, rank: int) -> Callable[[int, int, int], None]:
        return lambda number, reason, peer: self.stops.append((rank, peer))

    def call(self, rank: int, operation: int, *, num_bytes: int = -1) -> int:
        """Begin a collective; return its record."""
        recorder = self.recorders[rank]
        return recorder.begin_collective(self.worlds[rank], operation, num_bytes=num_bytes, depth=1)

    def refuse(self, rank: int, number: int) -> None:
        self.recorders[rank].fail(number)
        withdraw(self.recorders[rank].ring, [self.worlds[rank]], number)
        self.recorders[rank].unblock(number)

    def position(self, rank: int) -> int:
        return self.recorders[rank].position(self.worlds[rank])

    def differing(self) -> list[int]:
        """Return the positions at which the judge sees a difference."""
        return [sequence for _, sequence in differing_positions(self._folder, ["world"])]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def ranks(request: pytest.FixtureRequest, tmp_path: Path) -> RanksOnBoards:
    return RanksOnBoards(request.param, tmp_path)


def test_a_rank_that_was_refused_alone_makes_its_next_call_at_that_position(ranks: RanksOnBoards) -> None:
    ranks.refuse(1, ranks.call(1, ALLREDUCE, num_bytes=8))
    assert ranks.position(1) == 0
    ranks.call(0, ALLREDUCE, num_bytes=32)  # what was withdrawn is compared with nobody
    assert (ranks.stops, ranks.differing()) == ([], [])
    ranks.call(1, ALLREDUCE, num_bytes=32)
    assert (ranks.position(0), ranks.position(1)) == (1, 1)
    assert (ranks.stops, ranks.differing()) == ([], [])


def test_all_that_are_refused_fall_back_together_however_late(ranks: RanksOnBoards) -> None:
    ranks.refuse(0, ranks.call(0, ALLREDUCE, num_bytes=32))
    ranks.call(0, BCAST)
    late = ranks.call(1, ALLREDUCE, num_bytes=32)
    assert ranks.stops == []  # it may be about to be refused, as the other was
    assert ranks.differing() == [1]  # which the judge has to wait for
    ranks.refuse(1, late)
    ranks.call(1, BCAST)
    assert (ranks.stops, ranks.differing()) == ([], [])
    for rank in (0, 1):
        ranks.call(rank, BARRIER)
        assert ranks.position(rank) == 2


def test_a_rank_that_leaves_the_refused_call_out_differs_from_the_others(ranks: RanksOnBoards) -> None:
    ranks.call(0, ALLREDUCE, num_bytes=32)
    ranks.refuse(1, ranks.call(1, ALLREDUCE, num_bytes=32))
    ranks.call(1, BARRIER)
    assert (ranks.stops, ranks.differing()) == ([], [1])


def test_calls_after_the_position_are_compared_as_ever(ranks: RanksOnBoards) -> None:
    ranks.refuse(0, ranks.call(0, ALLREDUCE))
    for rank in (0, 1):
        ranks.call(rank, ALLREDUCE)
    ranks.call(0, BARRIER)
    ranks.call(1, ALLREDUCE)
    assert ranks.stops == [(1, 0)]


def test_what_may_have_been_sent_is_not_withdrawn(ranks: RanksOnBoards) -> None:
    ranks.refuse(0, ranks.call(0, BCAST))  # it moves objects: those that came may be why it raised
    assert ranks.position(0) == 1
    first = ranks.call(0, BARRIER)
    ranks.call(0, BARRIER)  # by another thread
    ranks.refuse(0, first)
    assert ranks.position(0) == 3


def test_a_collective_that_was_posted_stays_made_if_its_wait_raises(
    ranks: RanksOnBoards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SESSION, "recorder", ranks.recorders[0])
    posted = ranks.call(0, ALLREDUCE, num_bytes=8)
    with pytest.raises(TypeError):
        make_wait(ranks.recorders[0], posted, posted, len, (3,), {})  # a status that is not one
    assert ranks.position(0) == 1
    SESSION.note_failure(TypeError("a buffer that is not one"), ranks.call(0, BARRIER))
    assert ranks.position(0) == 1


class UnspeakableError(RuntimeError):
    """What a user's own exception may be: it does not even have a text."""

    def __str__(self) -> str:
        raise AttributeError("code")


@pytest.mark.parametrize(
    ("error", "refuses"),
    [
        (ValueError("ndarray is not contiguous"), True),
        (RuntimeError("ProcessGroupGloo::allgather: invalid tensor size at index 0 (expected (3), got (2))"), True),
        (RuntimeError("Invalid scalar type"), True),
        (RuntimeError("Cannot use ReduceOp.BAND with non-integral dtype"), True),
        (UnspeakableError(3), False),
        (RuntimeError("[transport/tcp/pair.cc:547] Connection closed by peer"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_only_wrong_arguments_are_a_refusal(error: BaseException, refuses: bool) -> None:
    assert is_refusal(error) is refuses


# the judge's view


def _state(rank: int, call: Call, *past: Call) -> RankState:
    return RankState(rank=rank, threads=(Waiting(call=call),), positions={WORLD: 1}, history=(*past, call))


def _inspection(*ranks: RankState) -> Inspection:
    world = Membership(name="WORLD", ranks=tuple(range(len(ranks))))
    return Inspection(Snapshot(ranks=ranks, communicators={WORLD: world}))


def _call(operation: str, line: int, **more: Any) -> Call:
    return Call(operation=operation, communicator=WORLD, site=f"train.py:{line}", sequence=1, **more)


def test_a_difference_is_in_doubt_while_a_call_may_still_be_refused() -> None:
    refused = _call("Allreduce", 5, flags=FAILED | WITHDRAWN)
    ranks = _state(0, _call("Allreduce", 5)), _state(1, _call("bcast", 7, number=1), refused)
    assert is_doubtful(_inspection(*ranks), Position(WORLD, 1))
    assert find_mismatch(_inspection(*ranks)) is None
    assert doubtful_positions(_inspection(*ranks)) == [Position(WORLD, 1)]
    plain = _state(1, _call("bcast", 7, number=1))
    assert not is_doubtful(_inspection(ranks[0], plain), Position(WORLD, 1))
    assert find_mismatch(_inspection(ranks[0], plain)) is not None


def test_a_difference_is_certain_once_both_calls_were_carried_out() -> None:
    refused = _call("Allreduce", 5, flags=FAILED | WITHDRAWN)
    ranks = _state(0, _call("Allreduce", 5, left_ns=3)), _state(1, _call("bcast", 7, number=1, left_ns=4), refused)
    assert not is_doubtful(_inspection(*ranks), Position(WORLD, 1))
