"""What benchmarks/detection.py has measured, as counts: by library and load, and by category as a table in Markdown.

Recall is the share of broken programs about which something was said, and specificity the share of correct ones about
which nothing was said, as the MPI Bugs Initiative counts them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

SCORES = ("found", "kind", "ranks", "line", "cause", "advice")
SHOWN = ("found", "ranks", "line", "cause")

Figures = Mapping[str, Any]  # of one library under one load: "broken" and "correct", each by the name of the program


def summarise(figures: Figures) -> dict[str, Any]:
    """Return the scores of one library as counts, and its times."""
    rows = list(figures["broken"].values())
    times = sorted(row["latency_ms"] for row in rows if "latency_ms" in row)
    return {
        **_counts(rows, figures["correct"].values()),
        "median_ms": statistics.median(times) if times else None,
        "slowest_ms": times[-1] if times else None,
    }


def by_category(runs: Iterable[Figures], categories: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the counts of each category that was measured, over all runs, and of all together."""
    broken, correct = [], []
    for figures in runs:
        broken += figures["broken"].values()
        correct += figures["correct"].values()
    table = {}
    for category in categories:
        rows = [row for row in broken if row["category"] == category]
        silent = [row for row in correct if row["category"] == category]
        if rows or silent:
            table[category] = _counts(rows, silent)
    return {**table, "all": _counts(broken, correct)}


def _counts(broken: Iterable[Mapping[str, Any]], correct: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    rows, others = list(broken), list(correct)
    # what is said of a program that the guard cannot judge is as false as what is said of a correct one
    num_false = sum(row["alarm"] for row in others)
    counts = {
        "programs": len(rows),
        **{name: sum(row[name] for row in rows) for name in SCORES},
        "not_expected": sum(row["is_missed"] for row in rows),
        "correct_programs": len(others),
        "false_alarms": num_false + sum(row["alarm"] for row in rows),
    }
    recall = counts["found"] / len(rows) if rows else None
    specificity = (len(others) - num_false) / len(others) if others else None
    return {**counts, "recall": recall, "specificity": specificity}


def markdown(table: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table by category as docs/guard.md shows it."""
    names = ("broken", "found", "right ranks", "right line", "right cause", "recall", "correct", "false alarms")
    lines = [f"| category | {' | '.join(names)} | specificity |", "|---|" + "---:|" * (len(names) + 1)]
    for category, row in table.items():
        cells = [category.replace("_", " "), row["programs"], *(row[name] for name in SHOWN), _share(row["recall"])]
        cells += [row["correct_programs"], row["false_alarms"], _share(row["specificity"])]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
