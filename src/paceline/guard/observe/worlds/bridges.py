"""Who has met whom: puts the halves together that two jobs have of one communicator. Values in, values out.

Each job follows its own half of a bridge (rank/mpi/sides/mpi_halves.py), and the root of each side says when it met the
other job, and by which mark: a hash of the command that was spawned, or of the port. Only one partner may be possible;
while several are, nothing is concluded.

- Ranks that were spawned were started while their parents were in Spawn, by the command of that Spawn.
- A client was in Connect at some moment at which its server was in Accept, with the same port.
- Both sides know how many they are, and how many the others are.

Whoever meets another job says so before the call. So a partner is known as soon as those are seen whom it has met.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.guard.shared_memory.layout import BRIDGE_PREFIX, INTER_PREFIX

_SECOND_SIDES = ("Get_parent", "Connect")
_SPAWNS = ("Spawn", "Spawn_multiple")
_SLACK_NS = 50_000_000  # the kernel rounds the time at which a process started down to its ticks
_IDENTITY = re.compile(
    rf"(?P<world>.*)\.(?P<prefix>(?:{INTER_PREFIX}\d+-)?{BRIDGE_PREFIX})(?P<bridge>[^-]*)-(?P<origin>[^-]*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMeeting:
    """One side of a meeting of two jobs, as its root tells of it."""

    bridge: str
    world: str  # of this side
    kind: str  # the call, or Get_parent for ranks that were spawned
    begun_ns: int
    marks: frozenset[str]
    size: int
    ended_ns: int | None = None  # None: it has not ended
    others: int = 0  # ranks of the other side, once it has ended; 0 if it failed

    @property
    def is_second(self) -> bool:
        """Whether it was spawned, or connected to a server."""
        return self.kind in _SECOND_SIDES

    def can_have_met(self, other: JobMeeting) -> bool:
        """Say whether this first side may have met that second one."""
        if not self.marks & other.marks or other.ended_ns is None or other.others != self.size:
            return False
        if self.ended_ns is not None and (self.others != other.size or self.ended_ns < other.begun_ns):
            return False
        if other.kind == "Connect":
            return self.kind == "Accept" and self.begun_ns <= other.ended_ns
        return self.kind in _SPAWNS and self.begun_ns - _SLACK_NS <= other.begun_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """Two halves that are one: that of the side that spawned or accepted, and the other."""

    first: JobMeeting
    second: JobMeeting


def read_meetings(texts: Iterable[Mapping[str, Any]]) -> list[JobMeeting]:
    """Return the meetings that a rank has told of."""
    begun: dict[str, dict[str, Any]] = {}
    for text in texts:
        if "meeting" in text:
            begun.setdefault(str(text["meeting"]), {}).update(text)
    return [
        JobMeeting(
            bridge=bridge, world=str(text["side"]), kind=str(text["kind"]), begun_ns=int(text["begun"]),
            marks=frozenset(map(str, text["marks"])), size=int(text["size"]),
            ended_ns=int(text["ended"]) if "ended" in text else None, others=int(text.get("others", 0)),
        )
        for bridge, text in begun.items()
    ]  # fmt: skip


def find_bridges(meetings: Sequence[JobMeeting]) -> list[Bridge]:
    """Return the sides that have certainly met each other, in the order in which they met.

    >>> parents = JobMeeting(bridge="a", world="w", kind="Spawn", begun_ns=5, ended_ns=9, marks={"m"}, size=2, others=3)
    >>> spawned = JobMeeting(
    ...     bridge="b", world="v", kind="Get_parent", begun_ns=6, ended_ns=8, marks={"m"}, size=3, others=2
    ... )
    >>> [(bridge.first.world, bridge.second.world) for bridge in find_bridges([spawned, parents])]
    [('w', 'v')]
    """
    firsts = [meeting for meeting in meetings if not meeting.is_second]
    seconds = {meeting.bridge: meeting for meeting in meetings if meeting.is_second}
    possible = {name: [first for first in firsts if first.can_have_met(second)] for name, second in seconds.items()}
    found: list[Bridge] = []
    while True:
        certain = {name: partners[0] for name, partners in possible.items() if len(partners) == 1}
        taken = [first.bridge for first in certain.values()]
        certain = {name: first for name, first in certain.items() if taken.count(first.bridge) == 1}
        if not certain:
            return sorted(found, key=lambda bridge: bridge.first.begun_ns)
        found += [Bridge(first=first, second=seconds[name]) for name, first in certain.items()]
        met = {bridge.first.bridge for bridge in found}
        possible = {
            name: [first for first in partners if first.bridge not in met]
            for name, partners in possible.items()
            if name not in certain
        }


def rename_half(identity: str, names: Mapping[str, tuple[str, str]]) -> str:
    """Return the identity of a communicator as the other half has it; any other one as it is.

    Args:
        identity: As the rank tells it, with its world before it.
        names: By the name of a half: the world and the name of the half that stands for both.

    >>> rename_half("v.0.inter-2-bridge-b-0", {"b": ("w.0", "a")}), rename_half("v.0.mpi-world", {"b": ("w.0", "a")})
    ('w.0.inter-2-bridge-a-0', 'v.0.mpi-world')
    """
    found = _IDENTITY.fullmatch(identity)
    if found is None or found["bridge"] not in names:
        return identity
    world, bridge = names[found["bridge"]]
    return f"{world}.{found['prefix']}{bridge}-{found['origin']}"
