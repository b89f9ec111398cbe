"""Looks at all ranks again and again, and says so when something is certain.

A look reads every rank's mark, takes a snapshot, and reads the marks again: ranks whose marks differ are taken to run,
so what is concluded about the others was true at one moment. Ranks that can never move are reported when two looks in
a row agree. Where a library may still complete a call by itself, they must have stayed there for a while, and have had
the processor.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.guard.judge.doubtful_positions import DoubtfulPositions
from paceline.guard.judge.ending_ranks import ending_ranks, may_be_of_stop
from paceline.guard.judge.judged_rings import Rings
from paceline.guard.judge.latency import add_latency, latency_since
from paceline.guard.judge.patience import Patience, coming_ranks
from paceline.guard.judge.staying import had_processor, processor_seconds, stay_seconds
from paceline.guard.observe.board_reader import differing_positions
from paceline.guard.observe.pair_reader import unequal_tables
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.shared_memory.layout import (
    ENQUEUES,
    MAX_THREADS,
    NUM_SLOTS,
    SIDE_STREAMS,
    STOPPED,
    THREAD_WORDS,
    THREADS_AT,
)
from paceline.guard.verdict.diagnose import (
    find_any_passed_misfit,
    find_certain,
    find_first_failure,
    find_mismatch_at,
    find_passed_misfit,
    find_passed_mismatch,
    find_stuck,
    find_unequal_pair,
)
from paceline.guard.verdict.finding import Finding, FindingKind
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rules.mismatch import doubtful_positions, is_doubtful
from paceline.guard.verdict.rules.passed import MessagePair
from paceline.guard.verdict.snapshot import Position, Snapshot
from paceline.guard.verdict.waits.enqueued_calls import stream_snapshot
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks

_SHORT_HISTORY, _LONG_HISTORY = 64, 2000
_SWEEP_SECONDS = 0.1
_SECONDS_PER_FAR_RANK = 2e-4  # added to it where all calls are compared, because ranks are on several hosts

_Marks = dict[int, tuple[int, ...]]


@dataclass(slots=True)
class _Memory:
    """What the judge remembers of a job between looks."""

    marks: _Marks = field(default_factory=dict)
    judged: _Marks | None = None  # marks that were judged, and nothing was found
    streams_judged: _Marks | None = None  # the same, of what ranks have enqueued
    stuck: _Marks = field(default_factory=dict)  # of the last look, cautiously
    staying: _Marks = field(default_factory=dict)  # of the last look, if nothing is buffered
    staying_since: float = 0.0
    cpu_then: dict[int, float] = field(default_factory=dict)
    ended: frozenset[int] = frozenset()
    swept_at: float = 0.0
    is_unswept: bool = False  # something has changed since
    doubts: DoubtfulPositions = field(default_factory=DoubtfulPositions)
    patience: Patience = field(default_factory=Patience)  # with a finding that is held back for a moment
    stuck_patience: Patience = field(default_factory=Patience)  # with one about ranks that can never move
    stream_patience: Patience = field(default_factory=Patience)  # with one about streams that can never move


class Judge:
    """The judge of one run."""

    def __init__(self, rings: Rings, folder: Path) -> None:
        self._rings, self._folder = rings, folder
        self._memories: dict[str, _Memory] = {}
        self._sources: dict[str, str | None] = {}

    def look(self) -> Finding | None:
        """Look once at every job; return a finding if there is one."""
        for job in self._rings.jobs():
            finding = self._look_at(job, self._memories.setdefault(job.name, _Memory()))
            if finding is not None:
                return finding
        for snapshot in self._rings.starting():
            finding = find_certain(self._inspection(snapshot))
            if finding is not None:
                return add_latency(snapshot, finding)
        return None

    def look_at_passed(self) -> Finding | None:
        """Compare what may not fit between ranks of several hosts, which may have gone on; return a finding, if any."""
        for job, passed in self._rings.passed_differences():
            snapshot = _without_replaced(job, job.snapshot(history=NUM_SLOTS))
            if isinstance(passed, MessagePair):
                finding = find_passed_misfit(self._inspection(snapshot), passed)
                since = 0
            else:
                memory = self._memories.setdefault(job.name, _Memory())
                finding = self._find_mismatch_at(job, memory, snapshot, passed)
                since = max((call.entered_ns for call in Inspection(snapshot).calls_at(passed).values()), default=0)
            if finding is not None:
                return latency_since(finding, since)
        return None

    def look_back(self, *, failed: bool, told_signal: int | None = None, was_stopped: bool = False) -> Finding | None:
        """After the launcher has ended: look once more at what the ranks have left.

        Args:
            failed: Whether the job has.
            told_signal: The signal that has killed a rank, as the exit code of the launcher says.
            was_stopped: Whether the launcher says that it was told to end.
        """
        for job in self._rings.jobs():
            snapshot = self._snapshot(job)
            finding = find_certain(self._inspection(snapshot))
            if finding is not None and may_be_of_stop(job, finding):
                finding = None
            if finding is None and job.is_spread and not job.stands_for_others:
                finding = find_passed_mismatch(self._inspection(snapshot))
                finding = finding or find_any_passed_misfit(self._inspection(snapshot))
            if finding is None and failed:
                finding = find_first_failure(Inspection(snapshot), told_signal, was_stopped=was_stopped)
            if finding is not None:
                return add_latency(snapshot, finding)
        for snapshot in self._rings.starting(has_ended=True) if failed else ():
            finding = find_first_failure(Inspection(snapshot), told_signal, was_stopped=was_stopped)
            if finding is not None:
                return add_latency(snapshot, finding)
        return None

    def _inspection(self, snapshot: Snapshot) -> Inspection:
        return Inspection(snapshot, self.source_of)

    def source_of(self, path: str) -> str | None:
        """Return the text of a user's file."""
        if path not in self._sources:
            try:
                self._sources[path] = Path(path).read_text(errors="replace")
            except OSError:
                self._sources[path] = None
        return self._sources[path]

    def _look_at(self, job: WatchedJob, memory: _Memory) -> Finding | None:
        """Look once at a job.

        | since the last look                                    | asked                                             |
        |--------------------------------------------------------|---------------------------------------------------|
        | a rank has stopped or ended, or a finding is held back | everything that is certain, with the whole past   |
        | something else has changed                             | what boards show, and who is missed by new calls  |
        | a rank waits and has not moved                         | who can never move, if nothing was certain        |
        | no rank has moved, and some have enqueued calls        | whose streams can never move                      |
        """
        job.note_memory()
        marks = job.marks()
        changed = marks != memory.marks
        still = any(mark == memory.marks.get(rank) and _waits(mark) for rank, mark in marks.items())
        stopped = [rank for rank, mark in marks.items() if mark[STOPPED]]
        ended = frozenset(rank for rank, mark in marks.items() if mark[-1])
        must_look = bool(stopped) or memory.patience.held_since is not None or (ended != memory.ended and changed)
        memory.marks, memory.ended = marks, ended
        finding = None
        if changed:
            memory.stream_patience.forget()
        if must_look:
            finding = self._find_certain(job)
            if finding is None:
                for rank in stopped:
                    job.let_go_on(rank)  # what it saw of another rank fits after all
        elif changed or memory.is_unswept:
            finding = self._find_missed(job, memory) or self._find_gone(job)
        if finding is not None:
            ending = ending_ranks(job, finding)
            if not ending and may_be_of_stop(job, finding):  # that is known when the launcher has ended, too
                memory.patience.forget()
                return None
            held = memory.patience.holds_back(
                finding, coming_ranks(finding), lambda rank: _starved(job, rank), ending=ending
            )
            return None if held else finding
        memory.patience.forget()
        if still and marks != memory.judged:
            finding = self._find_stuck(job, memory, marks)
            if not memory.stuck and not memory.staying:
                memory.stuck_patience.forget()
        if finding is None and not changed and marks != memory.streams_judged and _have_one_stream(marks):
            finding = self._find_stuck_streams(job, memory, marks)
        return finding

    def _snapshot(self, job: WatchedJob) -> Snapshot:
        """Take a snapshot with the whole past, and with tables of counts that do not fit."""
        return replace(job.snapshot(history=_LONG_HISTORY), tables=unequal_tables(self._folder, job.worlds))

    def _find_certain(self, job: WatchedJob) -> Finding | None:
        snapshot = self._snapshot(job)
        finding = find_certain(self._inspection(snapshot))
        return add_latency(snapshot, finding) if finding is not None else None

    def _find_missed(self, job: WatchedJob, memory: _Memory) -> Finding | None:
        """Look for differing calls that both ranks missed because they came at the very same moment."""
        now = time.monotonic()
        if now - memory.swept_at < _SWEEP_SECONDS + (_SECONDS_PER_FAR_RANK * len(job.ranks) if job.is_spread else 0.0):
            memory.is_unswept = True  # ranks that have missed each other may never change anything again
            return None
        memory.swept_at, memory.is_unswept = now, False
        for communicator, sequence in differing_positions(self._folder, job.worlds, job.rename):
            snapshot, position = job.snapshot(history=_LONG_HISTORY), Position(communicator, sequence)
            finding = self._find_mismatch_at(job, memory, snapshot, position)
            if finding is not None:
                return finding
        if job.is_spread:  # hosts have boards of their own: what differs between two shows in the calls themselves
            inspection = Inspection(job.snapshot(history=_SHORT_HISTORY))
            if find_certain(inspection) is not None:
                return self._find_certain(job)
            for position in doubtful_positions(inspection):
                finding = self._find_mismatch_at(job, memory, job.snapshot(history=_LONG_HISTORY), position)
                if finding is not None:
                    return finding
        if unequal_tables(self._folder, job.worlds):
            snapshot = self._snapshot(job)
            finding = find_unequal_pair(self._inspection(snapshot))
            if finding is not None:
                return add_latency(snapshot, finding)
        return None

    def _find_mismatch_at(
        self, job: WatchedJob, memory: _Memory, snapshot: Snapshot, position: Position
    ) -> Finding | None:
        """Compare the calls at a position, if those that may still be refused have stayed there long enough."""
        inspection = self._inspection(snapshot)
        if is_doubtful(inspection, position) and not memory.doubts.has_stayed(job, inspection, position):
            memory.is_unswept = True  # look again, although nothing may change
            return None
        finding = find_mismatch_at(inspection, position)
        return add_latency(snapshot, finding) if finding is not None else None

    def _find_gone(self, job: WatchedJob) -> Finding | None:
        """Once a rank has ended, any new call of the others may need it."""
        if not job.any_is_ending():
            return None
        if find_certain(Inspection(job.snapshot(history=_SHORT_HISTORY))) is None:
            return None
        return self._find_certain(job)

    def _find_stuck(self, job: WatchedJob, memory: _Memory, marks: _Marks) -> Finding | None:
        snapshot, moving = self._still_snapshot(job, marks, history=0)
        stuck = stuck_ranks(snapshot, cautious=True)
        held = {rank: marks[rank] for rank in stuck}
        if stuck and held == memory.stuck:
            return self._stuck_finding(job, memory, held, cautious=True)
        memory.stuck = held
        if stuck:
            return None
        staying = {rank: marks[rank] for rank in stuck_ranks(snapshot, cautious=False)}
        now = time.monotonic()
        if staying != memory.staying:
            memory.staying, memory.staying_since = staying, now
            memory.cpu_then = {rank: processor_seconds(job, rank) for rank in staying}
        elif (
            staying
            and now - memory.staying_since >= stay_seconds(snapshot, staying)
            and had_processor(job, memory.cpu_then)
        ):
            return self._stuck_finding(job, memory, staying, cautious=False)
        if not staying and not moving:
            memory.judged = marks
        return None

    def _find_stuck_streams(self, job: WatchedJob, memory: _Memory, marks: _Marks) -> Finding | None:
        """Look for calls that were enqueued and can never complete, while the programs of their ranks go on."""
        snapshot, moving = self._still_snapshot(job, marks, history=_LONG_HISTORY)
        if moving:
            return None
        enqueued = stream_snapshot(snapshot)
        stuck = stuck_ranks(enqueued, cautious=True) if enqueued is not None else frozenset()
        finding = find_stuck(self._inspection(enqueued), cautious=True) if enqueued is not None and stuck else None
        if finding is None:
            memory.streams_judged = marks
            return None
        alive = {rank for rank, state in enumerate(snapshot.ranks) if state is None or state.end is None}
        held = memory.stream_patience.holds_back(finding, alive - stuck, lambda rank: _starved(job, rank))
        return None if held else add_latency(snapshot, finding)

    def _still_snapshot(self, job: WatchedJob, marks: _Marks, *, history: int) -> tuple[Snapshot, frozenset[int]]:
        """Take a snapshot in which every rank that has moved meanwhile is taken to run; return who they are."""
        snapshot = job.snapshot(history=history)
        again = job.marks()
        moving = frozenset(rank for rank, mark in again.items() if marks.get(rank) != mark)
        ranks = [
            replace(state, threads=(None,)) if state is not None and state.rank in moving and not state.end else state
            for state in snapshot.ranks
        ]
        return replace(snapshot, ranks=ranks), moving

    def _stuck_finding(self, job: WatchedJob, memory: _Memory, held: _Marks, *, cautious: bool) -> Finding | None:
        """Make the finding from a snapshot with the past, if nothing has moved after all."""
        marks = job.marks()
        snapshot, _ = self._still_snapshot(job, marks, history=_LONG_HISTORY)
        snapshot = replace(snapshot, tables=unequal_tables(self._folder, job.worlds))
        if any(marks[rank] != mark for rank, mark in held.items()):
            return None
        if stuck_ranks(snapshot, cautious=cautious) != held.keys():
            return None
        finding = find_stuck(self._inspection(snapshot), cautious=cautious)
        if finding is None:
            return None
        ending = ending_ranks(job, finding)
        if ending and memory.stuck_patience.holds_back(finding, set(), lambda rank: _starved(job, rank), ending=ending):
            return None
        if finding.kind is FindingKind.DEADLOCK:
            alive = {rank for rank, state in enumerate(snapshot.ranks) if state is None or state.end is None}
            coming = alive - held.keys()
            inside = {rank: processor_seconds(job, rank) for rank in coming if rank in marks and _waits(marks[rank])}
            if memory.stuck_patience.holds_back(finding, coming, lambda rank: _starved(job, rank), inside):
                return None
            if job.is_spread and not job.stands_for_others:  # hosts do not see each other's calls as they are made
                finding = find_passed_mismatch(self._inspection(snapshot)) or finding
        return add_latency(snapshot, finding)


def _without_replaced(job: WatchedJob, snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without past calls that ranks may have begun to replace while they were read."""
    ranks = [
        replace(state, history=tuple(call for call in state.history if call.number >= job.oldest_call(state.rank)))
        if state is not None and state.rank in job.ranks
        else state
        for state in snapshot.ranks
    ]
    return replace(snapshot, ranks=ranks)


def _waits(mark: tuple[int, ...]) -> bool:
    """Say whether some thread of a rank is inside a call."""
    return any(mark[THREADS_AT : THREADS_AT + MAX_THREADS * THREAD_WORDS : THREAD_WORDS])


def _have_one_stream(marks: _Marks) -> bool:
    """Say whether some backend only enqueues, and every rank enqueues in one stream: then there is one order."""
    return any(mark[ENQUEUES] for mark in marks.values()) and not any(mark[SIDE_STREAMS] for mark in marks.values())


def _starved(job: WatchedJob, rank: int) -> float:
    return job.ranks[rank].process.starved_seconds() if rank in job.ranks else 0.0
