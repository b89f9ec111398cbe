"""A finding: who fell out of line, where, and why. A value that is printed, written as JSON, or tested."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """Ranks that are in the same situation."""

    ranks: tuple[int, ...]
    state: str  # blocked, running, exited, raised, killed
    call: str | None = None
    communicator: str | None = None
    sequence: int | None = None
    site: str | None = None
    count: int | None = None
    dtype: str | None = None
    detail: str = ""
    has_returned: bool = False  # the call is shown because of what it was, not because a rank waits in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first position at which ranks called from different lines."""

    sequence: int
    communicator: str
    groups: tuple[RankGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is certainly wrong."""

    kind: str  # mismatch, deadlock, peer-gone, message, argument
    field: str | None
    ranks: tuple[int, ...]
    summary: str
    cause: str
    advice: str
    groups: tuple[RankGroup, ...]
    divergence: Divergence | None = None
    latency_ms: float = 0.0
    decided_ns: int = 0  # when, by the clock of the records; 0 if nobody noted it
