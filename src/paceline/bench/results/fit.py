"""Finds the largest number of emulated accelerators that storage keeps busy: doubling, then halving the gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.errors import EmptyPlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One number of ranks, and what came of it."""

    ranks: int
    utilisation: float  # in percent
    samples_per_second: float


@dataclass(slots=True)
class Fit:
    """What was found."""

    target: float  # in percent
    tried: list[Tried] = field(default_factory=list)
    largest: int = 0  # ranks that are kept busy; 0 if not even one is
    limit: str = ""  # why no more were tried, if more might be kept busy


def fit(attempt: Callable[[int], Tried], *, target: float, most: int) -> Fit:
    """Search, supposing that more ranks are never busier.

    Args:
        attempt: Runs so many ranks.
        target: The utilisation in percent that is asked for.
        most: Ranks that are tried at most.
    """
    found = Fit(target)

    def is_busy(ranks: int) -> bool:
        made = attempt(ranks)
        found.tried.append(made)
        return made.utilisation >= target

    ranks, too_many = 1, most + 1
    try:
        while ranks < too_many:
            if is_busy(ranks):
                found.largest, ranks = ranks, ranks * 2
            else:
                too_many = ranks
        while too_many - found.largest > 1 and found.largest:
            middle = min((found.largest + too_many) // 2, most)
            if is_busy(middle):
                found.largest = middle
            else:
                too_many = middle
    except EmptyPlanError as error:
        found.limit = str(error)
    if found.largest == most:
        found.limit = f"--most {most}: more were not tried"
    return found
