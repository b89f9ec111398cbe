"""What is known of a job at one moment, as values: calls, ranks, communicators. Numbers in, numbers out.

Nothing here reads memory, files or processes; tests build these values by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from paceline.guard.shared_memory.layout import (
    ANY,
    FAILED,
    FILE_PREFIX,
    INTER_PREFIX,
    NOTHING,
    OWN_TIMEOUT,
    WINDOW_PREFIX,
    WITHDRAWN,
)
from paceline.guard.shared_memory.operations import BY_NAME, Family, Operation
from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.rank_facts.count_table import CountTable
from paceline.guard.verdict.rank_facts.edges import Edges
from paceline.guard.verdict.rank_names import WorldRank

Channel = tuple[str, int, int]  # communicator, peer (its number there), tag


def is_window_or_file(identity: str) -> bool:
    """Say whether something that is followed like a communicator is a window or a file (`3f1c.window-5d20`)."""
    return identity.rpartition(".")[2].startswith((WINDOW_PREFIX, FILE_PREFIX))


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
    origin: str = ""  # file.py:line at which a function raised that the rank had called on another, if that is why
    failed_call: int | None = None  # number of the call that raised, if it was a call
    by_peer: bool = False  # the exception says that another rank has ended or failed
    timed_out: bool = False  # the exception says that a time limit ran out
    may_be_truncated: bool = False  # it says that a message did not go into its buffer, or leaves it to a status
    at_once: bool = False  # by os._exit, which tells its library nothing: launchers may end the others for it
    memory_bytes: int = 0  # what the rank held when it was last looked at; 0: not known
    closed_ns: int = 0  # when its files were closed, if that was seen: before anybody could react to its end
    with_others: bool = False  # when that was seen, other ranks of its host were being ended too

    @property
    def is_failure(self) -> bool:
        """Whether it is a bad end, and not one that the script has told the launcher of."""
        return self.kind is not EndKind.ABORTED and (self.kind is not EndKind.EXITED or self.exit_code not in (0, None))


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
    role: str = ""  # what stands for its line, if ranks of other roles make the same call from lines of their own
    at_site: int = 0  # how many calls this rank has made here
    root: int = NOTHING
    reduction: str = "none"
    dtype: str = "any"
    num_bytes: int = -1
    count: int = -1
    members_hash: int = 0  # stands for the ranks of a communicator that is being made, or the members of an epoch
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
        """Whether it is one of a communicator's collectives, and has a position there: a refused one has none."""
        return BY_NAME[self.operation].family is Family.COLLECTIVE and not self.flags & WITHDRAWN

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
    """A communicator as the verdict knows it: its name, and its members as ranks of the job, in their order.

    An intercommunicator has the members of one side and then those of the other; `num_first` tells them apart.
    """

    name: str
    ranks: tuple[int, ...]
    num_first: int = 0  # 0: it has one side

    def other_side(self, rank: int) -> tuple[int, ...]:
        """Return the ranks that a member of an intercommunicator talks to; all, if there is one side."""
        if not self.num_first:
            return self.ranks
        first, second = self.ranks[: self.num_first], self.ranks[self.num_first :]
        return second if rank in first else first

    def senders_to(self, rank: int) -> range:
        """Return the numbers of the members that can send a message to a member."""
        if not self.num_first:
            return range(len(self.ranks))
        is_first = rank in self.ranks[: self.num_first]
        return range(self.num_first, len(self.ranks)) if is_first else range(self.num_first)

    def member(self, rank: int) -> int:
        """Return the number of a rank in the communicator."""
        if rank < len(self.ranks) and self.ranks[rank] == rank:  # so it is in the world, which may be large
            return rank
        return self.ranks.index(rank)

    def rank_of(self, member: int) -> int | None:
        """Return the rank that has a number in the communicator; None if no rank has."""
        return self.ranks[member] if 0 <= member < len(self.ranks) else None


def is_inter(identity: str) -> bool:
    """Say whether a communicator has two sides."""
    return identity.rpartition(".")[2].startswith(INTER_PREFIX)


def num_in_first_side(identity: str) -> int:
    """Return how many members the first side of an intercommunicator has, 0 for any other communicator.

    >>> num_in_first_side("9f3c.0.inter-2-77ab"), num_in_first_side("9f3c.0.mpi-world")
    (2, 0)
    """
    return int(identity.rpartition(".")[2].split("-")[1]) if is_inter(identity) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """What a rank says of its own calls at one line: something that may be worth a warning.

    Attributes:
        about: The cause of the warning, as a slug.
        site: file.py:line.
        what: The operation or the kind of handle.
        how: What became of it, as the rule of this cause knows it.
        count: How often, so far.
        facts: What else the rule knows how to read.
    """

    about: str
    site: str
    what: str = ""
    how: str = ""
    count: int = 1
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """One rank at the moment of the snapshot."""

    rank: int
    end: End | None = None
    threads: tuple[Waiting | None, ...] = (None,)  # each thread that communicates; None: it runs
    positions: Mapping[str, int] = field(default_factory=dict)  # communicator -> collectives begun
    freed: frozenset[str] = frozenset()
    finalized_at: str = ""  # file.py:line at which it has called MPI.Finalize, if the script itself did
    thread_error: str = ""  # the first exception of one of its threads that nobody caught, with its line
    sent: Mapping[Channel, int] = field(default_factory=dict)
    received: Mapping[Channel, int] = field(default_factory=dict)
    given: Mapping[Channel, int] = field(default_factory=dict)  # tokens that it gave to members of windows
    taken: Mapping[Channel, int] = field(default_factory=dict)  # and those of others that it needs no more
    held: Mapping[Channel, int] = field(default_factory=dict)  # locks that it holds; the peer ANY stands for all
    made_by: Mapping[str, int] = field(default_factory=dict)  # communicator -> the number of its call before it had it
    neighbours: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # communicator -> members it exchanges with
    edges: Mapping[str, Edges] = field(default_factory=dict)  # communicator -> where these exchanges go
    posted: tuple[Call, ...] = ()  # requests under way
    forgotten: frozenset[str] = frozenset()  # communicators that it had, and whose positions are not kept any more
    communicators_known: bool = True  # whether there was room to tell of all
    messages_known: bool = True
    windows_known: bool = True  # whether there was room to tell of all windows and files, and of their epochs
    threads_known: bool = True
    num_uncertain: int = 0  # messages of which it is not known whether they were sent or received
    remarks: tuple[Remark, ...] = ()
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

    @property
    def abandoned(self) -> tuple[Call, ...]:
        """The requests that were under way when it failed, or left at once: it completes them no more.

        The library may have done its part before. A rank that ends well may complete them while it finalises.
        """
        return self.posted if self.end is not None and (self.end.is_failure or self.end.at_once) else ()

    def begun(self, communicator: str) -> int | None:
        """Return how many collectives it has begun on a communicator; None if that is not known: it may have any."""
        sequence = self.positions.get(communicator)
        if sequence is not None:
            return sequence
        is_known = self.windows_known if is_window_or_file(communicator) else self.communicators_known
        return 0 if is_known and communicator not in self.forgotten else None

    def num_sent(self, call: Call) -> int:
        """Return how many messages it has sent so far to where a send of its own goes, with the same tag."""
        return self.sent.get((call.communicator, call.peer, call.tag), 0)

    def call(self, number: int | None) -> Call | None:
        """Return a call by its number, if it is remembered."""
        return next((call for call in self.history if call.number == number), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A job at one moment. A rank that has not been seen yet is None, and may do anything.

    It may be that it starts on this machine (`starting`). All others are out of sight: perhaps on another machine.
    """

    ranks: Sequence[RankState | None]
    communicators: Mapping[str, Membership]  # by identity
    new_groups: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # what a members_hash stands for
    # positions at which some pair does not fit: the tables of the members that are there, by their number
    tables: Mapping[Position, Mapping[int, CountTable]] = field(default_factory=dict)
    world_ranks: Mapping[int, WorldRank] = field(default_factory=dict)  # ranks that people know by another number
    starting: frozenset[int] = frozenset()  # ranks that a launcher has started here, and that have not joined yet

    def state(self, rank: int) -> RankState | None:
        """Return what is known of a rank."""
        return self.ranks[rank] if 0 <= rank < len(self.ranks) else None
