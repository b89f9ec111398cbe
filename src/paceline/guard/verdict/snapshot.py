"""What is known of a job at one moment, as values: calls, ranks, communicators. Numbers in, numbers out.

Nothing here reads memory, files or processes; tests build these values by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from paceline.guard.shared_memory.layout import ANY, FAILED, NOTHING, OWN_TIMEOUT
from paceline.guard.shared_memory.operations import BY_NAME, Family, Operation

Channel = tuple[str, int, int]  # communicator, peer (its number there), tag


class EndKind(Enum):
    """How a process ended."""

    EXITED = "exited"
    RAISED = "raised"
    KILLED = "killed"
    ABORTED = "aborted"  # the script itself called Abort


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a rank."""

    kind: EndKind
    detail: str = ""
    site: str = ""
    cause: str = ""  # a slug, where the evidence is plain: out-of-memory, disk-full
    exit_code: int | None = None
    signal: int | None = None
    at_ns: int = 0
    failed_call: int | None = None  # number of the call that raised, if it was a call
    by_peer: bool = False  # the exception says that another rank has gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One watched call of one rank."""

    operation: str
    communicator: str = ""
    sequence: int = 0  # position among the collectives of the communicator, or n-th message; from 1, 0 if not known
    number: int = 0  # position among all calls of the rank
    site: str = ""  # file.py:line of the user's code
    callers: tuple[str, ...] = ()  # the same for the user's frames further out
    at_site: int = 0  # how many calls this rank has made here
    root: int = NOTHING  # also the peer of a message
    tag: int = NOTHING
    reduction: str = "none"
    dtype: str = "any"
    num_bytes: int = -1
    count: int = -1
    flags: int = 0
    request: int = 0  # the request that it started, if somebody can wait for it
    entered_ns: int = 0
    left_ns: int = 0
    source: int = NOTHING  # of the receiving half of an exchange
    source_tag: int = NOTHING
    source_dtype: str = "any"
    source_bytes: int = -1
    source_sequence: int = 0

    @property
    def facts(self) -> Operation:
        """What is known of the operation."""
        return BY_NAME[self.operation]

    @property
    def is_collective(self) -> bool:
        """Whether it is one of a communicator's collectives."""
        return BY_NAME[self.operation].family is Family.COLLECTIVE

    @property
    def failed(self) -> bool:
        """Whether it raised."""
        return bool(self.flags & FAILED)

    @property
    def has_own_timeout(self) -> bool:
        """Whether the user gave it a limit of its own."""
        return bool(self.flags & OWN_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A thread inside a call that has not returned."""

    call: Call
    requests: tuple[Call, ...] = ()  # what it waits for, if the call waits for requests
    any_of: bool = False
    is_complete: bool = True  # whether `requests` lists all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A call that the rank refuses to make, because what it sees of another rank does not fit."""

    call: Call
    reason: int
    peer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A communicator."""

    name: str
    ranks: tuple[int, ...]

    def member(self, rank: int) -> int:
        """Return the number of a rank in the communicator."""
        if rank < len(self.ranks) and self.ranks[rank] == rank:  # so it is in the world, which may be large
            return rank
        return self.ranks.index(rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """One rank at the moment of the snapshot."""

    rank: int
    end: End | None = None
    threads: tuple[Waiting | None, ...] = (None,)  # each thread that communicates; None: it runs
    positions: Mapping[str, int] = field(default_factory=dict)  # communicator -> collectives begun
    freed: frozenset[str] = frozenset()
    sent: Mapping[Channel, int] = field(default_factory=dict)
    received: Mapping[Channel, int] = field(default_factory=dict)
    posted: tuple[Call, ...] = ()  # requests under way
    messages_known: bool = True
    threads_known: bool = True
    stop: Stop | None = None
    history: tuple[Call, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether every thread that communicates is inside a call."""
        return self.end is None and self.threads_known and bool(self.threads) and None not in self.threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A job at one moment. A rank that has not been seen yet is None, and may do anything."""

    ranks: Sequence[RankState | None]
    groups: Mapping[str, Group]
    new_groups: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # what a new group's number stands for

    def state(self, rank: int) -> RankState | None:
        """Return what is known of a rank."""
        return self.ranks[rank] if 0 <= rank < len(self.ranks) else None


def fits(wanted: int, given: int) -> bool:
    """Say whether a wanted peer or tag, maybe any, is met."""
    return wanted in (ANY, given)
