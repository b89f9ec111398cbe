"""What is said while somebody looks at a run: by hosts to the head. It never becomes part of a ring's mirror.

A mirror shows ranks as they stood still, and the second question is about that. What a moving rank did a moment ago is
good enough to look at, and nothing may be concluded from it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

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
