"""Ranks that others wait for although nothing is wrong yet: shown politely, and ended only if a limit was given."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from paceline.guard.events import RankState, Snapshot
from paceline.guard.finding import Finding
from paceline.guard.processes import Activity, activity
from paceline.guard.progress import ranks_waited_for
from paceline.guard.session import STACKS_SIGNAL
from paceline.guard.situations import rank_groups
from paceline.guard.wording import call_name, name_ranks, verb
from paceline.guard.worlds import World

_STACK_SECONDS = 0.3
_MAX_FRAMES = 6
_DOING = {"R": "computing", "S": "sleeping", "D": "waiting for the disk", "T": "stopped by a signal", "Z": "ending"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A rank that others wait for."""

    rank: int
    doing: str
    stack: tuple[str, ...]  # file:line of its main thread, innermost first


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Ranks wait, and for whom."""

    seconds: float
    summary: str
    late: tuple[Late, ...]
    finding: Finding | None = None  # the limit that was given has passed


class Stragglers:
    """Watches how long ranks wait; says it after `notice` seconds, then after twice, four times as long."""

    def __init__(self, notice_seconds: float, timeout_seconds: float | None) -> None:
        self._notice, self._timeout = notice_seconds, timeout_seconds
        self._next: dict[str, tuple[object, float]] = {}  # world -> (what they wait in, seconds of the next notice)
        self._looked: dict[str, float] = {}

    def look(self, world: World) -> list[Notice]:
        """Return a notice if one is due."""
        now = time.monotonic()
        if now - self._looked.get(world.name, 0.0) < min(0.25, self._notice / 4):
            return []
        self._looked[world.name] = now
        snapshot = world.snapshot(history=0)
        waits = _waits(snapshot)
        if not waits:
            return []
        oldest = min(waits.values(), key=lambda call_and_time: call_and_time[1])
        seconds = time.monotonic() - oldest[1] / 1e9
        if self._timeout is not None and seconds >= self._timeout:
            return [self._as_finding(world, seconds)]
        kept, due = self._next.get(world.name, (None, self._notice))
        if kept != oldest:
            due = self._notice
        if seconds < due:
            self._next[world.name] = (oldest, due)
            return []
        self._next[world.name] = (oldest, due * 2)
        return [self._notice_of(world, snapshot, seconds)]

    def now(self, world: World) -> Notice | None:
        """Return who waits for whom at this moment, if anybody does."""
        snapshot = world.snapshot(history=0)
        waits = _waits(snapshot)
        if not waits:
            return None
        since = min(entered for _, entered in waits.values())
        return self._notice_of(world, snapshot, time.monotonic() - since / 1e9)

    def _notice_of(self, world: World, snapshot: Snapshot, seconds: float) -> Notice:
        waiting = sorted(_waits(snapshot))
        wanted = sorted(ranks_waited_for(snapshot))
        late = tuple(_late(world, rank) for rank in wanted[:8] if rank in world.ranks)
        state = snapshot.state(waiting[0])
        assert state is not None
        call = next(thread.call for thread in state.threads if thread is not None)
        summary = (
            f"{name_ranks(waiting)} {verb(waiting, 'has', 'have')} waited {seconds:.0f} s in {call_name(call)} at "
            f"{call.site}"
        )
        if wanted:
            summary += f" for {name_ranks(wanted)}"
        return Notice(seconds=seconds, summary=summary, late=late)

    def _as_finding(self, world: World, seconds: float) -> Notice:
        snapshot = world.snapshot(history=200)
        notice = self._notice_of(world, snapshot, seconds)
        wanted = tuple(sorted(ranks_waited_for(snapshot))) or tuple(sorted(_waits(snapshot)))
        details = "".join(f"; rank {late.rank} is {late.doing}{_at(late)}" for late in notice.late)
        finding = Finding(
            kind="deadlock", field=None, ranks=wanted, cause="timeout",
            summary=f"{notice.summary}, longer than the limit of {self._timeout:g} s{details}",
            advice="see why the rank is late, or give --timeout a larger number", groups=rank_groups(snapshot),
            decided_ns=time.monotonic_ns(),
        )  # fmt: skip
        return Notice(seconds=seconds, summary=notice.summary, late=notice.late, finding=finding)


def _at(late: Late) -> str:
    return f" at {late.stack[0]}" if late.stack else ""


def _waits(snapshot: Snapshot) -> dict[int, tuple[int, int]]:
    """Return the ranks that wait: number of the call, and since when."""
    found = {}
    for state in snapshot.ranks:
        if state is not None and state.end is None and state.waits:
            oldest = min(_calls(state), key=lambda pair: pair[1])
            found[state.rank] = oldest
    return found


def _calls(state: RankState) -> list[tuple[int, int]]:
    return [(thread.call.number, thread.call.entered_ns) for thread in state.threads if thread is not None]


def _late(world: World, rank: int) -> Late:
    held = world.ranks[rank]
    before = activity(held.process.pid)
    stack = _stack_of(world, rank)
    after = activity(held.process.pid)
    return Late(rank=rank, doing=_doing(before, after), stack=stack)


def _doing(before: Activity | None, after: Activity | None) -> str:
    if before is None or after is None:
        return "gone"
    return _DOING.get(after.state, f"in state {after.state}")


def _stack_of(world: World, rank: int) -> tuple[str, ...]:
    """Ask a rank for the stack of its main thread. It answers from a signal handler that runs no Python."""
    held = world.ranks[rank]
    path = held.reader.path.with_name(f"stack.{held.process.pid}")
    if held.process.has_ended() or not path.exists():
        return ()
    size = path.stat().st_size
    with suppress(OSError):
        os.kill(held.process.pid, STACKS_SIGNAL)
    deadline = time.monotonic() + _STACK_SECONDS
    while path.stat().st_size == size and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.01)
    return parse_stack(path.read_bytes()[size:].decode(errors="replace"), held.reader.shown_path)


def parse_stack(text: str, shown: object = None) -> tuple[str, ...]:
    r"""Return the frames of the main thread, which is the last that is listed, innermost first.

    >>> parse_stack('Current thread 0x1 (most recent call first):\n  File "/a/b.py", line 3 in f\n')
    ('/a/b.py:3',)
    """
    frames: list[str] = []
    for line in text.splitlines():
        if "most recent call first" in line:
            frames = []
        elif line.startswith("  File "):
            file, _, rest = line[len('  File "') :].partition('", line ')
            frames.append(f"{shown(file) if callable(shown) else file}:{rest.split(' ')[0]}")
    return tuple(frames[:_MAX_FRAMES])
