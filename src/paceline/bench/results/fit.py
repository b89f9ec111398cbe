"""Finds the largest number of emulated accelerators that storage keeps busy: doubling, then halving the gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.errors import EmptyPlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class FitTrial:
    """A number of ranks that was tried, and how busy they were."""

    ranks: int
    utilisation: float  # in percent
    samples_per_second: float


@dataclass(slots=True)
class Fit:
    """The largest number of ranks that is kept busy."""

    target: float  # in percent
    trials: list[FitTrial] = field(default_factory=list)
    largest: int = 0  # ranks that are kept busy; 0 if not even one is
    limit: str = ""  # why no more were tried, if more might be kept busy


def fit(attempt: Callable[[int], FitTrial], *, target: float, most: int) -> Fit:
    """Search, assuming that more ranks are never busier.

    Args:
        attempt: Runs a number of ranks.
        target: The utilisation that is wanted, in percent.
        most: The largest number of ranks to try.
    """
    result = Fit(target)

    def is_busy(ranks: int) -> bool:
        trial = attempt(ranks)
        result.trials.append(trial)
        return trial.utilisation >= target

    ranks, too_many = 1, most + 1
    try:
        while ranks < too_many:
            if is_busy(ranks):
                result.largest, ranks = ranks, ranks * 2
            else:
                too_many = ranks
        while too_many - result.largest > 1 and result.largest:
            middle = min((result.largest + too_many) // 2, most)
            if is_busy(middle):
                result.largest = middle
            else:
                too_many = middle
    except EmptyPlanError as error:
        result.limit = str(error)
    if result.largest == most:
        result.limit = f"--most {most}"
    return result
