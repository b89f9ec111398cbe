"""Where the marks of the page's still charts go: numbers in, coordinates on a drawing of fixed size out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.report.evidence.steps import Steps
from paceline.report.evidence.waiting_costs import Costs
from paceline.report.evidence.work import WorkStep

WIDTH, HEIGHT = 1000, 220
_MOST_ROWS = 16  # ranks in a table or chart; of more, those that matter
_MOST_POINTS = 500
NO_FIGURE = "\u2013"  # stands where there is none
_LEFT, _TOP, _BOTTOM = 46, 12, 24


def seconds_text(seconds: float) -> str:
    """Return a time in few characters.

    >>> seconds_text(0.0000042), seconds_text(0.25), seconds_text(93.4)
    ('4.2 µs', '250 ms', '1 min 33 s')
    """
    if seconds >= 60:
        return f"{int(seconds // 60)} min {round(seconds % 60)} s"
    for limit, factor, unit in ((1, 1, "s"), (1e-3, 1e3, "ms"), (0, 1e6, "µs")):
        if seconds >= limit:
            value = seconds * factor
            return f"{value:.0f} {unit}" if value >= 100 or value == 0 else f"{value:.2g} {unit}"
    return "0 µs"


def cost_rows(costs: Costs, out_of_line: Sequence[int]) -> dict[str, Any]:
    """Return the straggler ranking: those for whom others waited longest first, with widths of bars in percent."""
    ordered = sorted(costs.ranks, key=lambda cost: (-cost.seconds_caused, -cost.seconds_waited, cost.rank))
    shown = ordered[:_MOST_ROWS]
    most = max([cost.seconds_waited for cost in costs.ranks] + [cost.seconds_caused for cost in costs.ranks] + [1e-12])
    rows = [
        {
            "rank": cost.rank,
            "is_out_of_line": cost.rank in out_of_line,
            "num_calls": f"{cost.num_calls:,}",
            "waited": seconds_text(cost.seconds_waited),
            "waited_percent": round(100 * cost.seconds_waited / most, 2),
            "waited_share": f"{min(1.0, cost.seconds_waited / costs.seconds):.0%}" if costs.seconds else "",
            "caused": seconds_text(cost.seconds_caused) if cost.seconds_caused else NO_FIGURE,
            "caused_percent": round(100 * cost.seconds_caused / most, 2),
            "num_last": f"{cost.num_last:,}",
        }
        for cost in shown
    ]
    return {"rows": rows, "num_hidden": len(ordered) - len(shown)}


def site_rows(costs: Costs) -> list[dict[str, Any]]:
    """Return the call sites at which ranks waited longest."""
    most = max([site.seconds_waited for site in costs.sites] + [1e-12])
    return [
        {
            "site": site.site,
            "call": site.call,
            "num_calls": f"{site.num_calls:,}",
            "waited": seconds_text(site.seconds_waited) if site.seconds_waited else NO_FIGURE,
            "percent": round(100 * site.seconds_waited / most, 2),
            "longest": seconds_text(site.longest) if site.longest else NO_FIGURE,
            "mostly_for": "" if site.mostly_for is None else f"rank {site.mostly_for} ({site.mostly_share:.0%})",
        }
        for site in costs.sites
    ]


def step_boxes(steps: Steps) -> dict[str, Any] | None:
    """Return the distribution of each rank's step times, in percent of one common scale."""
    known = {rank: np.sort(times) for rank, times in steps.seconds.items() if len(times) >= 2}
    if not known:
        return None
    ordered = sorted(known, key=lambda rank: -float(np.median(known[rank])))
    shown = sorted(ordered[:_MOST_ROWS])
    every = np.concatenate([known[rank] for rank in shown])
    highest = max(float(np.quantile(every, 0.99)) * 1.05, 1e-9)

    def percent(seconds: float) -> float:
        return round(min(100.0, 100 * seconds / highest), 2)

    rows = []
    for rank in shown:
        low, quarter, middle, three, high = (
            float(np.quantile(known[rank], at)) for at in (0.05, 0.25, 0.5, 0.75, 0.95)
        )
        rows.append(
            {
                "rank": rank, "low": percent(low), "quarter": percent(quarter), "middle": percent(middle),
                "three": percent(three), "high": percent(high), "median": seconds_text(middle),
                "ninety_fifth": seconds_text(high), "longest": seconds_text(float(known[rank][-1])),
                "num_steps": f"{len(known[rank]):,}",
            }
        )  # fmt: skip
    ticks = [{"at": percent(value), "text": seconds_text(value)} for value in _ticks(0, highest, 4)]
    return {"rows": rows, "ticks": ticks, "num_hidden": len(ordered) - len(shown)}


def _ticks(low: float, high: float, count: int) -> list[float]:
    """Return round numbers between two limits."""
    span = (high - low) / count
    size = 10.0 ** math.floor(math.log10(span)) if span > 0 else 1.0
    size *= next(factor for factor in (1, 2, 5, 10) if factor * size >= span * 0.999)
    first = math.ceil(low / size - 1e-9)
    return [number * size for number in range(first, int(high / size + 1e-9) + 1)]


def work_lines(steps: Sequence[WorkStep]) -> dict[str, Any] | None:
    """Return the lines of imbalance before and after, and bars of rows moved, over steps."""
    known = [step for step in steps if step.imbalance_before is not None and step.imbalance_after is not None]
    if not known:
        return None
    before = _thinned([step.imbalance_before or 1.0 for step in known])
    after = _thinned([step.imbalance_after or 1.0 for step in known])
    moved = _thinned([float(step.num_moved) for step in known])
    top = max(*before, *after, 1.05)
    right, bottom = WIDTH - 8, HEIGHT - _BOTTOM

    def across(index: int) -> float:
        return round(_LEFT + (right - _LEFT) * (index / max(1, len(before) - 1)), 1)

    def up(value: float) -> float:
        return round(bottom - (bottom - _TOP) * (value - 1) / (top - 1), 1)

    def line(values: Sequence[float]) -> str:
        return " ".join(f"{across(index)},{up(value)}" for index, value in enumerate(values))

    most = max(*moved, 1.0) if len(moved) > 1 else max(moved[0], 1.0)
    wide = max(0.5, (right - _LEFT) / len(moved) * 0.7)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": _LEFT,
        "right": right,
        "bottom": bottom,
        "before": line(before),
        "after": line(after),
        "levels": [{"y": up(value), "text": f"{value:.4g}"} for value in _ticks(1, top, 4)],
        "epochs": [{**mark, "x": across(int(mark["at"] * (len(before) - 1)))} for mark in _epochs(known)],
        "moved": [
            {"x": round(across(index) - wide / 2, 1), "height": round(50 * value / most, 1)}
            for index, value in enumerate(moved)
        ],
        "moved_wide": round(wide, 2),
        "moved_most": f"{most:,.0f}",
        "num_steps": len(known),
        "mean_before": f"{sum(step.imbalance_before or 1.0 for step in known) / len(known):.3f}",
        "mean_after": f"{sum(step.imbalance_after or 1.0 for step in known) / len(known):.3f}",
        "num_moved": f"{sum(step.num_moved for step in known):,}",
    }


def _epochs(steps: Sequence[WorkStep]) -> list[dict[str, Any]]:
    """Return where epochs begin, as a part of all steps."""
    marks: list[dict[str, Any]] = []
    for index, step in enumerate(steps):
        if index == 0 or (step.epoch, step.loader) != (steps[index - 1].epoch, steps[index - 1].loader):
            marks.append({"at": index / max(1, len(steps) - 1), "text": f"epoch {step.epoch}"})
    return marks if len(marks) <= 20 else []


def _thinned(values: Sequence[float]) -> list[float]:
    """Return at most a few hundred points; of those that become one, the largest."""
    if len(values) <= _MOST_POINTS:
        return list(values)
    return [float(part.max()) for part in np.array_split(np.array(values), _MOST_POINTS)]


def epoch_rows(epochs: Sequence[Any]) -> list[dict[str, str]]:
    """Return what became of the samples of each pass."""
    num_loaders = len({epoch.loader for epoch in epochs})
    rows = []
    for epoch in epochs[:200]:
        name = f"epoch {epoch.epoch}" + (f", loader {epoch.loader + 1}" if num_loaders > 1 else "")
        counts = {key.removeprefix("num_"): f"{value:,}" for key, value in epoch.counts.items()}
        even = None if epoch.imbalance_before is None else f"{epoch.imbalance_before:.3f} → {epoch.imbalance_after:.3f}"
        waiting = epoch.seconds_waiting / epoch.seconds if epoch.seconds and epoch.seconds_waiting is not None else None
        rows.append(
            {
                "name": name if epoch.is_complete else f"{name} (not finished)",
                "steps": counts.get("steps", ""), "used": counts.get("used", ""), "dropped": counts.get("dropped", "?"),
                "padded": counts.get("padded", ""), "repeated": counts.get("repeated", "?"),
                "skipped": counts.get("skipped", "?"), "imbalance": even or NO_FIGURE,
                "moved": f"{epoch.num_moved:,}" if even else NO_FIGURE, "padding": f"{epoch.padding_share:.1%}",
                "seconds": NO_FIGURE if epoch.seconds is None else seconds_text(epoch.seconds),
                "waiting": NO_FIGURE if waiting is None else f"{waiting:.0%}",
            }
        )  # fmt: skip
    return rows
