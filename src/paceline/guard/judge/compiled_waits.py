"""Looks below Python: ranks that run by their records may stand in an MPI call that a compiled library makes.

Nothing is looked at before all ranks have been still for some seconds. Then native stacks are taken, by py-spy beside
us, so that the judge never waits for it:

1. of the ranks that run by their records. If one of them is in no call of MPI, it can do anything. What was seen is
   kept for the notices, and the next look comes after twice the time.
2. of all live ranks, twice, some seconds apart. If every one stands in the same blocking call both times, no message
   has flowed in between, all could have moved for long enough to end any transfer, and nothing else is there that could
   release them, nothing ever will.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paceline.errors import InputError
from paceline.guard.judge.latency import add_latency
from paceline.guard.observe.kernel_view import activity
from paceline.guard.observe.message_traffic import TrafficTrace, traffic_trace
from paceline.guard.observe.outside_help import (
    at_work,
    other_mpi_processes,
    thread_activities,
    uses_device,
    uses_mpi,
)
from paceline.guard.observe.stack_dumps import StackDumps, Stacks
from paceline.guard.observe.stack_reading import find_compiled_call
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.verdict.compiled_call import CompiledCall
from paceline.guard.verdict.diagnose import find_standstill
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection, Sources, no_sources
from paceline.guard.verdict.snapshot import Snapshot
from paceline.process.native_stacks import SpyError, find_py_spy
from paceline.process.procfs import ThreadActivity, processor_seconds

QUIET_SECONDS = 5.0  # without any movement, before the first look
_GAP_SECONDS = 3.0  # between the two looks that must agree
_MOST_SECONDS = 120.0  # between looks at a job that computes
_LOOK_SECONDS = 0.25  # between two questions whether something has moved
_MAX_RANKS = 32  # live ranks up to which all are looked at
_MAX_SHOWN = 8  # of more ranks so many, for the notices
_CERTAIN_SECONDS = 1.5  # that a rank must have been able to move, and as long again as a transfer could take
_BYTES_PER_SECOND = 200e6  # what ranks of one machine move at the very least, together
_NUM_TRACES = 8  # times that traces of messages must have been the same between the two looks
_HISTORY = 2000
_AWAKE = ("R", "S")

_Marks = dict[int, tuple[int, ...]]


@dataclass(slots=True)
class _KernelView:
    """What the kernel said of a rank before a look."""

    at: float
    state: str
    seconds: float  # of the processor
    threads: dict[int, ThreadActivity]


@dataclass(slots=True)
class _Still:
    """A job whose ranks have not moved since a moment."""

    marks: _Marks
    since: float
    next_at: float
    pause: float = QUIET_SECONDS
    dumps: StackDumps | None = None
    of_all: bool = False  # whether the next look is at all live ranks
    ranks: dict[int, WatchedRank] = field(default_factory=dict)  # that are looked at
    activities: dict[int, _KernelView] = field(default_factory=dict)  # before the look that is under way
    first: tuple[dict[int, CompiledCall], dict[int, _KernelView]] | None = None  # the first look at all ranks
    traces: dict[int, TrafficTrace | None] | None = None  # of the ranks whose calls are not recorded, since then
    is_void: bool = False  # whether the look that is under way has been overtaken; it is worth a notice at most
    num_traces: int = 0  # how many times they have been the same


@dataclass(frozen=True, slots=True)
class Stand:
    """A rank that was seen in a call which is not recorded. Times are of the monotonic clock.

    Attributes:
        call: The call.
        since: Since when no rank has made a recorded call.
        seen_at: When it was last seen there.
        num_looks: How many looks in a row have seen it there; it may have left and come again in between.
    """

    call: CompiledCall
    since: float
    seen_at: float
    num_looks: int = 1


class CompiledWaits:
    """Looks below Python at the jobs of one run."""

    def __init__(self, sources: Sources = no_sources) -> None:
        self._sources = sources
        self._jobs: dict[str, _Still] = {}
        self._looked: dict[str, float] = {}
        self._stands: dict[str, dict[int, Stand]] = {}
        self._problems: dict[str, str] = {}
        self._abandoned: list[StackDumps] = []
        self._program: str | None = None
        self._missing = ""
        try:
            self._program = find_py_spy()
        except InputError:
            self._missing = "py-spy is not installed (pip install 'paceline[doctor]')"

    def stands(self, job: WatchedJob) -> Mapping[int, Stand]:
        """Return the ranks that were last seen in a call of a compiled library, and have not moved since."""
        return self._stands.get(job.name, {})

    def blind_because(self, job: WatchedJob) -> str:
        """Return why it is not known whether ranks that seem to run wait in a compiled library; empty if it is."""
        if self._missing:
            return self._missing if any(uses_mpi(rank.process.pid) for rank in job.ranks.values()) else ""
        return self._problems.get(job.name, "")

    def look(self, job: WatchedJob) -> Finding | None:
        """Look once, without waiting for anything; return a finding if there is one."""
        now = time.monotonic()
        if self._program is None or now - self._looked.get(job.name, 0.0) < _LOOK_SECONDS:
            return None
        self._looked[job.name] = now
        self._abandoned = [dumps for dumps in self._abandoned if not dumps.poll()]
        marks, still = job.marks(), self._jobs.get(job.name)
        if still is None or marks != still.marks:
            self._forget(job.name, still)
            self._jobs[job.name] = _Still(marks=marks, since=now, next_at=now + QUIET_SECONDS)
            return None
        if still.first is not None and not self._note_traffic(job, still):
            still.is_void = still.dumps is not None
            self._put_off(still)
        if still.dumps is not None:
            return self._finish(job, still) if still.dumps.poll() else None
        if now >= still.next_at:
            self._begin(job, still)
        return None

    def _forget(self, name: str, still: _Still | None) -> None:
        if still is not None and still.dumps is not None:
            still.dumps.abandon()
            self._abandoned.append(still.dumps)
        self._stands.pop(name, None)
        self._problems.pop(name, None)

    def _begin(self, job: WatchedJob, still: _Still) -> None:
        """Begin to look at ranks: at those that run, or at all that live."""
        assert self._program is not None
        snapshot = job.snapshot(history=0)
        live = {rank: job.ranks[rank] for rank in sorted(_live(snapshot))}
        runs = {rank: held for rank, held in live.items() if not _waits(snapshot, rank)}
        if not any(uses_mpi(held.process.pid) for held in live.values()) and len(runs) == len(live):
            self._put_off(still)  # a torch job that computes: only somebody who waits would make it worth a look
            return
        still.of_all = still.of_all or not runs
        still.ranks = live if still.of_all and len(live) <= _MAX_RANKS else runs
        if len(still.ranks) > _MAX_RANKS:
            still.ranks = dict(list(still.ranks.items())[:_MAX_SHOWN])
        if not still.ranks:
            self._put_off(still)
            return
        still.activities = {rank: _activity_of(held) for rank, held in still.ranks.items()}
        still.dumps = StackDumps(self._program, [held.process.pid for held in still.ranks.values()])
        still.dumps.poll()

    def _note_traffic(self, job: WatchedJob, still: _Still) -> bool:
        """Say whether no message has flowed since the first look at all ranks, and would have been seen.

        A rank that is in the same recorded call as then has not moved. Others may make the same call in a loop.
        """
        snapshot = job.snapshot(history=0)
        unrecorded = [rank for rank in sorted(_live(snapshot)) if not _waits(snapshot, rank)]
        traces = {rank: _trace_of(job.ranks[rank]) for rank in unrecorded}
        if any(trace is None or not trace.shows_messages for trace in traces.values()):
            return False
        if still.traces is not None and still.traces != traces:
            return False
        still.traces, still.num_traces = traces, still.num_traces + 1
        return True

    def _put_off(self, still: _Still) -> None:
        """Begin anew after a while: something may still move."""
        still.first, still.traces, still.num_traces, still.of_all = None, None, 0, False
        still.next_at = time.monotonic() + still.pause
        still.pause = min(2 * still.pause, _MOST_SECONDS)

    def _finish(self, job: WatchedJob, still: _Still) -> Finding | None:
        """Draw the conclusions of a look that has been taken."""
        assert still.dumps is not None
        answers, still.dumps = still.dumps.answers, None
        if job.marks() != still.marks:
            return None  # the next look notices
        snapshot = job.snapshot(history=0)
        held: dict[int, CompiledCall] = {}
        seen = dict(self._stands.get(job.name, {}))
        for rank, member in still.ranks.items():
            answer = answers[member.process.pid]
            if isinstance(answer, SpyError):
                self._problems[job.name] = f"rank {rank} cannot be looked at: {answer}"
                continue
            waited, call = _calls_of(member, answer)
            if waited is not None:
                held[rank] = waited
            before = seen.pop(rank, None)
            if call is not None and not _waits(snapshot, rank):
                num_looks = before.num_looks + 1 if before is not None and before.call == call else 1
                seen[rank] = Stand(call, still.since, time.monotonic(), num_looks)
        self._stands[job.name] = seen
        if still.is_void:
            still.is_void = False
            return None
        return self._conclude(job, still, snapshot, held)

    def _conclude(
        self, job: WatchedJob, still: _Still, snapshot: Snapshot, held: dict[int, CompiledCall]
    ) -> Finding | None:
        """Say what follows from a look: nothing yet, nothing at all, or a finding."""
        if held.keys() != still.ranks.keys():
            self._put_off(still)
        elif not still.of_all:
            still.of_all, still.next_at = True, time.monotonic()
        elif held.keys() != _live(snapshot) or find_standstill(Inspection(snapshot), held) is None:
            self._put_off(still)
        elif still.first is None:
            still.first, still.next_at = (held, still.activities), time.monotonic() + _GAP_SECONDS
        elif still.first[0] != held or not _all_stood(still):
            self._put_off(still)
        elif still.num_traces < _NUM_TRACES or not _could_have_moved(still):
            still.next_at = time.monotonic() + _GAP_SECONDS
        elif _may_be_helped(job, still):
            self._put_off(still)
        else:
            return self._finding(job, still, held)
        return None

    def _finding(self, job: WatchedJob, still: _Still, held: dict[int, CompiledCall]) -> Finding | None:
        """Make the finding from a snapshot with the past, if nothing has moved after all."""
        snapshot = job.snapshot(history=_HISTORY)
        finding = find_standstill(Inspection(snapshot, self._sources), held)
        if finding is None or job.marks() != still.marks:
            return None
        return add_latency(snapshot, finding)


def _live(snapshot: Snapshot) -> set[int]:
    return {state.rank for state in snapshot.ranks if state is not None and state.end is None}


def _waits(snapshot: Snapshot, rank: int) -> bool:
    state = snapshot.state(rank)
    return state is not None and state.waits


def _activity_of(held: WatchedRank) -> _KernelView:
    pid = held.process.pid
    found = activity(pid)
    return _KernelView(
        at=time.monotonic(), state=found.state if found is not None else "", seconds=processor_seconds(pid),
        threads=thread_activities(pid),
    )  # fmt: skip


def _trace_of(held: WatchedRank) -> TrafficTrace | None:
    return traffic_trace(held.process.pid, held.reader.path.parent)


def _calls_of(held: WatchedRank, stacks: Stacks) -> tuple[CompiledCall | None, CompiledCall | None]:
    """Return the call that a rank certainly waits in, with all its threads, and the one of which there is no record."""
    shown: Callable[[str], str] = held.reader.shown_path
    calls = {thread.native_id: find_compiled_call(thread, shown) for thread in stacks}
    recorded = held.reader.recorded_ids()
    # what is not recorded tells more, and the main thread more than others
    counted = sorted(_counted(held), key=lambda number: (number in recorded, number != held.process.pid))
    found = [(number, call) for number in counted if (call := calls.get(number)) is not None]
    waits = len(found) == len(counted) and all(call.waits for _, call in found)
    unrecorded = next((call for number, call in found if number not in recorded), None)
    return found[0][1] if found and waits else None, unrecorded


def _counted(held: WatchedRank) -> set[int]:
    """Return the threads of a rank that may communicate, but for those that only wait until another has ended."""
    return {held.process.pid, *held.reader.thread_ids()} - held.reader.joining_ids()


def _all_stood(still: _Still) -> bool:
    """Say whether no rank did anything between two looks but wait in its calls, nor was stopped meanwhile."""
    assert still.first is not None
    for rank, before in still.first[1].items():
        now, counted = still.activities[rank], _counted(still.ranks[rank])
        if now.state not in _AWAKE or before.state not in _AWAKE or at_work(before.threads, now.threads, counted):
            return False
    return True


def _could_have_moved(still: _Still) -> bool:
    """Say whether every rank had the time to end any transfer that could have been under way.

    A rank that polls needs the processor for it; one that sleeps would be woken. No rank can be sent more than it has
    memory for.
    """
    assert still.first is not None
    found = [activity(held.process.pid) for held in still.ranks.values()]
    num_bytes = sum(each.rss_bytes for each in found if each is not None)
    needed = _CERTAIN_SECONDS + num_bytes / _BYTES_PER_SECOND
    for rank, before in still.first[1].items():
        now = still.activities[rank]
        if (now.at - before.at if now.state == "S" else now.seconds - before.seconds) < needed:
            return False
    return True


def _may_be_helped(job: WatchedJob, still: _Still) -> bool:
    """Say whether something that is not a rank could release ranks: a GPU, or other processes that use MPI."""
    if any(uses_device(held.process.pid) for held in still.ranks.values()):
        return True
    return bool(other_mpi_processes({held.process.pid for held in job.ranks.values()}))
