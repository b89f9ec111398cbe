"""What is known of a job at one moment, as values: calls, ranks, communicators. Numbers in, numbers out.

Nothing here reads memory, files or processes; tests build these values by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from paceline.guard.shared_memory.layout import ANY, FAILED, NOTHING, OWN_TIMEOUT
from paceline.guard.shared_memory.operations import BY_NAME, Family, Operation
from paceline.guard.verdict.finding import Cause

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
    cause: Cause | None = None  # where the evidence is plain: out of memory, disk full
    exit_code: int | None = None
    signal: int | None = None
    at_ns: int = 0
    failed_call: int | None = None  # number of the call that raised, if it was a call
    by_peer: bool = False  # the exception says that another rank has ended
    timed_out: bool = False  # the exception says that a time limit ran out
    memory_bytes: int = 0  # what the rank held when it was last looked at; 0: not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One watched call of one rank. The fields of a record, with names for its numbers; see record_fields.py."""

    operation: str
    communicator: str = ""
    sequence: int = 0  # position of a collective among those of its communicator, from 1; 0 for other calls
    number: int = 0  # position among all calls of the rank, from 0
    site: str = ""  # file.py:line of the user's code
    callers: tuple[str, ...] = ()  # the same for the user's frames further out
    library: tuple[str, ...] = ()  # functions of a library that made the call for the user's line, innermost first
    at_site: int = 0  # how many calls this rank has made here
    root: int = NOTHING
    reduction: str = "none"
    dtype: str = "any"
    num_bytes: int = -1
    count: int = -1
    members_hash: int = 0  # stands for the ranks of a communicator that is being made
    flags: int = 0
    request: int = 0  # the request that it started, if somebody can wait for it
    entered_ns: int = 0
    left_ns: int = 0
    # messages and waits
    peer: int = NOTHING  # where a message goes to, or, if the call only receives, comes from
    tag: int = NOTHING
    message_number: int = 0  # n-th message of its channel, from 1; 0 if not known
    num_requests: int = -1  # of a wait
    source: int = NOTHING  # of what an exchange receives; so are the other fields named source_*
    source_tag: int = NOTHING
    source_dtype: str = "any"
    source_bytes: int = -1
    source_number: int = 0

    @property
    def traits(self) -> Operation:
        """What is known of the operation."""
        return BY_NAME[self.operation]

    @property
    def family(self) -> Family:
        """How the operation meets its partners."""
        return BY_NAME[self.operation].family

    @property
    def is_collective(self) -> bool:
        """Whether it is one of a communicator's collectives."""
        return BY_NAME[self.operation].family is Family.COLLECTIVE

    @property
    def position(self) -> Position:
        """Where a collective stands among those of its communicator."""
        return Position(self.communicator, self.sequence)

    @property
    def failed(self) -> bool:
        """Whether it raised."""
        return bool(self.flags & FAILED)

    @property
    def has_own_timeout(self) -> bool:
        """Whether the user gave it a limit of its own."""
        return bool(self.flags & OWN_TIMEOUT)

    @property
    def incoming(self) -> Incoming:
        """What a receive, a probe or an exchange takes."""
        if self.family is Family.EXCHANGE:
            return Incoming(self.source, self.source_tag, self.source_dtype, self.source_bytes, self.source_number)
        return Incoming(self.peer, self.tag, self.dtype, self.num_bytes, self.message_number)

    @property
    def peers(self) -> tuple[int, ...]:
        """The members that a message goes to and comes from; each may be ANY or nobody."""
        return (self.peer, self.source) if self.family is Family.EXCHANGE else (self.peer,)


class Position(NamedTuple):
    """A collective's place among those of its communicator: "call 5 on WORLD"."""

    communicator: str  # its identity
    sequence: int


class Incoming(NamedTuple):
    """What a call wants to receive."""

    source: int
    tag: int
    dtype: str
    num_bytes: int
    number: int  # n-th message of its channel; 0 if not known

    def takes(self, sender: int, tag: int) -> bool:
        """Say whether a message of this sender with this tag is what it wants."""
        return self.source in (ANY, sender) and self.tag in (ANY, tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A thread inside a call that has not returned."""

    call: Call
    requests: tuple[Call, ...] = ()  # what it waits for, if the call waits for requests
    any_of: bool = False
    is_complete: bool = True  # whether `requests` lists all of them

    @property
    def awaited(self) -> tuple[Call, ...]:
        """The calls that must complete before the thread goes on: its requests, or the call that it is in."""
        return self.requests if self.call.family is Family.WAIT else (self.call,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A call that the rank refuses to make, because what it sees of another rank does not fit."""

    call: Call
    reason: int
    peer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A communicator as the verdict knows it: its name, and its members as ranks of the job, in their order."""

    name: str
    ranks: tuple[int, ...]

    def member(self, rank: int) -> int:
        """Return the number of a rank in the communicator."""
        if rank < len(self.ranks) and self.ranks[rank] == rank:  # so it is in the world, which may be large
            return rank
        return self.ranks.index(rank)

    def rank_of(self, member: int) -> int | None:
        """Return the rank that has a number in the communicator; None if no rank has."""
        return self.ranks[member] if 0 <= member < len(self.ranks) else None


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
    forgotten: frozenset[str] = frozenset()  # communicators that it had, and whose positions are not kept any more
    communicators_known: bool = True  # whether there was room to tell of all
    messages_known: bool = True
    threads_known: bool = True
    stop: Stop | None = None
    history: tuple[Call, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether every thread that communicates is inside a call."""
        return self.end is None and self.threads_known and bool(self.threads) and None not in self.threads

    @property
    def waiting(self) -> Iterator[Waiting]:
        """The threads that are inside a call."""
        return (waiting for waiting in self.threads if waiting is not None)

    def begun(self, communicator: str) -> int | None:
        """Return how many collectives it has begun on a communicator; None if that is not known: it may have any."""
        sequence = self.positions.get(communicator)
        if sequence is not None:
            return sequence
        return 0 if self.communicators_known and communicator not in self.forgotten else None

    def call(self, number: int | None) -> Call | None:
        """Return a call by its number, if it is remembered."""
        return next((call for call in self.history if call.number == number), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A job at one moment. A rank that has not been seen yet is None, and may do anything."""

    ranks: Sequence[RankState | None]
    communicators: Mapping[str, Membership]  # by identity
    new_groups: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # the ranks that a members_hash stands for

    def state(self, rank: int) -> RankState | None:
        """Return what is known of a rank."""
        return self.ranks[rank] if 0 <= rank < len(self.ranks) else None
