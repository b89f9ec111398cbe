"""What watchers and the head say to each other: msgpack arrays, with a limit on everything that comes in.

Reports are state, not events: a lost one is found by its number, and answered by a report of everything. A ring
travels as the parts of it that have changed; see ring_image.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, TypeVar

import msgspec

from paceline.guard.hosts.stretches.stretch import MOST_LEVEL, MOST_NUMBER, SUMS_BYTES
from paceline.guard.hosts.viewing.view_messages import GlanceReport, WantGlances

PROTOCOL = 6
MOST_BYTES = 8 << 20  # of one message
MOST_RINGS = 1024  # of one host
MOST_RANKS = 1 << 20  # of a job
MOST_STRETCHES = 256  # that a host tells at once
_MOST_NAMES = 64  # of one ring
_MOST_SIDES_BYTES = 512  # of messages that one rank has sent, or received

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Pid = Annotated[int, msgspec.Meta(ge=1, le=(1 << 31) - 1)]
_Name = Annotated[str, msgspec.Meta(max_length=200)]
_Text = Annotated[str, msgspec.Meta(max_length=10_000)]
_Ranges = Annotated[list[tuple[_Count, _Count, _Count]], msgspec.Meta(max_length=MOST_RINGS)]  # begin, end, step
_Link = Annotated[bytes, msgspec.Meta(max_length=255)]


class Hello(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """A watcher's first word."""

    protocol: int
    version: _Name
    host: _Name
    identity: _Name  # tells two hosts of one name apart
    address: _Name = ""  # where a relay listens; nothing for a watcher


class Beat(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """A sign of life in both ways, by which clocks are compared and lost reports are noticed."""

    sent_ns: _Count  # by the clock of the sender
    echo_ns: _Count = 0  # of the beat that this one answers
    number: int = 0  # of the last report that was sent, or taken in; -1: who are you?
    pause: Annotated[int, msgspec.Meta(ge=1, le=60)] = 1  # seconds from one beat to the next, as the head wants it
    head: _Name = ""  # of a head that asks who we are: tells it from another at the same address, before or after it
    error_ns: _Count = 0  # by how much the clock of a relay may differ from the head's


class EndFacts(msgspec.Struct, array_like=True, frozen=True):
    """How a process ended, as far as its host saw it."""

    at_ns: _Count  # by the head's clock
    alive_ns: _Count
    status: int | None
    memory_kills: _Count
    error_ns: _Count = 0  # by how much these times may be wrong, because clocks are compared over a network
    closed_ns: _Count = 0  # when its files were closed, if that was seen
    with_others: bool = False  # others of its host were being ended then


class KernelFacts(msgspec.Struct, array_like=True, frozen=True):
    """What the kernel of its host says of a process that lives."""

    state: Annotated[str, msgspec.Meta(max_length=1)] = ""
    rss_bytes: _Count = 0
    processor_seconds: float = 0.0
    starved_seconds: float = 0.0


class RingReport(msgspec.Struct, array_like=True, frozen=True):
    """One process: the parts of its ring that have changed since the last report."""

    pid: _Pid
    began: _Count
    names: Annotated[list[_Name], msgspec.Meta(max_length=_MOST_NAMES)]
    parts: bytes
    facts: KernelFacts
    end: EndFacts | None = None


class AlikeRanks(msgspec.Struct, array_like=True, frozen=True):
    """Ranks of a large job that are in the same state."""

    digest: _Count  # of their state; see classes/state_digest.py
    ranks: _Ranges


class WorldReport(msgspec.Struct, array_like=True, frozen=True):
    """The ranks of one world whose states have changed, as far as they are told of by their states."""

    world: _Name
    size: Annotated[int, msgspec.Meta(ge=1, le=MOST_RANKS)]
    alike: Annotated[list[AlikeRanks], msgspec.Meta(max_length=MOST_RINGS)]


class AlikeSums(msgspec.Struct, array_like=True, frozen=True):
    """Members of a communicator whose calls in a stretch have the same sums."""

    sums: Annotated[bytes, msgspec.Meta(min_length=SUMS_BYTES, max_length=SUMS_BYTES)]  # see stretches/stretch.py
    ranks: _Ranges  # of its world


class StretchReport(msgspec.Struct, array_like=True, frozen=True):
    """What the members of one host have called in one stretch of a communicator."""

    communicator: _Name
    num_members: Annotated[int, msgspec.Meta(ge=2, le=MOST_RINGS)]  # of all hosts
    level: Annotated[int, msgspec.Meta(ge=0, le=MOST_LEVEL)]
    number: Annotated[int, msgspec.Meta(ge=0, le=MOST_NUMBER)]
    alike: Annotated[list[AlikeSums], msgspec.Meta(max_length=MOST_RINGS)]


class MessageReport(msgspec.Struct, array_like=True, frozen=True):
    """Messages that a rank has sent to other hosts, or received from them: keys and sizes, 16 bytes for each."""

    communicator: _Name
    rank: _Count  # of its world
    sent: Annotated[bytes, msgspec.Meta(max_length=_MOST_SIDES_BYTES)]  # see stretches/message_sides.py
    received: Annotated[bytes, msgspec.Meta(max_length=_MOST_SIDES_BYTES)]


class Stretches(msgspec.Struct, array_like=True, frozen=True, tag=16):
    """What ranks of a host have called that do not wait. One that is lost is not told again: it is not compared."""

    stretches: Annotated[list[StretchReport], msgspec.Meta(max_length=MOST_STRETCHES)]
    messages: Annotated[list[MessageReport], msgspec.Meta(max_length=MOST_STRETCHES)] = []


class FreshFacts(msgspec.Struct, array_like=True, frozen=True, tag=9):
    """What the kernel says now of processes that stand still: had they a processor since?"""

    facts: Annotated[dict[_Pid, KernelFacts], msgspec.Meta(max_length=MOST_RINGS)]


class NoteReport(msgspec.Struct, array_like=True, frozen=True):
    """A process that is a rank by its launcher, and has not joined a job yet."""

    pid: _Pid
    began: _Count
    content: Annotated[bytes, msgspec.Meta(max_length=1 << 20)]
    end: EndFacts | None = None


class Passed(msgspec.Struct, array_like=True, frozen=True, tag=11):
    """What a watcher has said to its relay."""

    link: _Link
    content: bytes


class Report(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """What has changed on a host since the report before this one; everything, if it is whole."""

    number: _Count
    is_whole: bool
    rings: Annotated[list[RingReport], msgspec.Meta(max_length=MOST_RINGS)]
    notes: Annotated[list[NoteReport], msgspec.Meta(max_length=4 * MOST_RINGS)]
    problems: Annotated[list[_Text], msgspec.Meta(max_length=MOST_RINGS)]
    worlds: Annotated[list[WorldReport], msgspec.Meta(max_length=_MOST_NAMES)] = []
    passed: Annotated[list[Passed], msgspec.Meta(max_length=MOST_RINGS)] = []  # by a relay; older than its states
    lost: Annotated[list[_Link], msgspec.Meta(max_length=MOST_RINGS)] = []  # not heard; older than both
    recalled: _Count = 0  # the last request for past calls that this report, or one before it, answers


class Past(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """The past calls of one process, asked for before a finding is made."""

    question: _Count
    pid: _Pid
    parts: bytes


class Answer(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Whether everything is still as in the report that was asked about."""

    question: _Count
    is_same: bool


class Bye(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """A watcher's last word: all its ranks have ended, and everything has been told."""

    number: _Count


class Ask(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The second question: is everything still as in your report?"""

    question: _Count
    number: _Count
    num_calls: Annotated[int, msgspec.Meta(ge=0, le=4096)]  # of the past of each rank


class GoOn(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """Let a rank make the call that it stopped before."""

    pid: _Pid


class Follow(msgspec.Struct, array_like=True, frozen=True, tag=10):
    """From now on, tell of these ranks by their rings."""

    world: _Name
    ranks: Annotated[list[_Count], msgspec.Meta(max_length=MOST_RINGS)]


class Recall(msgspec.Struct, array_like=True, frozen=True, tag=17):
    """Send the past calls of these ranks with the next report, although they move."""

    question: _Count
    world: _Name
    ranks: Annotated[list[_Count], msgspec.Meta(max_length=MOST_RINGS)]
    num_calls: Annotated[int, msgspec.Meta(ge=0, le=4096)]  # of each


class Serve(msgspec.Struct, array_like=True, frozen=True, tag=12):
    """Be a relay: other hosts are to speak through you."""


class MoveTo(msgspec.Struct, array_like=True, frozen=True, tag=13):
    """Speak through the relay at this address from now on; with the head itself, if it is empty."""

    address: _Name


class PassOn(msgspec.Struct, array_like=True, frozen=True, tag=14):
    """Hand this to a watcher that speaks through you."""

    link: _Link
    content: bytes


class TellAnew(msgspec.Struct, array_like=True, frozen=True, tag=15):
    """Have a watcher that speaks through you tell everything: something that it has told cannot be used."""

    link: _Link


class EndJob(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """End all ranks."""

    finding: Annotated[bytes, msgspec.Meta(max_length=1 << 20)] = b""  # why, as JSON


Upward = Hello | Beat | Report | Stretches | FreshFacts | Past | Answer | Bye | Passed | GlanceReport
Downward = Beat | Ask | GoOn | Follow | Recall | EndJob | Serve | MoveTo | PassOn | TellAnew | WantGlances
_Message = TypeVar("_Message")
_ENCODER = msgspec.msgpack.Encoder()
_UPWARD: msgspec.msgpack.Decoder[Upward] = msgspec.msgpack.Decoder(Upward)
_DOWNWARD: msgspec.msgpack.Decoder[Downward] = msgspec.msgpack.Decoder(Downward)


def encode(message: Upward | Downward) -> bytes:
    """Return a message as bytes."""
    return _ENCODER.encode(message)


def decode_upward(content: bytes) -> Upward | None:
    """Return what a watcher says; None if it is not of our language."""
    return _decode(_UPWARD, content)


def decode_downward(content: bytes) -> Downward | None:
    """Return what the head says; None if it is not of our language."""
    return _decode(_DOWNWARD, content)


def _decode(decoder: msgspec.msgpack.Decoder[_Message], content: bytes) -> _Message | None:
    try:
        return decoder.decode(content) if len(content) <= MOST_BYTES else None
    except (msgspec.DecodeError, UnicodeDecodeError):  # a ValidationError is a DecodeError
        return None


@lru_cache(1)
def package_version() -> str:
    """Return the version of this package: watchers and head must have the same."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("paceline")
    except PackageNotFoundError:  # its files are here, and nobody has installed them
        return "unknown"


def refusal(hello: Hello) -> str:
    """Return why a watcher is not understood; nothing if it is."""
    own = package_version()
    if hello.protocol == PROTOCOL and hello.version == own:
        return ""
    return f"{hello.host} has Paceline {hello.version}, and this host {own}: its ranks are not watched"
