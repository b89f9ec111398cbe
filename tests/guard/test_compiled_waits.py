"""When native stacks are looked at, and what must hold before ranks that stand still are taken to be stuck for good."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.guard.verdict.simulated import collective, communicators, waits

from paceline.errors import InputError
from paceline.guard.judge import compiled_waits
from paceline.guard.judge.compiled_waits import QUIET_SECONDS, CompiledWaits
from paceline.guard.observe import stack_dumps
from paceline.guard.observe.kernel_view import Activity
from paceline.guard.observe.message_traffic import TrafficTrace, traffic_trace
from paceline.guard.observe.outside_help import at_work, other_mpi_processes, uses_mpi
from paceline.guard.observe.stack_dumps import StackDump, StackDumps
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.finding import Finding, FindingKind
from paceline.guard.verdict.snapshot import RankState, Snapshot
from paceline.process.native_stacks import Frame, SpyError, Thread
from paceline.process.procfs import ThreadActivity, mapped_files, read_stat, thread_activities

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


# py-spy as a process


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(100)"]) as process:
        yield process.pid
        process.kill()


def program(folder: Path, text: str) -> str:
    path = folder / "spy"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def answer_of(dump: StackDump) -> object:
    end = time.monotonic() + 20
    while (answer := dump.answer()) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    return answer


def test_nobody_waits_for_a_slow_py_spy(tmp_path: Path, sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_dumps, "_SECONDS", 0.5)
    began = time.monotonic()
    dump = StackDump(program(tmp_path, "exec sleep 100"), sleeper)
    assert dump.answer() is None
    assert time.monotonic() - began < 0.5
    answer = answer_of(dump)
    assert isinstance(answer, SpyError)
    assert "had no answer" in str(answer)


def test_a_process_that_a_slow_py_spy_has_stopped_goes_on(
    tmp_path: Path, sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_dumps, "_SECONDS", 0.5)
    slow = program(tmp_path, f"kill -STOP {sleeper}; exec sleep 100")
    assert isinstance(answer_of(StackDump(slow, sleeper)), SpyError)
    assert read_stat(sleeper).state != "T"
    os.kill(sleeper, signal.SIGSTOP)  # by somebody else
    while read_stat(sleeper).state != "T":
        time.sleep(0.01)
    assert isinstance(answer_of(StackDump(program(tmp_path, "exec sleep 100"), sleeper)), SpyError)
    assert read_stat(sleeper).state == "T"


def test_dumps_that_are_abandoned_end_by_themselves(tmp_path: Path, sleeper: int) -> None:
    dumps = StackDumps(program(tmp_path, f"sleep 0.3; touch {tmp_path}/ended.$$"), range(sleeper, sleeper + 7))
    dumps.poll()
    dumps.abandon()
    end = time.monotonic() + 20
    while not dumps.poll():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert len(list(tmp_path.glob("ended.*"))) == len(dumps.answers) == 4


def test_a_kernel_that_forbids_it_is_told(tmp_path: Path, sleeper: int) -> None:
    answer = answer_of(StackDump(program(tmp_path, "echo 'Error: Operation not permitted' >&2; exit 1"), sleeper))
    assert isinstance(answer, SpyError)
    assert "py-spy says" not in str(answer)


def test_a_few_are_asked_at_a_time_and_all_answer(tmp_path: Path, sleeper: int) -> None:
    dumps = StackDumps(program(tmp_path, "echo '[]'"), range(sleeper, sleeper + 7))
    end = time.monotonic() + 20
    while not dumps.poll():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert len(dumps.answers) == 7
    assert dumps.answers[sleeper] == ()


# what the kernel says


def test_what_a_process_writes_into_shared_memory_is_seen(tmp_path: Path) -> None:
    with mmap.mmap(-1, 1 << 20) as shared:
        shared[5] = 1
        first = traffic_trace(os.getpid(), tmp_path)
        assert first is not None
        assert first.shared_memory is not None
        assert traffic_trace(os.getpid(), tmp_path) == first
        shared[5] = 2
        assert traffic_trace(os.getpid(), tmp_path) != first
        shared[5] = 1
        assert traffic_trace(os.getpid(), tmp_path) == first


def test_what_a_connection_carries_is_seen(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        trace = traffic_trace(os.getpid(), tmp_path)
        assert trace is not None
        assert trace.connections is not None
        assert traffic_trace(os.getpid(), tmp_path) == trace
        client.send(b"x")
        end = time.monotonic() + 20
        while traffic_trace(os.getpid(), tmp_path) == trace:
            assert time.monotonic() < end
            time.sleep(0.01)
    assert traffic_trace(1 << 30, tmp_path) is None


def test_messages_of_other_jobs_are_not_taken_for_those_of_a_rank(tmp_path: Path) -> None:
    talk = textwrap.dedent("""
        import socket, sys
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            other, _ = server.accept()
            for line in sys.stdin:
                client.sendall(b"x" * 1000)
                other.recv(1000)
                print("sent", flush=True)
    """)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
        subprocess.Popen([sys.executable, "-c", talk], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job,
    ):
        assert job.stdin is not None
        assert job.stdout is not None
        before = traffic_trace(os.getpid(), tmp_path)
        job.stdin.write(b"go\n")
        job.stdin.flush()
        assert job.stdout.readline() == b"sent\n"
        assert traffic_trace(os.getpid(), tmp_path) == before
        job.stdin.close()


def test_threads_and_files_of_this_process() -> None:
    assert os.getpid() in thread_activities(os.getpid())
    assert any("libc" in name for name in mapped_files(os.getpid()))
    assert not uses_mpi(1 << 30), "there is no such process"


def test_only_processes_of_the_job_that_use_mpi_could_help(sleeper: int) -> None:
    assert other_mpi_processes({sleeper}) == []


def test_a_thread_is_at_work_if_it_had_the_processor_or_will_wake_by_itself() -> None:
    before = {5: IDLE, 6: IDLE}
    assert not at_work(before, before, [6])
    assert at_work(before, {**before, 5: IDLE._replace(seconds=1.2)}, [6])
    assert not at_work(before, {**before, 6: IDLE._replace(seconds=9.0)}, [6])
    assert at_work(before, {**before, 5: IDLE._replace(state="D")}, [6])
    assert at_work(before, {**before, 7: IDLE}, [6]), "it has just begun"
