"""The judge tells its patience which ranks are inside a call: of those it need not wait until they are not starved."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from tests.guard.verdict.simulated import WORLD, communicators, message

from paceline.guard.judge import judge as judge_module
from paceline.guard.judge import patience
from paceline.guard.judge.judge import Judge
from paceline.guard.judge.patience import GATHER_SECONDS, MOST_SECONDS
from paceline.guard.shared_memory.layout import COMMS_AT, THREADS_AT
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.snapshot import Call, RankState, Snapshot, Waiting

_LOOK_SECONDS = 0.02


class _BusyMachine:
    """A job of three on a machine where ranks get little of a processor: two wait for each other, for ever."""

    name = "job"
    worlds: ClassVar[dict[str, Any]] = {}
    world_ranks: ClassVar[dict[int, Any]] = {}
    is_spread = False

    def __init__(self, *, third_is_inside: bool) -> None:
        self.now = 100.0
        # a rank waits for the processor nearly all the time, and has it for a moment now and then
        process = SimpleNamespace(
            starved_seconds=lambda: 0.95 * self.now, processor_seconds=lambda: 0.05 * self.now,
            activity=lambda: SimpleNamespace(state="S"),
        )  # fmt: skip
        self.ranks = {rank: SimpleNamespace(process=process) for rank in range(3)}
        calls = [message("Recv", 5, 1), message("Recv", 5, 0)]
        states = [
            RankState(rank=rank, threads=(Waiting(call=call),), positions={WORLD: 1}, history=(call,))
            for rank, call in enumerate(calls)
        ]
        # the third is in a call that all have come to: it only has to leave it
        barrier = Call(operation="Barrier", communicator=WORLD, sequence=1, site="train.py:3")
        last: Waiting | None = Waiting(call=barrier) if third_is_inside else None
        states.append(RankState(rank=2, threads=(last,), positions={WORLD: 1}, history=(barrier,)))
        self._snapshot = Snapshot(ranks=states, communicators=communicators(3))
        self._inside = {0, 1, 2} if third_is_inside else {0, 1}

    def note_memory(self) -> None:
        pass

    def marks(self) -> dict[int, tuple[int, ...]]:
        marks = {}
        for rank in self.ranks:
            words = [0] * (COMMS_AT + 1)
            words[THREADS_AT] = int(rank in self._inside)
            marks[rank] = tuple(words)
        return marks

    def snapshot(self, history: int) -> Snapshot:
        return self._snapshot

    def rename(self, name: str) -> str:
        return name

    def any_is_ending(self) -> bool:
        return False


def _seconds_until_told(machine: _BusyMachine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[float, Finding]:
    clock = SimpleNamespace(monotonic=lambda: machine.now, monotonic_ns=lambda: int(machine.now * 1e9))
    monkeypatch.setattr(patience, "time", clock)
    monkeypatch.setattr(judge_module, "time", clock)
    rings = SimpleNamespace(jobs=lambda: [machine], starting=lambda: [])
    judge = Judge(cast(Any, rings), folder)
    while machine.now < 110.0:
        finding = judge.look()
        if finding is not None:
            return machine.now - 100.0, finding
        machine.now += _LOOK_SECONDS
    pytest.fail("nothing was told")


def test_a_rank_inside_a_call_is_waited_for_no_longer_than_it_needs_to_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds, finding = _seconds_until_told(_BusyMachine(third_is_inside=True), tmp_path, monkeypatch)
    assert finding.ranks == (0, 1)
    assert GATHER_SECONDS <= seconds < GATHER_SECONDS + 10 * _LOOK_SECONDS


def test_a_rank_that_computes_and_is_starved_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, finding = _seconds_until_told(_BusyMachine(third_is_inside=False), tmp_path, monkeypatch)
    assert finding.ranks == (0, 1)
    assert seconds >= MOST_SECONDS
