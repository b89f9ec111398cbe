"""Ranks that others wait for although nothing is wrong yet: shown politely, and ended only if a limit was given."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.guard.judge.compiled_waits import CompiledWaits, Stand
from paceline.guard.observe.kernel_view import Activity
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.rank import thread_watch
from paceline.guard.verdict.finding import Cause, Finding, FindingKind
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.rank_names import WorldRank, current_world_ranks, naming
from paceline.guard.verdict.snapshot import RankState, Snapshot
from paceline.guard.verdict.waits.waited_for import ranks_waited_for
from paceline.guard.verdict.wording import call_name, name_rank, name_ranks, verb
from paceline.process.stacks import OF_JUDGE, ask_for_stacks, parse_stacks

_HOOKS = f"{Path(thread_watch.__file__).parent}/"
_MAX_FRAMES = 6
_JUST_NOW_SECONDS = 2.0
_MAX_LATE = 8
_OLD_SECONDS = 2.0  # what was seen longer ago is told with its age
_DOING = {"R": "computing", "S": "sleeping", "D": "waiting for the disk", "T": "stopped by a signal", "Z": "ending"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A rank that others wait for."""

    rank: int
    doing: str
    stack: tuple[str, ...]  # file:line of its main thread, innermost first
    stand: Stand | None = None  # the call of a compiled library that it was seen in
    in_thread: str = ""  # the watched call that a thread of it is inside, while another runs

    @property
    def text(self) -> str:
        """What it does, after its name."""
        if self.stand is None:
            return f"is {self.doing}" + (f", while a thread of it is in {self.in_thread}" if self.in_thread else "")
        age = time.monotonic() - self.stand.seen_at
        seen = f" (seen {age:.0f} s ago)" if age >= _OLD_SECONDS else ""
        return f"stands in {self.stand.call.text}; Paceline cannot see what it waits for{seen}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Ranks wait, and for whom."""

    seconds: float
    summary: str
    late: tuple[Late, ...]
    finding: Finding | None = None  # the limit that was given has passed
    world_ranks: Mapping[int, WorldRank] = field(default_factory=current_world_ranks)  # by which it calls ranks
    blind: str = ""  # why it is not known whether a late rank waits in a compiled library


class Stragglers:
    """Watches how long ranks wait; says it after `notice` seconds, then after twice, four times as long."""

    def __init__(self, notice_seconds: float, timeout_seconds: float | None, compiled: CompiledWaits) -> None:
        self._notice, self._timeout, self._compiled = notice_seconds, timeout_seconds, compiled
        self._next: dict[str, tuple[object, float]] = {}  # world -> (what they wait in, seconds of the next notice)
        self._looked: dict[str, float] = {}
        self._seen: dict[str, tuple[float, Snapshot]] = {}  # world -> when ranks were last seen to wait, and how

    def look(self, world: WatchedJob) -> list[Notice]:
        """Return a notice if one is due."""
        with naming(world.world_ranks):
            return self._look(world)

    def _look(self, world: WatchedJob) -> list[Notice]:
        now = time.monotonic()
        if now - self._looked.get(world.name, 0.0) < min(0.25, self._notice / 4):
            return []
        self._looked[world.name] = now
        snapshot = world.snapshot(history=0)
        recorded = _waits(snapshot)
        waits = recorded or _compiled_waits(self._compiled.stands(world))
        if not waits:
            return self._look_at_ended(world, snapshot)
        self._seen[world.name] = now, snapshot
        oldest = min(waits.values(), key=lambda call_and_time: call_and_time[1])
        seconds = time.monotonic() - oldest[1] / 1e9
        # a rank that is seen in a compiled call again and again may have left it in between, so no limit is for it
        if self._timeout is not None and recorded and seconds >= self._timeout:
            return [self._as_finding(world, seconds)]
        return [self._notice_of(world, snapshot, seconds)] if self._is_due(world, oldest, seconds) else []

    def _is_due(self, world: WatchedJob, waited_in: object, seconds: float) -> bool:
        """Say whether it is time to say that ranks wait in this."""
        kept, due = self._next.get(world.name, (None, self._notice))
        if kept != waited_in:
            due = self._notice
        is_due = seconds >= due
        self._next[world.name] = (waited_in, due * 2 if is_due else due)
        return is_due

    def _look_at_ended(self, world: WatchedJob, snapshot: Snapshot) -> list[Notice]:
        """Return a notice if all scripts have ended long ago, and processes are still there."""
        ended = world.lingering()
        if not ended:
            return []
        last = max(ended.values())
        seconds, ranks = time.monotonic() - last / 1e9, tuple(sorted(ended))
        summary = (
            f"all scripts have ended, but {seconds:.0f} s later {name_ranks(ranks)} {verb(ranks, 'is', 'are')} still "
            "there: something waits or takes long where Python or a library shuts down, such as MPI_Finalize while a "
            "message is not received"
        )
        if self._timeout is not None and seconds >= self._timeout:
            return [self._beyond_limit(Notice(seconds=seconds, summary=summary, late=()), snapshot, ranks)]
        return [Notice(seconds=seconds, summary=summary, late=())] if self._is_due(world, last, seconds) else []

    def now(self, world: WatchedJob) -> Notice | None:
        """Return who waits for whom at this moment, if anybody does; or did just now, before a signal ended them."""
        with naming(world.world_ranks):
            return self._now(world)

    def _now(self, world: WatchedJob) -> Notice | None:
        snapshot = world.snapshot(history=0)
        waits = _waits(snapshot) or _compiled_waits(self._compiled.stands(world))
        if not waits:
            seen, before = self._seen.get(world.name, (0.0, snapshot))
            waited = _waits(before) if time.monotonic() - seen < _JUST_NOW_SECONDS else {}
            if waited and all((state := snapshot.state(rank)) is not None and state.end is not None for rank in waited):
                snapshot, waits = before, waited
        if not waits:
            return None
        since = min(entered for _, entered in waits.values())
        return self._notice_of(world, snapshot, time.monotonic() - since / 1e9)

    def _notice_of(self, world: WatchedJob, snapshot: Snapshot, seconds: float) -> Notice:
        waiting = sorted(_waits(snapshot))
        stands = self._compiled.stands(world)
        if not waiting:
            return self._compiled_notice(world, snapshot, stands, seconds)
        wanted = sorted(ranks_waited_for(snapshot))
        late = _late(world, snapshot, [rank for rank in wanted[:_MAX_LATE] if rank in world.ranks], stands)
        state = snapshot.state(waiting[0])
        assert state is not None
        call = next(thread.call for thread in state.threads if thread is not None)
        summary = (
            f"{name_ranks(waiting)} {verb(waiting, 'has', 'have')} waited {seconds:.0f} s in {call_name(call)} at "
            f"{call.site}"
        )
        if wanted:
            summary += f" for {name_ranks(wanted)}"
        unseen = sorted(Inspection(snapshot).out_of_sight() & set(wanted))
        if unseen:
            summary += f"; {name_ranks(unseen)} {verb(unseen, 'is', 'are')} not seen from here, and may be there"
        return Notice(seconds=seconds, summary=summary, late=late, blind=self._blind(world, late))

    def _compiled_notice(
        self, world: WatchedJob, snapshot: Snapshot, stands: Mapping[int, Stand], seconds: float
    ) -> Notice:
        """Return a notice about ranks in calls of compiled libraries, where nobody waits in a watched call."""
        ranks = sorted(_compiled_waits(stands))
        runs = [state.rank for state in snapshot.ranks if state is not None and state.end is None]
        late = _late(world, snapshot, [*ranks, *(rank for rank in runs if rank not in stands)][:_MAX_LATE], stands)
        summary = (
            f"no rank has made a recorded call for {seconds:.0f} s; {name_ranks(ranks)} {verb(ranks, 'is', 'are')} in "
            f"{verb(ranks, 'a call of a compiled library', 'calls of compiled libraries')}"
        )
        return Notice(seconds=seconds, summary=summary, late=late, blind=self._blind(world, late))

    def _blind(self, world: WatchedJob, late: Sequence[Late]) -> str:
        return self._compiled.blind_because(world) if any(rank.stand is None for rank in late) else ""

    def _as_finding(self, world: WatchedJob, seconds: float) -> Notice:
        snapshot = world.snapshot(history=200)
        notice = self._notice_of(world, snapshot, seconds)
        unseen = Inspection(snapshot).out_of_sight()  # what keeps them is not known, so they are not named
        wanted = tuple(sorted(ranks_waited_for(snapshot) - unseen)) or tuple(sorted(_waits(snapshot)))
        return self._beyond_limit(notice, snapshot, wanted)

    def _beyond_limit(self, notice: Notice, snapshot: Snapshot, ranks: tuple[int, ...]) -> Notice:
        details = "".join(f"; {name_rank(late.rank)} {late.text}{_at(late)}" for late in notice.late)
        finding = Finding(
            kind=FindingKind.DEADLOCK, field=None, ranks=ranks, cause=Cause.TIMEOUT,
            summary=f"{notice.summary}, longer than the limit of {self._timeout:g} s{details}",
            advice="see why the rank is late, or give --timeout a larger number",
            groups=rank_groups(Inspection(snapshot)), decided_ns=time.monotonic_ns(),
        )  # fmt: skip
        return replace(notice, finding=finding)


def _at(late: Late) -> str:
    return f" at {late.stack[0]}" if late.stack and late.stand is None else ""


def _waits(snapshot: Snapshot) -> dict[int, tuple[int, int]]:
    """Return the ranks that wait: number of the call, and since when."""
    found = {}
    for state in snapshot.ranks:
        if state is not None and state.end is None and state.waits:
            oldest = min(_calls(state), key=lambda pair: pair[1])
            found[state.rank] = oldest
    return found


def _compiled_waits(stands: Mapping[int, Stand]) -> dict[int, tuple[int, int]]:
    """Return the ranks that wait in calls of compiled libraries, as `_waits` does; such a call has no number."""
    return {
        rank: (-1, int(stand.since * 1e9))
        for rank, stand in stands.items()
        if stand.num_looks > 1 and (stand.call.waits or stand.call.is_of_gloo)
    }


def _calls(state: RankState) -> list[tuple[int, int]]:
    return [(thread.call.number, thread.call.entered_ns) for thread in state.threads if thread is not None]


def _late(world: WatchedJob, snapshot: Snapshot, ranks: Sequence[int], stands: Mapping[int, Stand]) -> tuple[Late, ...]:
    files = {
        held.process.pid: held.reader.path.with_name(f"stack.{held.process.pid}")
        for rank in ranks
        if not (held := world.ranks[rank]).process.has_ended()  # its number may be another's by now
        and not held.process.host  # whose files are not here
    }
    doing = {rank: _doing(world.ranks[rank].process.activity()) for rank in ranks}  # before asking wakes them
    texts = ask_for_stacks(files, OF_JUDGE)
    return tuple(
        Late(
            rank=rank, doing=doing[rank], stack=_frames(texts.get(held.process.pid, ""), held.reader),
            stand=stands.get(rank), in_thread=_in_thread(snapshot, rank),
        )
        for rank in ranks
        for held in (world.ranks[rank],)
    )  # fmt: skip


def _in_thread(snapshot: Snapshot, rank: int) -> str:
    """Return the call that a thread of a late rank is inside, if there is one; another thread of it runs."""
    state = snapshot.state(rank)
    waiting = next(state.waiting, None) if state is not None else None
    if waiting is None:
        return ""
    call = waiting.call
    on = f" on {Inspection(snapshot).name(call.communicator)}" if call.is_collective else ""
    return f"{call_name(call)}{on} at {call.site}"


def _doing(found: Activity | None) -> str:
    return _DOING.get(found.state, f"in state {found.state}") if found is not None else "gone"


def _frames(text: str, reader: RingReader) -> tuple[str, ...]:
    """Return the last stack of a text as file:line, innermost first, without the guard's own hooks."""
    last = [frame for frame in (parse_stacks(text) or [()])[-1] if not frame.file.startswith(_HOOKS)]
    return tuple(f"{reader.shown_path(frame.file)}:{frame.line}" for frame in last[:_MAX_FRAMES])
