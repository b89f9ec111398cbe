"""Compares runs: ratios of medians, with the spread over repeated runs. Numbers in, numbers out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paceline.bench.results.run_summary import RunSummary
from paceline.errors import InputError, brief

# where a figure stands in the summary, and whether more is better
FIGURES = {
    "metric.train_au_mean_percentage": True,
    "metric.train_throughput_mean_samples_per_second": True,
    "metric.train_io_mean_MB_per_second": True,
    "metric.eval_throughput_mean_samples_per_second": True,
    "metric.save_checkpoint_io_mean_GB_per_second": True,
    "metric.load_checkpoint_io_mean_GB_per_second": True,
    "paceline.time_to_first_batch_seconds": False,
    "paceline.load_seconds_percentiles.p50": False,
    "paceline.load_seconds_percentiles.p99": False,
    "paceline.cpu_seconds_per_sample": False,
}
_LARGEST, _LONGEST_WORD = 1e100, 100  # of what a summary may hold: it may be anybody's
_SAME = ("workload", "num_accelerators", "num_files_train", "num_samples_per_file", "format")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureComparison:
    """One figure of two sides.

    Attributes:
        name: Which figure.
        first: The values of the first side's runs.
        second: Those of the second.
        more_is_better: Whether more is better.
    """

    name: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    more_is_better: bool

    @property
    def ratio(self) -> float | None:
        """The median of the second over that of the first."""
        middle = statistics.median(self.first)
        return statistics.median(self.second) / middle if middle else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """The least and the largest ratio that any two runs give."""
        if not (min(self.first) and max(self.first)):
            return None
        return min(self.second) / max(self.first), max(self.second) / min(self.first)

    @property
    def verdict(self) -> str:
        """`better` or `worse` if all runs of one side are beyond all of the other; single runs tell nothing."""
        if min(len(self.first), len(self.second)) < 2:
            return "one run: no spread"
        if self.spread is None or self.spread[0] <= 1 <= self.spread[1]:
            return "within the spread"
        return "better" if (self.spread[0] > 1) == self.more_is_better else "worse"


def compare_runs(first: Sequence[RunSummary], second: Sequence[RunSummary]) -> tuple[list[FigureComparison], list[str]]:
    """Return the figures that both sides have, and how else the sides differ."""
    differences = []
    for name in _SAME:
        sides = [sorted({_word(run.get(name)) for run in side}) for side in (first, second)]
        if sides[0] != sides[1]:
            differences.append(f"{name}: {', '.join(sides[0])} against {', '.join(sides[1])}")
    comparisons = []
    for name, more_is_better in FIGURES.items():
        values = [
            tuple(value for run in side if (value := _figure_in(run, name)) is not None) for side in (first, second)
        ]
        if all(values):
            comparisons.append(
                FigureComparison(name=name, first=values[0], second=values[1], more_is_better=more_is_better)
            )
    if not comparisons:
        raise InputError("the runs have no figure in common")
    return comparisons, differences


def _word(value: Any) -> str:
    return value if isinstance(value, str) and len(value) < _LONGEST_WORD else brief(value)


def _figure_in(run: Any, name: str) -> float | None:
    """Return the figure that stands at a dotted name of a summary, if it is there."""
    for part in name.split("."):
        run = run.get(part) if isinstance(run, dict) else None
    if isinstance(run, bool) or not isinstance(run, int | float) or abs(run) > _LARGEST or not math.isfinite(run):
        return None
    return float(run)
