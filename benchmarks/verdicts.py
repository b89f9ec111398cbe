"""How figures are judged: a ratio is a median with its quarters, and there is no verdict where these cover the goal."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Sequence
from typing import Any

REACHED, MISSED, UNCERTAIN = "reached", "missed", "not certain"


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return the median and the quarters of some figures.

    >>> spread([1.0, 2.0, 3.0, 4.0, 5.0])
    {'median': 3.0, 'quarters': [1.5, 4.5]}
    """
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else 3 * [values[0]]
    return {"median": round(middle, 4), "quarters": [round(low, 4), round(high, 4)]}


def verdict(ratio: dict[str, Any], *, at_most: float | None = None, at_least: float | None = None) -> str:
    """Say whether a goal is reached; not certain, if it lies between the quarters.

    >>> verdict(spread([0.9, 1.0, 1.1]), at_most=1.2), verdict(spread([0.9, 1.0, 1.1]), at_least=1.0)
    ('reached', 'not certain')
    """
    low, high = ratio["quarters"]
    if at_most is not None:
        return REACHED if high <= at_most else MISSED if low > at_most else UNCERTAIN
    assert at_least is not None
    return REACHED if low >= at_least else MISSED if high < at_least else UNCERTAIN


def shown(ratio: dict[str, Any]) -> str:
    """Return a ratio as people read it: the median, and the quarters in brackets."""
    low, high = ratio["quarters"]
    return f"{ratio['median']:.2f} ({low:.2f} to {high:.2f})"


def processor_seconds() -> float:
    """Return the seconds of a processor, user and system, of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
