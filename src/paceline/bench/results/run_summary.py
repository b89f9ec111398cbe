"""The summary of a run, over all ranks: DLIO's names, and what those leave out. Numbers in, numbers out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from paceline.bench.results.figures import EpochFigures, RankFigures
from paceline.bench.workload.sections import Workload
from paceline.plan import Summary

_MB, _GB = 1024.0**2, 1024.0**3  # as DLIO counts them


def summary_of(
    ranks: Sequence[RankFigures], workload: Workload, *, plans: dict[str, Summary], num_bytes: int, outcome: str = "ok"
) -> dict[str, Any]:
    """Return the summary.

    Args:
        ranks: The figures of those ranks that have any.
        workload: The workload.
        plans: What the plan says of `train` and `eval`.
        num_bytes: The bytes of the data set.
        outcome: `ok`, `finding` or `failed`.
    """
    data = workload.dataset
    hosts = {figures.host: figures for figures in ranks}
    world_size = max((figures.world_size for figures in ranks), default=0)
    per_host = num_bytes / max(1, len(hosts))
    failures = {figures.failure: figures.rank for figures in reversed(ranks) if figures.failure}
    return {
        "version": 1,
        "workload": workload.model.name,
        "outcome": outcome,
        "failure": next(iter(failures), None),
        "start": _when(min((figures.began for figures in ranks), default=None)),
        "end": _when(max((figures.ended or 0.0 for figures in ranks), default=0.0) or None),
        "num_accelerators": world_size,
        "num_hosts": len(hosts),
        "hostname": sorted(hosts),
        "carrier": ranks[0].carrier if ranks else None,
        "epochs": workload.train.epochs,
        "num_files_train": data.num_files_train,
        "num_files_eval": data.num_files_eval,
        "num_samples_per_file": data.num_samples_per_file,
        "format": data.format,
        "host_cpu_count": max((figures.cpu_count for figures in ranks), default=0),
        "host_memory_GB": [figures.memory_bytes / _GB for _, figures in sorted(hosts.items())],
        "data_size_per_host_GB": per_host / _GB,
        "potential_caching": [per_host < figures.memory_bytes for _, figures in sorted(hosts.items())],
        "metric": _metrics(ranks, workload),
        "plan": {phase: dict(about) for phase, about in plans.items()},
        "paceline": _more(ranks),
    }


def _metrics(ranks: Sequence[RankFigures], workload: Workload) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for phase in ("train", "eval"):
        passes = [each for each in _passes(ranks, phase) if sum(one.counted.seconds for one in each) > 0]
        if passes:
            told |= _phase_metrics(phase, passes, workload.metric.au)
    return told | _checkpoint_metrics(ranks)


def _passes(ranks: Sequence[RankFigures], phase: str) -> list[list[EpochFigures]]:
    """Return each pass as the ranks have seen it: (epoch, rank)."""
    epochs = sorted({epoch for figures in ranks for kind, epoch in figures.epochs if kind == phase})
    return [[figures.epochs[phase, epoch] for figures in ranks if (phase, epoch) in figures.epochs] for epoch in epochs]


def _phase_metrics(phase: str, passes: list[list[EpochFigures]], expected: float) -> dict[str, Any]:
    used = [100 * _mean(one.counted.compute / one.counted.seconds for one in each) for each in passes]
    seconds = [max(one.counted.seconds for one in each) for each in passes]
    rates = [sum(one.counted.samples for one in each) / spent for each, spent in zip(passes, seconds, strict=True)]
    volumes = [
        sum(one.counted.num_bytes for one in each) / spent / _MB for each, spent in zip(passes, seconds, strict=True)
    ]
    return {
        f"{phase}_au_percentage": used,
        f"{phase}_au_mean_percentage": _mean(used),
        f"{phase}_au_stdev_percentage": statistics.pstdev(used),
        f"{phase}_au_meet_expectation": "success" if _mean(used) >= 100 * expected else "fail",
        f"{phase}_throughput_samples_per_second": rates,
        f"{phase}_throughput_mean_samples_per_second": _mean(rates),
        f"{phase}_throughput_stdev_samples_per_second": statistics.pstdev(rates),
        f"{phase}_io_mean_MB_per_second": _mean(volumes),
        f"{phase}_io_stdev_MB_per_second": statistics.pstdev(volumes),
    }


def _checkpoint_metrics(ranks: Sequence[RankFigures]) -> dict[str, Any]:
    """A checkpoint takes as long as its slowest rank."""
    count = min((len(figures.checkpoints) for figures in ranks), default=0)
    if not count:
        return {}
    told: dict[str, Any] = {}
    made = [[figures.checkpoints[number] for figures in ranks] for number in range(count)]
    sizes = [sum(part["bytes"] for part in each) for each in made]
    for name in ("save", "load"):
        spent = [max(part[name] for part in each) for each in made]
        if not any(spent):
            continue
        rates = [size / _GB / seconds for size, seconds in zip(sizes, spent, strict=True) if seconds]
        told |= {
            f"{name}_checkpoint_io_mean_GB_per_second": _mean(rates),
            f"{name}_checkpoint_io_stdev_GB_per_second": statistics.pstdev(rates),
            f"{name}_checkpoint_duration_mean_seconds": _mean(spent),
            f"{name}_checkpoint_duration_stdev_seconds": statistics.pstdev(spent),
        }
    return told | {"num_checkpoints": count, "checkpoint_size_GB": _mean(sizes) / _GB}


def _more(ranks: Sequence[RankFigures]) -> dict[str, Any]:
    """What DLIO's users miss."""
    passes = [each for phase in ("train", "eval") for each in _passes(ranks, phase)]
    samples = sum(one.whole.samples for each in passes for one in each)
    loads = [value for figures in ranks for value in figures.load_quantiles]
    firsts = [figures.first_batch_seconds for figures in ranks if figures.first_batch_seconds is not None]
    busy = {figures.rank: _busy(figures) for figures in ranks}
    slowest = max(busy, key=lambda rank: busy[rank], default=None)
    mean = _mean(busy.values())
    cpu = sum(one.cpu for each in passes for one in each if one.is_whole)
    ended = sum(one.whole.samples for each in passes for one in each if one.is_whole)
    return {
        "steps_per_rank": {figures.rank: sum(one.whole.steps for one in figures.epochs.values()) for figures in ranks},
        "samples_read": samples,
        "bytes_read": sum(one.whole.num_bytes for each in passes for one in each),
        "cache_share": _cache_share([one for each in passes for one in each]),
        "time_to_first_batch_seconds": max(firsts, default=None),
        "load_seconds_percentiles": {
            f"p{rank}": float(np.percentile(loads, rank)) if loads else None for rank in (50, 90, 99, 100)
        },
        "seconds_per_rank": {
            figures.rank: {
                name: sum(getattr(one.whole, name) for one in figures.epochs.values())
                for name in ("load", "compute", "sync")
            }
            for figures in ranks
        },
        "spread_between_ranks": busy[slowest] / mean if slowest is not None and mean else None,
        "straggler": slowest,
        "cpu_seconds_per_sample": cpu / ended if ended else None,
        "epoch_seconds": [max(one.seconds or one.whole.seconds for one in each) for each in _passes(ranks, "train")],
    }


def _busy(figures: RankFigures) -> float:
    """The time of a rank's own: what others wait for."""
    return sum(one.whole.load + one.whole.compute for one in figures.epochs.values())


def _cache_share(passes: Sequence[EpochFigures]) -> float | None:
    """Return which share of what was asked for did not come from a device."""
    asked = sum(one.asked for one in passes if one.asked is not None)
    came = sum(one.from_device or 0 for one in passes if one.asked is not None)
    return max(0.0, 1.0 - came / asked) if asked else None


def _mean(values: Any) -> float:
    told = list(values)
    return sum(told) / len(told) if told else 0.0


def _when(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
