"""From the work of every rank in some steps to who is waited for: numbers in, a value out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.errors import InputError
from paceline.process.notebook_html import notebook_html

Seconds = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkSummary:
    """How even the work of some steps was, over all ranks.

    Attributes:
        num_steps: Steps that every rank has made.
        imbalance: The work of the busiest rank over the mean, each step weighted by its work.
        waiting_ratio: Which part of their time ranks waited for the busiest one, on average.
        waited_for: The rank that cost the others most.
        last_ratio: In which part of the steps that rank was the last.
        seconds: How long the other ranks waited for it, per step and on average.
    """

    num_steps: int
    imbalance: float
    waiting_ratio: float
    waited_for: int
    last_ratio: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.num_steps} steps, imbalance {self.imbalance:.2f}, {self.waiting_ratio:.0%} of the work's time is "
            f"waiting; rank {self.waited_for} costs most: last in {self.last_ratio:.0%} of steps, "
            f"{1000 * self.seconds:.3g} ms a step"
        )

    def _repr_html_(self) -> str:
        """Return it as a table, for notebooks."""
        rows = [
            ("steps", f"{self.num_steps:,}"),
            ("imbalance", f"{self.imbalance:.3f}"),
            ("waiting", f"{self.waiting_ratio:.0%}"),
            ("waited for", f"rank {self.waited_for}"),
            ("last", f"{self.last_ratio:.0%} of steps"),
            ("costs", f"{1000 * self.seconds:.3g} ms a step"),
        ]
        return notebook_html("work of ranks", rows)


def summarise_work(seconds: Any) -> WorkSummary | None:
    """Return what the work of all ranks says; None for a rank alone, and where no step was measured on all ranks.

    >>> print(summarise_work([[1.0, 1.0], [1.0, 3.0], [1.0, 2.0]]))
    2 steps, imbalance 1.33, 25% of the work's time is waiting; rank 1 costs most: last in 100% of steps, 750 ms a step

    Args:
        seconds: How long each rank worked in each step before it needed the others: (rank, step). A step that some
            rank has not measured is NaN there, and is left out.
    """
    table: Seconds = np.asarray(seconds, dtype=np.float64)  # (rank, step)
    if table.ndim != 2:
        raise InputError(f"seconds must be a table of ranks and steps, got {table.ndim} dimensions")
    table = table[:, np.isfinite(table).all(axis=0)]
    num_ranks, num_steps = table.shape
    if num_ranks < 2 or num_steps == 0:
        return None
    longest = table.max(axis=0)
    lost = (longest - table).sum(axis=0)  # by all ranks that wait
    cost = np.bincount(table.argmax(axis=0), weights=lost, minlength=num_ranks)  # of each rank, to the others
    waited_for = int(cost.argmax())
    return WorkSummary(
        num_steps=num_steps,
        imbalance=float(longest.sum() / max(table.mean(axis=0).sum(), 1e-12)),
        waiting_ratio=float(lost.sum() / max(longest.sum() * num_ranks, 1e-12)),
        waited_for=waited_for,
        last_ratio=float((table[waited_for] == longest).mean()),
        seconds=float(cost[waited_for] / (num_ranks - 1) / num_steps),
    )
