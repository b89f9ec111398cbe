"""The summary of a run, over all ranks: DLIO's names, and what those leave out. Numbers in, numbers out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict

import numpy as np

from paceline.bench.results.figures import EpochFigures, RankFigures
from paceline.bench.workload.sections import Workload
from paceline.plan import Summary

_MB, _GB = 1024.0**2, 1024.0**3  # as DLIO counts them
_PHASES = ("train", "eval")
Metrics = dict[str, Any]  # DLIO's names, such as `train_au_mean_percentage`: a number, a list of numbers, or a word


class HostFigures(TypedDict):
    """What the ranks of one host make of training."""

    ranks: list[int]
    au_percentage: float
    samples_per_second: float
    MB_per_second: float
    load_seconds: float  # of its slowest rank


class OwnFigures(TypedDict):
    """What DLIO's metrics leave out. Ranks are numbers here, and texts once the summary is read from JSON."""

    steps_per_rank: dict[int, int]
    samples_read: int
    bytes_read: int
    cache_share: float | None
    time_to_first_batch_seconds: float | None
    load_seconds_percentiles: dict[str, float | None]
    seconds_per_rank: dict[int, dict[str, float]]
    hosts: dict[str, HostFigures]
    spread_between_ranks: float | None
    straggler: int | None
    cpu_seconds_per_sample: float | None
    epoch_seconds: list[float]
    log_lines_left_out: int


class RunSummary(TypedDict):
    """The summary of a run, as `summary.json` has it."""

    version: int
    workload: str
    outcome: str  # ok, finding or failed
    failure: str | None
    start: str | None
    end: str | None
    num_accelerators: int
    num_hosts: int
    hostname: list[str]
    carrier: str | None
    epochs: int
    num_files_train: int
    num_files_eval: int
    num_samples_per_file: int
    format: str
    host_cpu_count: int
    host_memory_GB: list[float]
    data_size_per_host_GB: float
    potential_caching: list[bool]
    metric: Metrics
    plan: dict[str, dict[str, int]]  # phase -> what becomes of its samples
    paceline: OwnFigures


def summary_of(
    ranks: Sequence[RankFigures], workload: Workload, *, plans: dict[str, Summary], num_bytes: int, outcome: str = "ok"
) -> RunSummary:
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
        "start": _iso_time(min((figures.began for figures in ranks), default=None)),
        "end": _iso_time(max((figures.ended or 0.0 for figures in ranks), default=0.0) or None),
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
        "plan": {phase: dict(counts) for phase, counts in plans.items()},
        "paceline": _own_figures(ranks),
    }


def _metrics(ranks: Sequence[RankFigures], workload: Workload) -> Metrics:
    metrics: Metrics = {}
    for phase in _PHASES:
        passes = [each for each in _passes(ranks, phase) if sum(one.counted.seconds for one in each) > 0]
        if passes:
            metrics |= _phase_metrics(phase, passes, workload.metric.au)
    return metrics | _checkpoint_metrics(ranks)


def _passes(ranks: Sequence[RankFigures], phase: str) -> list[list[EpochFigures]]:
    """Return the figures of each pass, one for each rank that has made it: (epoch, rank)."""
    epochs = sorted({epoch for figures in ranks for kind, epoch in figures.epochs if kind == phase})
    return [[figures.epochs[phase, epoch] for figures in ranks if (phase, epoch) in figures.epochs] for epoch in epochs]


def _phase_metrics(phase: str, passes: list[list[EpochFigures]], expected: float) -> Metrics:
    utilisations = [100 * _mean(one.counted.compute / one.counted.seconds for one in each) for each in passes]
    seconds = [max(one.counted.seconds for one in each) for each in passes]  # a pass takes as long as its slowest rank
    rates = [sum(one.counted.samples for one in each) / taken for each, taken in zip(passes, seconds, strict=True)]
    volumes = [
        sum(one.counted.num_bytes for one in each) / taken / _MB for each, taken in zip(passes, seconds, strict=True)
    ]
    return {
        f"{phase}_au_percentage": utilisations,
        f"{phase}_au_mean_percentage": _mean(utilisations),
        f"{phase}_au_stdev_percentage": statistics.pstdev(utilisations),
        f"{phase}_au_expected_percentage": 100 * expected,
        f"{phase}_au_meet_expectation": "success" if _mean(utilisations) >= 100 * expected else "fail",
        f"{phase}_throughput_samples_per_second": rates,
        f"{phase}_throughput_mean_samples_per_second": _mean(rates),
        f"{phase}_throughput_stdev_samples_per_second": statistics.pstdev(rates),
        f"{phase}_io_mean_MB_per_second": _mean(volumes),
        f"{phase}_io_stdev_MB_per_second": statistics.pstdev(volumes),
    }


def _checkpoint_metrics(ranks: Sequence[RankFigures]) -> Metrics:
    """Return the metrics of checkpoints; each takes as long as its slowest rank."""
    count = min((len(figures.checkpoints) for figures in ranks), default=0)
    if not count:
        return {}
    parts = [[figures.checkpoints[number] for figures in ranks] for number in range(count)]  # (checkpoint, rank)
    sizes = [sum(part["bytes"] for part in each) for each in parts]
    metrics: Metrics = {"num_checkpoints": count, "checkpoint_size_GB": _mean(sizes) / _GB}
    metrics |= _io_metrics("save", sizes, [max(part["save"] for part in each) for each in parts])
    return metrics | _io_metrics("load", sizes, [max(part["load"] for part in each) for each in parts])


def _io_metrics(name: str, sizes: Sequence[int], seconds: Sequence[float]) -> Metrics:
    """Return the metrics of writing checkpoints, or of reading them back; none if that was not done."""
    if not any(seconds):
        return {}
    rates = [size / _GB / taken for size, taken in zip(sizes, seconds, strict=True) if taken]
    return {
        f"{name}_checkpoint_io_mean_GB_per_second": _mean(rates),
        f"{name}_checkpoint_io_stdev_GB_per_second": statistics.pstdev(rates),
        f"{name}_checkpoint_duration_mean_seconds": _mean(seconds),
        f"{name}_checkpoint_duration_stdev_seconds": statistics.pstdev(seconds),
    }


def _own_figures(ranks: Sequence[RankFigures]) -> OwnFigures:
    passes = [one for phase in _PHASES for each in _passes(ranks, phase) for one in each]
    whole = [one for one in passes if one.is_whole]
    loads = [value for figures in ranks for value in figures.load_quantiles]
    firsts = [figures.first_batch_seconds for figures in ranks if figures.first_batch_seconds is not None]
    busy = {figures.rank: _busy_seconds(figures) for figures in ranks}
    slowest = max(busy, key=lambda rank: busy[rank], default=None)
    mean = _mean(busy.values())
    samples_of_whole = sum(one.whole.samples for one in whole)
    return {
        "steps_per_rank": {figures.rank: sum(one.whole.steps for one in figures.epochs.values()) for figures in ranks},
        "samples_read": sum(one.whole.samples for one in passes),
        "bytes_read": sum(one.whole.num_bytes for one in passes),
        "cache_share": _cache_share(passes),
        "time_to_first_batch_seconds": max(firsts, default=None),
        "load_seconds_percentiles": {f"p{percent}": _percentile(loads, percent) for percent in (50, 90, 99, 100)},
        "seconds_per_rank": {figures.rank: _seconds_by_part(figures) for figures in ranks},
        "hosts": _host_figures(ranks),
        "spread_between_ranks": busy[slowest] / mean if slowest is not None and mean else None,
        "straggler": slowest,
        "cpu_seconds_per_sample": sum(one.cpu for one in whole) / samples_of_whole if samples_of_whole else None,
        "epoch_seconds": [max(one.seconds or one.whole.seconds for one in each) for each in _passes(ranks, "train")],
        "log_lines_left_out": sum(figures.num_unreadable for figures in ranks),
    }


def _percentile(values: Sequence[float], percent: int) -> float | None:
    return float(np.percentile(values, percent)) if values else None


def _host_figures(ranks: Sequence[RankFigures]) -> dict[str, HostFigures]:
    """Return the figures of training by host; a pass takes as long as its slowest rank on any of them."""
    found: dict[str, HostFigures] = {}
    seconds = sum(max(one.counted.seconds for one in each) for each in _passes(ranks, "train"))
    for host in sorted({figures.host for figures in ranks}):
        here = [figures for figures in ranks if figures.host == host]
        passes = [one.counted for each in _passes(here, "train") for one in each if one.counted.seconds > 0]
        found[host] = {
            "ranks": [figures.rank for figures in here],
            "au_percentage": 100 * _mean(one.compute / one.seconds for one in passes),
            "samples_per_second": sum(one.samples for one in passes) / seconds if seconds else 0.0,
            "MB_per_second": sum(one.num_bytes for one in passes) / seconds / _MB if seconds else 0.0,
            "load_seconds": max((_seconds_by_part(figures)["load"] for figures in here), default=0.0),
        }
    return found


def _seconds_by_part(figures: RankFigures) -> dict[str, float]:
    totals = [one.whole for one in figures.epochs.values()]
    return {
        "load": sum(one.load for one in totals),
        "compute": sum(one.compute for one in totals),
        "sync": sum(one.sync for one in totals),
    }


def _busy_seconds(figures: RankFigures) -> float:
    """Return the time that a rank takes by itself: others wait for it."""
    return sum(one.whole.load + one.whole.compute for one in figures.epochs.values())


def _cache_share(passes: Sequence[EpochFigures]) -> float | None:
    """Return the share of the bytes asked for that did not come from a device."""
    asked = sum(one.asked for one in passes if one.asked is not None)
    from_device = sum(one.from_device or 0 for one in passes if one.asked is not None)
    return max(0.0, 1.0 - from_device / asked) if asked else None


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0


def _iso_time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
