"""Writes docs/benchmarks.md from the records: `python docs/write_benchmarks.py RECORDS DOCUMENT`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEAD = """# How it compares

`make bench` measures Paceline and its peers in one run, and stores machine, seed, versions and command beside the
numbers. `python docs/write_benchmarks.py benchmarks/results docs/benchmarks.md` makes this page from these records.

Peers and Paceline take turns, and each run is compared with the one beside it. A ratio is a median, with the lower
and the upper quartile in brackets. A goal is *reached* or *missed* only if both quartiles are on one side of it;
otherwise it is *not certain*. Processor time is user and system time, including workers; on cores that are busy with
other work it says more than the clock.
"""
TAIL = """
## Elsewhere

Other figures are on the pages of their subjects: how many bugs the guard finds and what it costs
([docs/guard.md](guard.md#how-much-it-finds)), the doctor ([docs/doctor.md](doctor.md)), partitions and hosts
([docs/balance.md](balance.md)), jobs of many hosts ([docs/hosts.md](hosts.md#how-large-a-job-may-be)), and the
input-pipeline benchmark ([docs/bench.md](bench.md)).
"""
Figures = Any  # of a record, as each benchmark writes them
Row = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table of the page: which record it is made of, what it says, and how rows are made of the figures."""

    title: str
    record: str
    text: str
    columns: Row
    rows: Callable[[Figures], Iterator[Row]]


def plan_rows(figures: Figures) -> Iterator[Row]:
    """Yield a row for each way to get the ids of a rank's samples."""
    names = {
        "plan_sampler": "PlanSampler, lists of 32",
        "plan_arrays": "Plan.rows, arrays",
        "torch_sampler": "torch DistributedSampler + BatchSampler",
        "accelerate_shard": "accelerate BatchSamplerShard",
        "grain_call": "grain's native call, per index",
        "grain_dataset": "grain MapDataset, per index",
    }
    for row in figures["medians"]:
        if row["num_samples"] == 10**7 and row["what"] in names:
            rates = (f"{row[name] / 1e6:.3g} million" for name in ("ids_per_processor_second", "ids_per_second"))
            first, memory = f"{row['first_seconds'] * 1e3:,.2f} ms", f"{row['growth_mib']:.0f} MiB"
            yield names[row["what"]], first, *rates, memory


def loader_rows(figures: Figures) -> Iterator[Row]:
    """Yield a row for each kind of samples and number of workers."""
    for row in figures["cases"]:
        kind = f"{row['samples']}, from {row['from']}, {row['num']:,} samples"
        same, own = (ratio(row[f"{name} collate: processor of plain"]) for name in ("same", "own"))
        first = f"{ratio(row['same collate: first of plain'])}, {row['first batch verdict']}"
        yield kind, str(row["workers"]), f"{same}, {row['processor verdict']}", own, first


def balance_rows(figures: Figures) -> Iterator[Row]:
    """Yield a row for each number of ranks."""
    for ranks, row in figures.items():
        took, used = row["milliseconds_per_step"], row["processor_milliseconds_per_step"]
        steps = f"{took['plain']['median']:.0f} to {took['balanced']['median']:.0f} ms"
        processor = f"{used['plain']['median']:.1f} and {used['balanced']['median']:.1f} ms"
        imbalance = f"{row['imbalance_before']:.2f} to {row['imbalance_after']:.3f}"
        yield ranks, imbalance, steps, f"{ratio(row['gain_of_what_is_allowed'])}, {row['gain_verdict']}", processor


def exchange_rows(figures: Figures) -> Iterator[Row]:
    """Yield a row for each call."""
    for row in figures:
        clock, processor = ratio(row["times_as_fast"]), ratio(row["times_as_cheap"])
        if row["goal"] is not None:
            clock, processor = f"{clock}, {row['clock_verdict']}", f"{processor}, {row['processor_verdict']}"
        yield f"{row['call']}, {row['ranks']} ranks", f"{row['fields']} {row['kind']}", clock, processor


def packing_rows(figures: Figures) -> Iterator[Row]:
    """Yield a row for each way to pack each set of lengths."""
    for name, corpus in figures.items():
        for way, row in corpus.items():
            if isinstance(row, dict):
                over = f"{row.get('share_over_budget', 0):.1%}"
                planning = f"{row['microseconds_per_sample']:.2f} µs" if "microseconds_per_sample" in row else ""
                size = f"{row['bytes_per_sample']:.0f} bytes" if "bytes_per_sample" in row else ""
                work = f"{row['work_median']:.3f}", f"{row['time_lost']:.1%}"
                yield f"{name}, {corpus['num_samples']:,}", way, f"{row['fill']:.4f}", *work, over, planning, size


def ranking_rows(figures: Figures) -> Iterator[Row]:
    """Yield a row for each job."""
    for name, row in figures.items():
        difference = f"{row['largest_difference_of_a_loss']:.1e}" if "largest_difference_of_a_loss" in row else ""
        yield name, str(row["num_steps"]), ", ".join(f"{area:.4f}" for area in row["auc"]), difference


def host_rows(figures: Figures) -> Iterator[Row]:
    """Yield a row for each number of ranks and each way to even out work."""
    for ranks, table in figures["linear"].items():
        for way in ("by hosts", "limited", "flat", "dealt anew"):
            row = table[way]
            crossing = f"{row['bytes'] / 1e6:,.1f} MB, {row['bytes'] / table['all rows']['bytes']:.1%}"
            imbalance = f"{table['as they are']['max_over_mean']:.2f} to {row['max_over_mean']:.4f}"
            yield f"{int(ranks):,}", way, crossing, imbalance, f"{row['processor_ms']:.1f} ms"


def overhead_rows(figures: Figures) -> Iterator[Row]:
    """Yield a row for each number of workers and each length of a step."""
    for case in figures["cases"]:
        name = f"{case['workers']} workers, {case['compute_seconds'] * 1e3:g} ms"
        rate = f"{ratio(case['of_bare_with_the_same_reader'])}, {case['rate_verdict']}"
        processor = ratio(case["cpu_of_bare_with_the_same_reader"])
        first = f"{ratio(case['first_batch_of_bare'])}, {case['first_batch_verdict']}"
        dlio = f"{ratio(case['of_dlio'])}, {case['dlio_verdict']}" if "of_dlio" in case else ""
        yield name, ratio(case["of_bare"]), rate, processor, first, dlio


def evened_rows(figures: Figures) -> Iterator[Row]:
    """Yield a row for each length of a step and each way to even it out."""
    for case in figures["cases"]:
        for mode, row in case["modes"].items():
            said = f", {case['exchange_verdict']}" if mode == "exchange" else ""
            of_none = "" if mode == "none" else f"{ratio(row['of_none'])}{said}"
            processor = f"{row['processor_microseconds_per_sample']:.0f} µs"
            yield f"{case['milliseconds_of_a_step']:g} ms", mode, f"{row['utilisation']:.1f} %", of_none, processor


SECTIONS = [
    Section(
        title="Order of samples",
        record="plan",
        text="10⁷ samples, rank 5 of 8; medians of all runs.",
        columns=("", "first index", "ids per second of processor", "by the clock", "memory"),
        rows=plan_rows,
    ),
    Section(
        title="Loader",
        record="loader",
        text="""\
Two gloo ranks, batches of 32, relative to `DataLoader` with `DistributedSampler`: once with torch's collate function on
both sides, once with the loader's own. Goals, with the same collate function: at most 1.05 of the processor time per
batch, and at most 1.1 of the time to the first batch. With few samples the first batch comes later than without
Paceline, because ranks first compare their settings.""",
        columns=("samples", "workers", "processor time, same collate", "own collate", "first batch, by the clock"),
        rows=loader_rows,
    ),
    Section(
        title="Balanced training",
        record="balance",
        text="""\
In each step a rank sleeps in proportion to its tokens, as if an accelerator computed, and then meets the others in an
all-reduce. Goal: at least 0.95 of the gain that the lengths allow.""",
        columns=("", "imbalance", "step, plain to balanced", "share of the gain", "processor time of a rank's step"),
        rows=balance_rows,
    ),
    Section(
        title="Rows sent between ranks",
        record="exchange",
        text="""\
Speed-up over one torch call per field on gloo, by the clock and in processor time of all ranks. Goals: 1 with 2 fields,
2 with 10 and more.""",
        columns=("", "fields", "by the clock", "processor time"),
        rows=exchange_rows,
    ),
    Section(
        title="Rows between hosts",
        record="host_balance",
        text="""\
Simulated, 8 ranks on each host, 64 rows of lognormal length on each rank; the [page on balance](balance.md#hosts)
describes the ways. Bytes are those that cross between hosts in a step, all of them and as a share of all rows; deciding
is the time of one processor. Goal: 60 ms for 16,384 ranks.""",
        columns=("ranks", "way", "between hosts", "heaviest rank over the mean", "deciding"),
        rows=host_rows,
    ),
    Section(
        title="Packing",
        record="packing",
        text="""\
64 ranks; the [page on packs](packing.md#how-it-compares) describes the ways. *Work* is the heaviest rank's cost over
the mean in the median step, *lost* the time that ranks wait for the heaviest over all steps. Goals: 0.995 full if
whole steps allow it, work of 1.02, 1 µs and 16 bytes per sample for a million samples.""",
        columns=("lengths", "way", "full", "work", "lost", "over the budget", "planning", "memory per sample"),
        rows=packing_rows,
    ),
    Section(
        title="A whole job",
        record="ranking",
        text="""\
[examples/ranking](../examples/ranking/README.md) on MovieLens-100k: AUC after each epoch and at the end, and the
largest difference between the loss of a step and that of one rank.""",
        columns=("", "steps", "AUC", "largest difference in loss"),
        rows=ranking_rows,
    ),
    Section(
        title="The benchmark of input pipelines",
        record="bench_overhead",
        text="""\
`paceline bench run` on two MPI ranks, watched, relative to a bare loop of torch's DataLoader over the same 2,000 npz
files: one that reads with numpy, and one with the benchmark's own reader, which shows what the harness costs. A step
takes an emulated accelerator 2 ms, or no time at all: then both ranks spin in their barriers, and on two cores whoever
watches takes time from them. Goals: 0.95 of the samples/s with the same reader, 1.1 of the time from launch to the
first batch, 5 times DLIO 2.0.0.""",
        columns=("workers, step", "samples/s", "with the same reader", "processor time", "first batch", "of DLIO"),
        rows=overhead_rows,
    ),
    Section(
        title="Even work in the benchmark",
        record="bench_balance",
        text="""\
`paceline bench run ragged` on two gloo ranks: utilisation with each `reader.balance`, and relative to `none` in the
same round. Moving rows pays where a step takes 20 ms, and hardly where it takes 2 ms. Goal for `exchange`: never below
`none`, that is 0.98 at least, since runs of the same kind differ that much.""",
        columns=("step", "reader.balance", "utilisation", "of none", "processor time of a sample"),
        rows=evened_rows,
    ),
]


def ratio(spread: dict[str, Any]) -> str:
    """Return a ratio as people read it: the median, and the quartiles in brackets."""
    low, high = spread["quarters"]
    return f"{spread['median']:.2f} ({low:.2f}, {high:.2f})"


def document(records: Path) -> str:
    """Return the page that is made of the records in a folder."""
    return HEAD + "".join(part for section in SECTIONS for part in _section(section, records)) + TAIL


def _section(section: Section, records: Path) -> Iterator[str]:
    record = json.loads((records / f"{section.record}.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    machine = record["machine"]
    yield f"\n## {section.title}\n\n{section.text}\n\n"
    yield f"| {' | '.join(section.columns)} |\n|{'---|' * len(section.columns)}\n"
    for row in section.rows(record["figures"]):
        yield f"| {' | '.join(row)} |\n"
    yield f"\n`{record['command']}` ([record](../benchmarks/results/{section.record}.json))\n\nWith {versions} and\n"
    yield f"Python {record['python']}, on {machine['cores']} cores of {machine['cpu']}.\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(document(Path(sys.argv[1])))
