"""What is said while somebody looks at a run: by hosts to the head, and by the head to viewers elsewhere.

What hosts say never becomes part of a ring's mirror. A mirror shows ranks as they stood still, and the second question
is about that. What a moving rank did a moment ago is good enough to look at, and nothing may be concluded from it.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from paceline.guard.observe.gauges import JobView, RankView

VIEW_PROTOCOL = 1
MOST_SITES, MOST_GROUPS, MOST_ARRIVALS = 32, 32, 32  # of one rank: lines, communicators, and collectives of each
MOST_GLANCES = 1024  # ranks of one host

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Pid = Annotated[int, msgspec.Meta(ge=1, le=(1 << 31) - 1)]
_Name = Annotated[str, msgspec.Meta(max_length=200)]
_Site = Annotated[str, msgspec.Meta(max_length=1000)]
_Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
_Entries = Annotated[list[tuple[_Count, _Count]], msgspec.Meta(max_length=MOST_ARRIVALS)]  # sequence, and when

_Ranks = Annotated[list[_Count], msgspec.Meta(max_length=MOST_GLANCES)]


class RankGlance(msgspec.Struct, array_like=True, frozen=True):
    """What one rank does; times by the head's clock."""

    call: _Name  # empty if it runs
    site: _Site
    entered_ns: _Count
    share: _Share | None  # of its time of late in calls
    counts: Annotated[list[tuple[_Site, _Count]], msgspec.Meta(max_length=MOST_SITES)]
    arrivals: Annotated[list[tuple[_Name, _Count, _Entries]], msgspec.Meta(max_length=MOST_GROUPS)]  # name, size


class WantGlances(msgspec.Struct, array_like=True, frozen=True, tag=24):
    """Somebody looks: what do your ranks do? Of large jobs, only these ranks are asked for, by world."""

    ranks: Annotated[dict[_Name, _Ranks], msgspec.Meta(max_length=MOST_GROUPS)]


class GlanceReport(msgspec.Struct, array_like=True, frozen=True, tag=25):
    """What they do."""

    glances: Annotated[dict[_Pid, RankGlance], msgspec.Meta(max_length=MOST_GLANCES)]
    sampled: Annotated[list[tuple[_Name, _Count, RankGlance]], msgspec.Meta(max_length=MOST_GLANCES)]  # world, rank
    error_ns: _Count = 0  # by how much times may be wrong, because clocks are compared over a network


class Attach(msgspec.Struct, array_like=True, frozen=True, tag=32):
    """All that a viewer ever says, again and again as long as it looks."""

    protocol: int
    version: _Name
    has_heard_end: bool = False  # that the run has ended


class RunPicture(msgspec.Struct, array_like=True, frozen=True, tag=33):
    """What is to be seen now."""

    jobs: Annotated[list[JobView], msgspec.Meta(max_length=MOST_GLANCES)]


class NoView(msgspec.Struct, array_like=True, frozen=True, tag=34):
    """There is nothing to be seen."""

    why: _Site


class RunEnd(msgspec.Struct, array_like=True, frozen=True, tag=35):
    """The run has ended."""

    outcome: bytes  # as JSON; empty if nobody knows


ViewerReply = RunPicture | NoView | RunEnd
_STATES = ("waiting", "running", "exited", "raised", "killed", "absent")
_ENCODER = msgspec.msgpack.Encoder()
_ATTACH = msgspec.msgpack.Decoder(Attach)
_REPLY: msgspec.msgpack.Decoder[ViewerReply] = msgspec.msgpack.Decoder(ViewerReply)


def encode_view(message: Attach | ViewerReply) -> bytes:
    """Return a message between a viewer and the head as bytes."""
    return _ENCODER.encode(message)


def decode_attach(content: bytes) -> Attach | None:
    """Return what a viewer says; None if it is not that."""
    try:
        return _ATTACH.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decode_reply(content: bytes) -> ViewerReply | None:
    """Return what the head says to a viewer; None if it cannot be shown."""
    try:
        reply = _REPLY.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if isinstance(reply, RunPicture) and not all(map(_can_be_shown, reply.jobs)) else reply


def _can_be_shown(view: JobView) -> bool:
    return math.isfinite(view.seconds) and math.isfinite(view.last_by_ms) and all(map(_is_rank, view.ranks))


def _is_rank(rank: RankView) -> bool:
    numbers = (rank.seconds, rank.steps_per_second, rank.share_in_calls, rank.share_last)
    return rank.state in _STATES and all(number is None or math.isfinite(number) for number in numbers)
