"""The benchmark as text: workloads, the figures of a run, two sides compared, and the search for the largest number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.bench.results.compare import Compared
from paceline.bench.results.fit import Fit
from paceline.bench.workload.sections import Workload
from paceline.errors import name_ranks
from paceline.plan import Summary
from paceline.report.text.tables import groups_text, table_text

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(num_bytes: float) -> str:
    """Say a number of bytes shortly.

    >>> size_text(65536), size_text(146_600_628)
    ('64 KiB', '139.8 MiB')
    """
    unit = 0
    while num_bytes >= 1024 and unit < len(_UNITS) - 1:
        num_bytes, unit = num_bytes / 1024, unit + 1
    return f"{num_bytes:.0f} {_UNITS[unit]}" if num_bytes == round(num_bytes) else f"{num_bytes:.1f} {_UNITS[unit]}"


def workloads_as_text(workloads: Sequence[tuple[str, Workload]]) -> str:
    """List workloads."""
    rows = []
    for name, workload in workloads:
        data = workload.dataset
        total = data.num_files_train * data.num_samples_per_file * data.record_length_bytes
        rows.append(
            [
                name,
                data.format,
                data.num_files_train,
                data.num_samples_per_file,
                size_text(data.record_length_bytes),
                size_text(total),
                workload.reader.batch_size,
                f"{workload.train.computation_time.mean:g} s",
            ]
        )
    header = ["workload", "format", "files", "samples/file", "record", "in all", "batch", "compute"]
    return table_text(header, rows)


def notes_as_text(notes: Sequence[tuple[str, str]]) -> str:
    """Say which keys have no effect."""
    return "\n".join(f"  {key} has no effect: {reason}" for key, reason in notes)


def plans_as_text(workload: Workload, plans: dict[str, Summary], world_size: int) -> str:
    """Say what the plan makes of the samples."""
    lines = []
    for phase, counts in plans.items():
        batch = workload.reader.batch_size if phase == "train" else workload.reader.batch_size_eval
        rest = [f"{count} {name}" for name in ("dropped", "padded", "repeated") if (count := counts[f"num_{name}"])]
        lines.append(
            f"{phase}: {counts.num_steps} steps of {world_size} x {batch} samples; "
            + ", ".join([f"{counts.num_used} used", *rest])
        )
    return "\n".join(lines)


def generated_as_text(url: str, splits: dict[str, Any]) -> str:
    """Say what was generated."""
    parts = [
        f"{told['num_files']} {split} files, {told['num_samples']} samples, {size_text(told['num_bytes'])}"
        for split, told in splits.items()
    ]
    return f"{'; '.join(parts)}\nwritten: {url}/manifest.json"


def summary_as_text(summary: dict[str, Any]) -> str:
    """Lay the figures of a run out."""
    metric, more = summary["metric"], summary["paceline"]
    ranks, hosts = summary["num_accelerators"], summary["num_hosts"]
    lines = [f"{summary['workload']}: {ranks} ranks ({summary['carrier']}) on {hosts} host{'s' if hosts != 1 else ''}"]
    if summary["outcome"] != "ok":
        lines[0] += f"; {summary['outcome']}: what there was until then"
    lines += table_text(["", "", ""], _figure_rows(metric)).splitlines()[1:]
    lines += table_text(["", ""], _more_rows(summary, more)).splitlines()[1:]
    lines += _cache_lines(summary, more)
    return "\n".join(lines)


def _figure_rows(metric: dict[str, Any]) -> list[list[str]]:
    rows = []
    for phase in ("train", "eval"):
        if f"{phase}_au_mean_percentage" not in metric:
            continue
        verdict = {"success": "as expected", "fail": "BELOW what is expected"}
        said = verdict[metric[f"{phase}_au_meet_expectation"]] if phase == "train" else ""
        rows += [
            [f"  {phase} utilisation", _spread(metric, f"{phase}_au", "percentage", "%"), said],
            [f"  {phase} throughput", _spread(metric, f"{phase}_throughput", "samples_per_second", "samples/s"), ""],
            [f"  {phase} reading", _spread(metric, f"{phase}_io", "MB_per_second", "MiB/s"), ""],
        ]
    for name, said in (("save", "checkpoint written"), ("load", "checkpoint read back")):
        if f"{name}_checkpoint_duration_mean_seconds" in metric:
            speed = f"{metric[f'{name}_checkpoint_io_mean_GB_per_second']:.3g} GiB/s"
            rows.append([f"  {said}", f"{metric[f'{name}_checkpoint_duration_mean_seconds']:.3f} s", speed])
    return rows


def _spread(metric: dict[str, Any], name: str, unit: str, said: str) -> str:
    return f"{metric[f'{name}_mean_{unit}']:,.1f} +- {metric[f'{name}_stdev_{unit}']:,.1f} {said}"


def _more_rows(summary: dict[str, Any], more: dict[str, Any]) -> list[list[str]]:
    steps = more["steps_per_rank"]
    rows = [["  steps", groups_text(list(steps.values())) if steps else "none"]]
    for phase, counts in summary["plan"].items():
        parts = [f"{counts['num_used']} used", f"{counts['num_dropped']} dropped"]
        parts += [f"{counts[f'num_{name}']} {name}" for name in ("padded", "repeated") if counts[f"num_{name}"]]
        rows.append([f"  samples of an epoch ({phase})", ", ".join(parts)])
    rows.append(["  read in all", f"{more['samples_read']} samples, {size_text(more['bytes_read'])}"])
    if more["time_to_first_batch_seconds"] is not None:
        rows.append(["  launch to first batch", f"{more['time_to_first_batch_seconds']:.2f} s"])
    told = more["load_seconds_percentiles"]
    if told["p50"] is not None:
        parts = [f"{name} {1000 * value:.2f}" for name, value in told.items()]
        rows.append(["  wait for a batch (ms)", ", ".join(parts)])
    if more["cpu_seconds_per_sample"] is not None:
        rows.append(["  processor time of loading", f"{1e6 * more['cpu_seconds_per_sample']:.0f} us per sample"])
    if more["spread_between_ranks"] is not None and len(steps) > 1:
        said = f"{name_ranks([more['straggler']])}, {more['spread_between_ranks']:.2f} times the mean"
        rows.append(["  busiest rank", said])
    return rows


def _cache_lines(summary: dict[str, Any], more: dict[str, Any]) -> list[str]:
    share = more["cache_share"]
    lines = [] if share is None else [f"  {share:.0%} of what was read came from the page cache"]
    if any(summary["potential_caching"]):
        data, memory = summary["data_size_per_host_GB"], min(summary["host_memory_GB"])
        said = f"the data set ({size_text(data * 2**30)}) fits in memory ({memory:.0f} GiB)"
        rest = "reader.cache=drop reads it from storage in each epoch"
        lines.append(f"  {said}: figures may be the cache's; {rest}")
    return lines


def compared_as_text(found: Sequence[Compared], differences: Sequence[str], names: tuple[str, str]) -> str:
    """Lay two sides out beside each other."""
    rows = []
    for each in found:
        ratio = "-" if each.ratio is None else f"{each.ratio:.3f}"
        spread = "" if each.spread is None else f"{each.spread[0]:.3f} to {each.spread[1]:.3f}"
        name = each.name.partition(".")[2]
        rows.append([name, _side(each.first), _side(each.second), ratio, spread, each.verdict])
    lines = [f"A: {names[0]} ({_runs(found, 'first')}); B: {names[1]} ({_runs(found, 'second')})"]
    lines += [f"they differ in {difference}" for difference in differences]
    return "\n".join([*lines, table_text(["figure", "A", "B", "B/A", "least to most", ""], rows)])


def _side(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _runs(found: Sequence[Compared], side: str) -> str:
    count = max(len(getattr(each, side)) for each in found)
    return f"{count} run{'s' if count != 1 else ''}"


def fit_as_text(found: Fit) -> str:
    """Say how many accelerators are kept busy."""
    rows = [
        [tried.ranks, f"{tried.utilisation:.1f} %", f"{tried.samples_per_second:,.1f}"]
        for tried in sorted(found.tried, key=lambda tried: tried.ranks)
    ]
    told = f"{found.largest} accelerators keep {found.target:.0f} % utilisation or more"
    if not found.largest:
        told = f"not even one accelerator keeps {found.target:.0f} % utilisation"
    lines = [table_text(["ranks", "utilisation", "samples/s"], rows), told]
    return "\n".join([*lines, f"no more were tried: {found.limit}"] if found.limit else lines)
