"""When native stacks are looked at, and what must hold before ranks that stand still are taken to be stuck for good."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.guard.verdict.simulated import collective, communicators, waits

from paceline.errors import InputError
from paceline.guard.judge import compiled_waits
from paceline.guard.judge.compiled_waits import QUIET_SECONDS, CompiledWaits
from paceline.guard.observe.kernel_view import Activity
from paceline.guard.observe.message_traffic import TrafficTrace
from paceline.guard.observe.outside_help import at_work
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.finding import Finding, FindingKind
from paceline.guard.verdict.snapshot import RankState, Snapshot
from paceline.process.native_stacks import Frame, SpyError, Thread
from paceline.process.procfs import ThreadActivity

IDLE = ThreadActivity("S", 1.0, "futex_wait_queue")
BARRIER = [("poll", "/lib/libc.so.6", 0), ("MPI_Barrier", "/l/libmpi.so.12", 0), ("exchange", "/me/libhalo.so", 0)]
WATCHED = [("MPI_Barrier", "/l/libmpi.so.12", 0), ("Barrier", "/l/mpi4py/MPI.so", 0)]
PYTHON = [("step", "/me/solver.py", 31)]


def stack(pid: int, *frames: tuple[str, str, int]) -> Thread:
    made = tuple(Frame(function=function, file=file, line=line) for function, file, line in frames)
    return Thread(name="MainThread", is_main=True, frames=made, native_id=pid)


@dataclass
class Machine:
    """Two ranks: rank 0 runs by its records, rank 1 waits in a barrier. Their time is set by hand."""

    now: float = 100.0
    stacks: dict[int, Thread | SpyError] = field(
        default_factory=lambda: {10: stack(10, *BARRIER, *PYTHON), 11: stack(11, *WATCHED, *PYTHON)}
    )
    states: dict[int, str] = field(default_factory=lambda: {10: "R", 11: "R"})
    share: float = 1.0  # of a processor that each rank has
    rss_bytes: int = 50_000_000
    threads: dict[int, ThreadActivity] = field(default_factory=lambda: {12: IDLE})
    counted: tuple[int, ...] = (10,)
    device: bool = False
    others: list[int] = field(default_factory=list)
    mark: int = 0
    trace: TrafficTrace | None = field(default_factory=lambda: TrafficTrace(7, None))
    flows: bool = False  # whether messages do
    looks: list[list[int]] = field(default_factory=list)
    ranks: tuple[RankState | None, ...] = (RankState(rank=0), waits(1, collective("Barrier", 40, sequence=2)))

    def traffic_trace(self, pid: int, own_folder: Path) -> TrafficTrace | None:
        return TrafficTrace(int(self.now * 10), None) if self.flows else self.trace

    def monotonic(self) -> float:
        return self.now

    def activity(self, pid: int) -> Activity:
        return Activity(state=self.states[pid], rss_bytes=self.rss_bytes)

    def processor_seconds(self, pid: int) -> float:
        return self.now * self.share

    def thread_activities(self, pid: int) -> dict[int, ThreadActivity]:
        return {pid: ThreadActivity(self.states[pid], self.now, ""), **self.threads}

    def dumps(self, program: str, pids: list[int]) -> Any:
        self.looks.append(list(pids))
        answers = {pid: found if isinstance(found := self.stacks[pid], SpyError) else (found,) for pid in pids}
        return SimpleNamespace(answers=answers, poll=lambda: True, abandon=lambda: None)

    def job(self) -> WatchedJob:
        def rank(pid: int, counted: tuple[int, ...], recorded: frozenset[int] = frozenset()) -> Any:
            reader = SimpleNamespace(
                thread_ids=lambda: counted, joining_ids=frozenset, recorded_ids=lambda: recorded,
                shown_path=os.path.basename, path=Path("/run/ring.0"),
            )  # fmt: skip
            return SimpleNamespace(process=SimpleNamespace(pid=pid), reader=reader)

        snapshot = Snapshot(ranks=self.ranks, communicators=communicators(2))
        found = SimpleNamespace(
            name="job",
            ranks={0: rank(10, self.counted), 1: rank(11, (11,), frozenset({11}))},
            marks=lambda: {0: (self.mark,), 1: (0,)},
            snapshot=lambda history: snapshot,
        )
        return cast(WatchedJob, found)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    replaced: dict[str, Any] = {
        "time": machine, "activity": machine.activity, "processor_seconds": machine.processor_seconds,
        "thread_activities": machine.thread_activities, "StackDumps": machine.dumps, "uses_mpi": lambda pid: True,
        "uses_device": lambda pid: machine.device, "other_mpi_processes": lambda pids: machine.others,
        "find_py_spy": lambda: "py-spy", "traffic_trace": machine.traffic_trace,
    }  # fmt: skip
    for name, value in replaced.items():
        monkeypatch.setattr(compiled_waits, name, value)
    return machine


def let_pass(machine: Machine, compiled: CompiledWaits, seconds: float) -> Finding | None:
    """Let the judge look for some time; return the first finding."""
    end = machine.now + seconds
    while machine.now < end:
        finding = compiled.look(machine.job())
        if finding is not None:
            return finding
        machine.now += 0.3
    return None


def test_ranks_that_stand_still_are_found(machine: Machine) -> None:
    compiled = CompiledWaits()
    assert let_pass(machine, compiled, QUIET_SECONDS) is None
    assert machine.looks == []
    finding = let_pass(machine, compiled, 10)
    assert finding is not None
    assert finding.kind is FindingKind.DEADLOCK
    assert machine.looks == [[10], [10, 11], [10, 11]], "first the ranks that run, then all of them, twice"


def test_a_job_that_moves_is_never_looked_at(machine: Machine) -> None:
    compiled = CompiledWaits()
    for _ in range(20):
        machine.mark += 1
        let_pass(machine, compiled, QUIET_SECONDS / 2)
    assert machine.looks == []


def test_a_rank_that_computes_is_looked_at_ever_less_often(machine: Machine) -> None:
    machine.stacks[10] = stack(10, ("dgemm", "/l/libopenblas.so", 0), *PYTHON)
    compiled = CompiledWaits()
    assert let_pass(machine, compiled, 300) is None
    assert 4 <= len(machine.looks) <= 8
    assert set(map(tuple, machine.looks)) == {(10,)}
    assert compiled.stands(machine.job()) == {}


def reduction(machine: Machine) -> None:
    machine.stacks[10] = stack(10, ("add", "/me/libhalo.so", 0), *BARRIER[1:], *PYTHON)


def starved(machine: Machine) -> None:
    machine.share = 0.01


def much_memory(machine: Machine) -> None:
    machine.rss_bytes = 10_000_000_000


def stopped(machine: Machine) -> None:
    machine.states[11] = "T"


def thread_that_sleeps(machine: Machine) -> None:
    machine.threads = {12: IDLE._replace(wait="hrtimer_nanosleep")}


def second_thread(machine: Machine) -> None:
    machine.counted = (10, 13)


def device(machine: Machine) -> None:
    machine.device = True


def spawned(machine: Machine) -> None:
    machine.others = [99]


def unseen(machine: Machine) -> None:
    machine.stacks[11] = SpyError("the kernel does not permit it")


def loop(machine: Machine) -> None:
    machine.flows = True


def no_trace(machine: Machine) -> None:
    machine.trace = None


def unknown_carrier(machine: Machine) -> None:
    machine.trace = TrafficTrace(None, None)


def not_joined(machine: Machine) -> None:
    machine.ranks = (*machine.ranks, None)


@pytest.mark.parametrize(
    "helped",
    [
        reduction, starved, much_memory, stopped, thread_that_sleeps, second_thread, device, spawned, unseen,
        not_joined, loop, no_trace, unknown_carrier,
    ],
)  # fmt: skip
def test_silence_while_something_could_still_help(machine: Machine, helped: Callable[[Machine], None]) -> None:
    helped(machine)
    assert let_pass(machine, CompiledWaits(), 60) is None
    assert 1 <= len(machine.looks) <= 20


def test_a_rank_that_moves_between_two_looks_is_not_stuck(machine: Machine) -> None:
    compiled = CompiledWaits()
    lines = iter(range(1000))
    for _ in range(60):
        machine.stacks[10] = stack(10, *BARRIER, ("step", "/me/solver.py", next(lines)))
        assert let_pass(machine, compiled, 1) is None


def test_what_was_seen_is_told_until_something_moves(machine: Machine) -> None:
    machine.ranks = (RankState(rank=0), RankState(rank=1))
    machine.stacks[11] = stack(11, *PYTHON)
    compiled = CompiledWaits()
    assert let_pass(machine, compiled, 40) is None
    (stand,) = compiled.stands(machine.job()).values()
    assert stand.call.text == "MPI_Barrier, called by libhalo.so from solver.py:31"
    assert (stand.since, stand.num_looks > 1) == (100, True)
    machine.mark += 1
    let_pass(machine, compiled, 1)
    assert compiled.stands(machine.job()) == {}


def test_what_cannot_be_seen_is_said(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.stacks[10] = SpyError("the kernel does not permit it")
    compiled = CompiledWaits()
    let_pass(machine, compiled, 10)
    assert compiled.blind_because(machine.job()) == "rank 0 cannot be looked at: the kernel does not permit it"

    def missing() -> str:
        raise InputError("not here")

    monkeypatch.setattr(compiled_waits, "find_py_spy", missing)
    compiled = CompiledWaits()
    assert let_pass(machine, compiled, 20) is None
    assert "py-spy is not installed" in compiled.blind_because(machine.job())


def test_a_thread_is_at_work_if_it_had_the_processor_or_will_wake_by_itself() -> None:
    before = {5: IDLE, 6: IDLE}
    assert not at_work(before, before, [6])
    assert at_work(before, {**before, 5: IDLE._replace(seconds=1.2)}, [6])
    assert not at_work(before, {**before, 6: IDLE._replace(seconds=9.0)}, [6])
    assert at_work(before, {**before, 5: IDLE._replace(state="D")}, [6])
    assert at_work(before, {**before, 7: IDLE}, [6]), "it has just begun"
