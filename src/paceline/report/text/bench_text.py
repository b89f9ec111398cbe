"""The benchmark as text: workloads, the figures of a run, a comparison of runs, and the search for the most ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paceline.bench.data.manifest import SplitEntry
from paceline.bench.results.compare import FigureComparison
from paceline.bench.results.fit import Fit
from paceline.bench.results.run_summary import Metrics, RunSummary
from paceline.bench.workload.sections import Workload
from paceline.errors import name_ranks
from paceline.plan import Summary
from paceline.report.safe_text import terminal_safe
from paceline.report.text.tables import groups_text, table_text

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(num_bytes: float) -> str:
    """Return a number of bytes in a readable unit.

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
    header = ["workload", "format", "files", "samples/file", "record", "total", "batch", "compute"]
    return table_text(header, rows)


def ignored_as_text(ignored_keys: Sequence[tuple[str, str]]) -> str:
    """Say which keys have no effect, and why."""
    return "\n".join(f"  {key} has no effect: {reason}" for key, reason in ignored_keys)


def plans_as_text(workload: Workload, plans: dict[str, Summary], world_size: int) -> str:
    """Say how many steps the plan has, and what becomes of the samples."""
    lines = []
    for phase, counts in plans.items():
        batch = workload.reader.batch_size if phase == "train" else workload.reader.batch_size_eval
        rest = [f"{count} {name}" for name in ("dropped", "padded", "repeated") if (count := counts[f"num_{name}"])]
        lines.append(
            f"{phase}: {counts.num_steps} steps of {world_size} x {batch} samples; "
            + ", ".join([f"{counts.num_used} used", *rest])
        )
    return "\n".join(lines)


def generated_as_text(url: str, splits: dict[str, SplitEntry]) -> str:
    """Say what was generated."""
    parts = [
        f"{entry['num_files']} {split} files, {entry['num_samples']} samples, {size_text(entry['num_bytes'])}"
        for split, entry in splits.items()
    ]
    return f"{'; '.join(parts)}\nwritten: {url}/manifest.json"


def summary_as_text(summary: RunSummary) -> str:
    """Lay the figures of a run out."""
    ranks, hosts = summary["num_accelerators"], summary["num_hosts"]
    lines = [f"{summary['workload']}: {ranks} ranks ({summary['carrier']}) on {hosts} host{'s' if hosts != 1 else ''}"]
    if summary["outcome"] != "ok":
        lines[0] += f"; {summary['outcome']}: these are the figures until then"
    lines += table_text(["", "", ""], _metric_rows(summary["metric"])).splitlines()[1:]
    lines += table_text(["", ""], _own_rows(summary)).splitlines()[1:]
    lines += _host_lines(summary)
    lines += _cache_lines(summary)
    return "\n".join(lines)


def _host_lines(summary: RunSummary) -> list[str]:
    """Return a table of hosts, if there are several."""
    hosts = summary["paceline"].get("hosts", {})  # runs of earlier versions have none
    if len(hosts) < 2:
        return []
    rows = [
        [
            f"  {terminal_safe(host)}",
            name_ranks(each["ranks"]),
            f"{each['au_percentage']:.1f} %",
            f"{each['samples_per_second']:,.1f} samples/s",
            f"{each['MB_per_second']:,.1f} MiB/s",
            f"{each['load_seconds']:.2f} s",
        ]
        for host, each in hosts.items()
    ]
    return table_text(["  host", "ranks", "utilisation", "throughput", "reading", "longest loading"], rows).splitlines()


def _metric_rows(metric: Metrics) -> list[list[str]]:
    rows = []
    for phase in ("train", "eval"):
        if f"{phase}_au_mean_percentage" not in metric:
            continue
        words = {"success": "as expected", "fail": "BELOW what is expected"}
        verdict = words[metric[f"{phase}_au_meet_expectation"]] if phase == "train" else ""
        rows += [
            [f"  {phase} utilisation", _mean_text(metric, f"{phase}_au", "percentage", "%"), verdict],
            [f"  {phase} throughput", _mean_text(metric, f"{phase}_throughput", "samples_per_second", "samples/s"), ""],
            [f"  {phase} reading", _mean_text(metric, f"{phase}_io", "MB_per_second", "MiB/s"), ""],
        ]
    for name, label in (("save", "checkpoint written"), ("load", "checkpoint read back")):
        if f"{name}_checkpoint_duration_mean_seconds" in metric:
            speed = f"{metric[f'{name}_checkpoint_io_mean_GB_per_second']:.3g} GiB/s"
            rows.append([f"  {label}", f"{metric[f'{name}_checkpoint_duration_mean_seconds']:.3f} s", speed])
    return rows


def _mean_text(metric: Metrics, name: str, unit: str, shown_unit: str) -> str:
    return f"{metric[f'{name}_mean_{unit}']:,.1f} +- {metric[f'{name}_stdev_{unit}']:,.1f} {shown_unit}"


def _own_rows(summary: RunSummary) -> list[list[str]]:
    """Return the rows of what DLIO's metrics leave out."""
    own = summary["paceline"]
    steps = own["steps_per_rank"]
    rows = [["  steps", groups_text(list(steps.values())) if steps else "none"]]
    for phase, counts in summary["plan"].items():
        parts = [f"{counts['num_used']} used", f"{counts['num_dropped']} dropped"]
        parts += [f"{counts[f'num_{name}']} {name}" for name in ("padded", "repeated") if counts[f"num_{name}"]]
        rows.append([f"  samples of an epoch ({phase})", ", ".join(parts)])
    rows.append(["  read in total", f"{own['samples_read']} samples, {size_text(own['bytes_read'])}"])
    if own.get("log_lines_left_out"):
        rows.append(["  damaged lines of logs", f"{own['log_lines_left_out']}, left out of these figures"])
    if own["time_to_first_batch_seconds"] is not None:
        rows.append(["  launch to first batch", f"{own['time_to_first_batch_seconds']:.2f} s"])
    waits = {name: seconds for name, seconds in own["load_seconds_percentiles"].items() if seconds is not None}
    if waits:
        parts = [f"{name} {1000 * seconds:.2f}" for name, seconds in waits.items()]
        rows.append(["  wait for a batch (ms)", ", ".join(parts)])
    if own["cpu_seconds_per_sample"] is not None:
        rows.append(["  processor time of loading", f"{1e6 * own['cpu_seconds_per_sample']:.0f} us per sample"])
    if own["spread_between_ranks"] is not None and own["straggler"] is not None and len(steps) > 1:
        busiest = f"{name_ranks([own['straggler']])}, {own['spread_between_ranks']:.2f} times the mean"
        rows.append(["  busiest rank", busiest])
    return rows


def _cache_lines(summary: RunSummary) -> list[str]:
    share = summary["paceline"]["cache_share"]
    lines = [] if share is None else [f"  {share:.0%} of what was read came from the page cache"]
    if any(summary["potential_caching"]):
        data, memory = summary["data_size_per_host_GB"], min(summary["host_memory_GB"])
        lines.append(
            f"  the data set ({size_text(data * 2**30)}) fits in memory ({memory:.0f} GiB), so these may be figures of "
            "the cache; reader.cache=drop reads from storage in each epoch"
        )
    return lines


def comparison_as_text(
    comparisons: Sequence[FigureComparison], differences: Sequence[str], names: tuple[str, str]
) -> str:
    """Lay two sides out next to each other."""
    rows = []
    for each in comparisons:
        ratio = "-" if each.ratio is None else f"{each.ratio:.3f}"
        spread = "" if each.spread is None else f"{each.spread[0]:.3f} to {each.spread[1]:.3f}"
        name = each.name.partition(".")[2]
        rows.append([name, range_text(each.first), range_text(each.second), ratio, spread, each.verdict])
    first = _runs_text(each.first for each in comparisons)
    second = _runs_text(each.second for each in comparisons)
    lines = [f"A: {names[0]} ({first}); B: {names[1]} ({second})"]
    lines += [f"they differ in {terminal_safe(difference)}" for difference in differences]
    return "\n".join([*lines, table_text(["figure", "A", "B", "B/A", "lowest to highest", ""], rows)])


def _runs_text(sides: Iterable[Sequence[float]]) -> str:
    """Say how many runs a side has: a figure may be missing from some of them."""
    count = max(len(values) for values in sides)
    return f"{count} run{'s' if count != 1 else ''}"


def range_text(values: Sequence[float]) -> str:
    """Return the least and the largest of some values, or the one that all are."""
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def fit_as_text(result: Fit) -> str:
    """Say how many accelerators are kept busy."""
    rows = [
        [trial.ranks, f"{trial.utilisation:.1f} %", f"{trial.samples_per_second:,.1f}"]
        for trial in sorted(result.trials, key=lambda trial: trial.ranks)
    ]
    verdict = f"{result.largest} accelerators keep {result.target:.0f} % utilisation or more"
    if not result.largest:
        verdict = f"not even one accelerator keeps {result.target:.0f} % utilisation"
    lines = [table_text(["ranks", "utilisation", "samples/s"], rows), verdict]
    return "\n".join([*lines, f"no more were tried: {result.limit}"] if result.limit else lines)
