"""Looks at all ranks again and again, and says so when something is certain.

A look reads every rank's mark, takes a snapshot, and reads the marks again: ranks whose marks differ are taken to run,
so what is concluded about the others was true at one moment. Ranks that can never move are reported when two looks in
a row agree. Where a library may still complete a call by itself, they must have stayed there for a while, and have had
the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.guard.judge.patience import Patience, coming_ranks
from paceline.guard.observe.board_reader import differing_positions
from paceline.guard.observe.kernel_view import activity, processor_seconds, starved_seconds
from paceline.guard.observe.local_rings import Rings
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.shared_memory.layout import MAX_THREADS, STOPPED, THREAD_WORDS, THREADS_AT
from paceline.guard.verdict.diagnose import find_certain, find_first_failure, find_stuck, mismatch_finding
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.progress import stuck_ranks
from paceline.guard.verdict.snapshot import Snapshot

_SHORT_HISTORY, _LONG_HISTORY = 64, 2000
_STAY_SECONDS = 0.35  # how long a call that may be buffered must stay inside before it counts as waiting
_SWEEP_SECONDS = 0.1
_CPU_SECONDS = 0.002  # what a rank must have had of the processor in that time, unless it sleeps

Sources = Callable[[str], str | None]
_Marks = dict[int, tuple[int, ...]]


@dataclass(slots=True)
class _Memory:
    """What the judge remembers of a world between looks."""

    marks: _Marks = field(default_factory=dict)
    judged: _Marks | None = None  # marks that were judged, and nothing was found
    stuck: _Marks = field(default_factory=dict)  # of the last look, cautiously
    staying: _Marks = field(default_factory=dict)  # of the last look, if nothing is buffered
    staying_since: float = 0.0
    cpu_then: dict[int, float] = field(default_factory=dict)
    ended: frozenset[int] = frozenset()
    swept_at: float = 0.0
    patience: Patience = field(default_factory=Patience)  # with a finding that is held back for a moment
    stuck_patience: Patience = field(default_factory=Patience)  # with one about ranks that can never move


class Judge:
    """The judge of one run."""

    def __init__(self, rings: Rings, folder: Path) -> None:
        self._rings, self._folder = rings, folder
        self._memories: dict[str, _Memory] = {}
        self._sources: dict[str, str | None] = {}

    def look(self) -> Finding | None:
        """Look once at every world; return a finding if there is one."""
        for world in self._rings.jobs():
            finding = self._look_at(world, self._memories.setdefault(world.name, _Memory()))
            if finding is not None:
                return finding
        return None

    def look_back(self, *, failed: bool) -> Finding | None:
        """After the launcher has ended: look once more at what the ranks have left."""
        for world in self._rings.jobs():
            snapshot = world.snapshot(history=_LONG_HISTORY)
            finding = find_certain(snapshot, self.source_of)
            if finding is None and failed:
                finding = find_first_failure(snapshot)
            if finding is not None:
                return self._timed(snapshot, finding)
        return None

    def source_of(self, path: str) -> str | None:
        """Return the text of a user's file."""
        if path not in self._sources:
            try:
                self._sources[path] = Path(path).read_text(errors="replace")
            except OSError:
                self._sources[path] = None
        return self._sources[path]

    def _look_at(self, world: WatchedJob, memory: _Memory) -> Finding | None:
        world.note_memory()
        marks = world.marks()
        changed = marks != memory.marks
        still = any(mark == memory.marks.get(rank) and _waits(mark) for rank, mark in marks.items())
        memory.marks = marks
        stopped = [rank for rank, mark in marks.items() if mark[STOPPED]]
        ended = frozenset(rank for rank, mark in marks.items() if mark[-1])
        finding = None
        if stopped or memory.patience.held_since is not None or (ended != memory.ended and changed):
            finding = self._certain(world)
            if finding is None:
                for rank in stopped:
                    world.let_go_on(rank)
        elif changed:
            finding = self._swept(world, memory) or self._gone(world, marks)
        memory.ended = ended
        if finding is not None:
            held = memory.patience.holds_back(finding, coming_ranks(finding), lambda rank: _starved(world, rank))
            return None if held else finding
        memory.patience.forget()
        if still and marks != memory.judged:
            finding = self._stuck(world, memory, marks)
            if not memory.stuck and not memory.staying:
                memory.stuck_patience.forget()
        return finding

    def _certain(self, world: WatchedJob) -> Finding | None:
        snapshot = world.snapshot(history=_LONG_HISTORY)
        finding = find_certain(snapshot, self.source_of)
        return self._timed(snapshot, finding) if finding is not None else None

    def _swept(self, world: WatchedJob, memory: _Memory) -> Finding | None:
        """Look for differing calls that both ranks missed because they came at the very same moment."""
        now = time.monotonic()
        if now - memory.swept_at < _SWEEP_SECONDS:
            return None
        memory.swept_at = now
        for communicator, sequence in differing_positions(self._folder, world.name):
            snapshot = world.snapshot(history=_LONG_HISTORY)
            finding = mismatch_finding(snapshot, communicator, sequence, self.source_of)
            if finding is not None:
                return self._timed(snapshot, finding)
        return None

    def _gone(self, world: WatchedJob, marks: _Marks) -> Finding | None:
        """Once a rank has ended, any new call of the others may need it."""
        if not world.any_is_ending():
            return None
        if find_certain(world.snapshot(history=_SHORT_HISTORY)) is None:
            return None
        return self._certain(world)

    def _stuck(self, world: WatchedJob, memory: _Memory, marks: _Marks) -> Finding | None:
        snapshot, moving = self._still_snapshot(world, marks, history=0)
        stuck = stuck_ranks(snapshot, cautious=True)
        held = {rank: marks[rank] for rank in stuck}
        if stuck and held == memory.stuck:
            return self._stuck_finding(world, memory, held, cautious=True)
        memory.stuck = held
        if stuck:
            return None
        staying = {rank: marks[rank] for rank in stuck_ranks(snapshot, cautious=False)}
        now = time.monotonic()
        if staying != memory.staying:
            memory.staying, memory.staying_since = staying, now
            memory.cpu_then = {rank: _cpu(world, rank) for rank in staying}
        elif staying and now - memory.staying_since >= _STAY_SECONDS and self._had_processor(world, memory):
            return self._stuck_finding(world, memory, staying, cautious=False)
        if not staying and not moving:
            memory.judged = marks
        return None

    def _still_snapshot(self, world: WatchedJob, marks: _Marks, *, history: int) -> tuple[Snapshot, frozenset[int]]:
        """Take a snapshot in which every rank that has moved meanwhile is taken to run; return who they are."""
        snapshot = world.snapshot(history=history)
        again = world.marks()
        moving = frozenset(rank for rank, mark in again.items() if marks.get(rank) != mark)
        ranks = [
            replace(state, threads=(None,)) if state is not None and state.rank in moving and not state.end else state
            for state in snapshot.ranks
        ]
        return replace(snapshot, ranks=ranks), moving

    def _had_processor(self, world: WatchedJob, memory: _Memory) -> bool:
        """Say whether every rank that stays has run, or sleeps because there is nothing to do."""
        for rank in memory.staying:
            found = activity(world.ranks[rank].process.pid)
            if found is None:
                continue
            worked = _cpu(world, rank) - memory.cpu_then.get(rank, 0.0) >= _CPU_SECONDS
            if found.state != "S" and not (worked and found.state == "R"):
                return False
        return True

    def _stuck_finding(self, world: WatchedJob, memory: _Memory, held: _Marks, *, cautious: bool) -> Finding | None:
        """Make the finding from a snapshot with the past, if nothing has moved after all."""
        marks = world.marks()
        snapshot, _ = self._still_snapshot(world, marks, history=_LONG_HISTORY)
        if any(marks[rank] != mark for rank, mark in held.items()):
            return None
        if stuck_ranks(snapshot, cautious=cautious) != held.keys():
            return None
        finding = find_stuck(snapshot, cautious=cautious, sources=self.source_of)
        if finding is None:
            return None
        if finding.kind == "deadlock":
            alive = {rank for rank, state in enumerate(snapshot.ranks) if state is None or state.end is None}
            if memory.stuck_patience.holds_back(finding, alive - held.keys(), lambda rank: _starved(world, rank)):
                return None
        return self._timed(snapshot, finding)

    def _timed(self, snapshot: Snapshot, finding: Finding) -> Finding:
        """Add how long after the last event that made it certain the finding comes."""
        last = 0
        for state in snapshot.ranks:
            if state is None:
                continue
            events = [waiting.call.entered_ns for waiting in state.threads if waiting is not None]
            events += [state.stop.call.entered_ns] if state.stop is not None else []
            events += [state.end.at_ns] if state.end is not None else []
            last = max([last, *events])
        now = time.monotonic_ns()
        latency = (now - last) / 1e6 if last else 0.0
        return replace(finding, latency_ms=round(max(0.0, latency), 1), decided_ns=now)


def _waits(mark: tuple[int, ...]) -> bool:
    """Say whether some thread of a rank is inside a call."""
    return any(mark[THREADS_AT : THREADS_AT + MAX_THREADS * THREAD_WORDS : THREAD_WORDS])


def _starved(world: WatchedJob, rank: int) -> float:
    return starved_seconds(world.ranks[rank].process.pid) if rank in world.ranks else 0.0


def _cpu(world: WatchedJob, rank: int) -> float:
    return processor_seconds(world.ranks[rank].process.pid)
