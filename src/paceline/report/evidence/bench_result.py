"""What `paceline bench run` has measured, as its summary beside the records says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.process.foreign_files import read_json

_SUMMARY = "summary.json"
RECORDS = "records"  # the folder of the records inside that of the figures


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """The figures of a benchmark that a page shows.

    Attributes:
        workload: Its name.
        utilisation: How busy the accelerators were in training, in percent.
        expected: How busy they should be, in percent; None if the summary does not say.
        is_reached: Whether that was reached.
        samples_per_second: Samples in training, over all ranks.
        mib_per_second: What was read for them.
    """

    workload: str
    utilisation: float
    expected: float | None
    is_reached: bool
    samples_per_second: float
    mib_per_second: float


def read_bench_result(records: Path) -> BenchResult | None:
    """Return the figures that belong to the records of a run; None if it was no benchmark, or has none."""
    if records.resolve().parent.name != RECORDS:
        return None
    try:
        summary: Any = read_json(records.resolve().parents[1] / _SUMMARY)
        metric = summary["metric"]
        expected = metric.get("train_au_expected_percentage")
        return BenchResult(
            workload=str(summary["workload"]),
            utilisation=float(metric["train_au_mean_percentage"]),
            expected=None if expected is None else float(expected),
            is_reached=metric["train_au_meet_expectation"] == "success",
            samples_per_second=float(metric["train_throughput_mean_samples_per_second"]),
            mib_per_second=float(metric["train_io_mean_MB_per_second"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no benchmark, or a damaged summary
        return None
