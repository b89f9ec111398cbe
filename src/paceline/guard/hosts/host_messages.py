"""What watchers and the head say to each other: msgpack arrays, with a limit on everything that comes in.

Reports are state, not events: a lost one is found by its number, and answered by a report of everything. A ring
travels as the parts of it that have changed; see ring_image.py.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

PROTOCOL = 1
MOST_BYTES = 8 << 20  # of one message
MOST_RINGS = 1024  # of one host
_MOST_NAMES = 64  # of one ring

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Pid = Annotated[int, msgspec.Meta(ge=1, le=(1 << 31) - 1)]
_Name = Annotated[str, msgspec.Meta(max_length=200)]
_Text = Annotated[str, msgspec.Meta(max_length=10_000)]


class Hello(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """A watcher's first word."""

    protocol: int
    version: _Name
    host: _Name
    identity: _Name  # tells two hosts of one name apart, and a host from itself after it was started again


class Beat(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """A sign of life in both ways, by which clocks are compared and lost reports are noticed."""

    sent_ns: _Count  # by the clock of the sender
    echo_ns: _Count = 0  # of the beat that this one answers
    number: int = 0  # of the last report that was sent, or taken in; -1: who are you?


class EndFacts(msgspec.Struct, array_like=True, frozen=True):
    """How a process ended, as far as its host saw it."""

    at_ns: _Count  # by the head's clock
    alive_ns: _Count
    status: int | None
    memory_kills: _Count
    error_ns: _Count = 0  # by how much these times may be wrong, because clocks are compared over a network


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


class FreshFacts(msgspec.Struct, array_like=True, frozen=True, tag=9):
    """What the kernel says now of processes that stand still: had they a processor since?"""

    facts: Annotated[dict[_Pid, KernelFacts], msgspec.Meta(max_length=MOST_RINGS)]


class NoteReport(msgspec.Struct, array_like=True, frozen=True):
    """A process that is a rank by its launcher, and has not joined a job yet."""

    pid: _Pid
    began: _Count
    content: Annotated[bytes, msgspec.Meta(max_length=1 << 20)]
    end: EndFacts | None = None


class Report(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """What has changed on a host since the report before this one; everything, if it is whole."""

    number: _Count
    is_whole: bool
    rings: Annotated[list[RingReport], msgspec.Meta(max_length=MOST_RINGS)]
    notes: Annotated[list[NoteReport], msgspec.Meta(max_length=4 * MOST_RINGS)]
    problems: Annotated[list[_Text], msgspec.Meta(max_length=MOST_RINGS)]


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


class EndJob(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """End all ranks."""

    finding: Annotated[bytes, msgspec.Meta(max_length=1 << 20)] = b""  # why, as JSON


Upward = Hello | Beat | Report | FreshFacts | Past | Answer | Bye
Downward = Beat | Ask | GoOn | EndJob
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


def package_version() -> str:
    """Return the version of this package: watchers and head must have the same."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("paceline")
    except PackageNotFoundError:  # its files are here, and nobody has installed them
        return "unknown"
