"""How fast and how even groups of equal size are: Paceline compared with pure Python and packages on PyPI, in one run.

Inputs are n = 128 k samples: lognormal, uniform and Zipf lengths, the last with 20 % padding, at cost L and L squared.
`pure_differencing` is the usual Karmarkar-Karp with equal sizes on Python lists. Times are the minimum of several runs
after one that is not counted. Of the packages on PyPI only `prtpy`'s round robin makes many groups of
equal size.

Goals: the first partition of a process within 5 ms; lognormal L at k = 1024 within 4 ms; at k = 512 and 1024 at least
50 times faster than pure Python, at 64 at least 20 times; a million samples in 16,384 groups below 150 ms; max/mean at
most 1.0001 on lognormal L; within 0.1 % of the lower bound wherever longest-first is; never above differencing; with a
placement at most 10 % moved for max/mean at most 1.002.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from paceline.balance import partition
from pure_differencing import pure_differencing
from record import write_record

SEED = 0
PER_GROUP = 128
INPUTS = ("lognormal", "uniform", "zipf with padding")


def make_lengths(kind: str, size: int) -> tuple[Any, Any]:
    """Return lengths and which of them are real."""
    random = np.random.default_rng([SEED, size, INPUTS.index(kind)])
    real = np.ones(size, bool)
    if kind == "lognormal":
        return np.maximum(1, random.lognormal(5, 1, size)).astype(np.int64), real
    if kind == "uniform":
        return random.integers(1, 4096, size), real
    lengths = np.minimum(random.zipf(1.5, size), 100_000)
    real[random.permutation(size)[: size // 5]] = False
    return np.where(real, lengths, 0), real


def round_robin(costs: Any, num_groups: int) -> Any:
    """Run the one method of prtpy that makes groups of equal size."""
    import prtpy

    return prtpy.partition(algorithm=prtpy.partitioning.roundrobin, numbins=num_groups, items=list(map(int, costs)))


def least_ms(call: Callable[[], Any], runs: int) -> float:
    """Return the minimum time of several runs."""
    return timed(call, runs)["ms"]


def timed(call: Callable[[], Any], runs: int) -> dict[str, float]:
    """Return the least and the median time of several runs by the clock, and the same as processor time."""
    clock, processor = [], []
    for _ in range(runs):
        begin, begin_processor = time.perf_counter(), time.process_time()
        call()
        processor.append((time.process_time() - begin_processor) * 1e3)
        clock.append((time.perf_counter() - begin) * 1e3)
    return {
        "ms": min(clock), "median ms": statistics.median(clock), "processor ms": min(processor),
        "median processor ms": statistics.median(processor),
    }  # fmt: skip


def first_ms(runs: int) -> float:
    """Return the minimum time of the first partition, in fresh processes that have imported it."""
    code = """
import time, numpy
from paceline import partition
costs = numpy.arange(64)
begin = time.perf_counter()
partition(costs, 4)
print((time.perf_counter() - begin) * 1e3)
"""
    command = [sys.executable, "-c", code]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(runs))


def heaviest(groups: Any, costs: Any) -> int:
    """Return the cost of the heaviest group."""
    return max(int(costs[np.asarray(group, dtype=np.int64)].sum()) for group in groups)


def measure(kind: str, power: int, num_groups: int, runs: int) -> dict[str, float]:
    """Return times and balance of one input."""
    lengths, real = make_lengths(kind, PER_GROUP * num_groups)
    costs = lengths**power
    mean = costs.sum() / num_groups
    parts = partition(costs, num_groups, real=real)
    named = {method: partition(costs, num_groups, method, real=real) for method in ("differencing", "longest_first")}
    plain = costs.tolist()
    pure = pure_differencing(plain, num_groups)
    figures = {
        **timed(lambda: partition(costs, num_groups, real=real), runs),
        "pure python ms": least_ms(lambda: pure_differencing(plain, num_groups), max(1, runs // 5)),
        "max/mean": parts.max_over_mean,
        "max/bound": parts.max_over_bound,
        "differencing max/mean": named["differencing"].max_over_mean,
        "longest-first max/bound": named["longest_first"].max_over_bound,
        "pure python max/mean": heaviest(pure, costs) / mean,
    }
    placement = np.arange(costs.size) // PER_GROUP
    placed = partition(costs, num_groups, placement=placement, real=real)
    figures["placed ms"] = least_ms(lambda: partition(costs, num_groups, placement=placement, real=real), runs)
    figures["placed max/mean"] = placed.max_over_mean
    figures["placed max/bound"] = placed.max_over_bound
    figures["moved"] = placed.num_moved / costs.size
    try:
        figures["prtpy round robin ms"] = least_ms(lambda: round_robin(costs, num_groups), 1)
        figures["prtpy round robin max/mean"] = float(max(map(sum, round_robin(costs, num_groups))) / mean)
    except ImportError:
        print("prtpy is not installed: `make bench` installs it")
    return figures


def verdicts(table: dict[str, dict[str, float]], million: dict[str, float]) -> list[str]:
    """Compare with the goals."""
    lines = []
    for name, row in table.items():
        num_groups = int(name.rpartition("k=")[2])
        times = row["pure python ms"] / row["ms"]
        wanted = {64: 20, 512: 50, 1024: 50}[num_groups]
        lines.append(_line(times >= wanted, f"{name}: {times:.0f} times pure Python", f"{wanted}"))
        pure = min(row["pure python max/mean"], row["differencing max/mean"])
        lines.append(_line(row["max/mean"] <= pure, f"{name}: {row['max/mean']:.6f}", f"differencing's {pure:.6f}"))
        if name == "lognormal, L, k=1024":
            for kind in ("ms", "processor ms"):
                lines.append(_line(row[kind] <= 4, f"{name}: {row[kind]:.1f} {kind}", "4 ms"))
        if name.startswith("lognormal, L,"):
            lines.append(_line(row["max/mean"] <= 1.0001, f"{name}: max/mean {row['max/mean']:.6f}", "1.0001"))
        if row["longest-first max/bound"] <= 1.001:
            lines.append(_line(row["max/bound"] <= 1.001, f"{name}: max/bound {row['max/bound']:.6f}", "1.001"))
        if name.startswith(("lognormal, L,", "uniform, L,")):
            held = row["moved"] <= 0.1 and row["placed max/mean"] <= 1.002
            said = f"{name}: {row['moved']:.1%} moved for {row['placed max/mean']:.5f}"
            lines.append(_line(held, said, "10 % for 1.002"))
    for name, value in million.items():
        lines.append(_line(value < 150, f"a million samples, 16,384 groups, {name}: {value:.0f} ms", "150 ms"))
    return lines


def _line(held: bool, said: str, goal: str) -> str:
    return f"  {'reached' if held else 'MISSED '}  {said} (goal {goal})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, nargs="*", default=[64, 512, 1024])
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    table = {}
    for num_groups in options.groups:
        for kind in INPUTS:
            for power in (1, 2):
                name = f"{kind}, L{'²' if power == 2 else ''}, k={num_groups}"
                row = table[name] = measure(kind, power, num_groups, options.runs)
                print(name, "  ".join(f"{key} {value:.6g}" for key, value in row.items()), flush=True)
    million = {}
    for kind in INPUTS:
        lengths, real = make_lengths(kind, 1_000_000)
        million[kind] = least_ms(lambda lengths=lengths, real=real: partition(lengths, 16_384, real=real), 5)  # type: ignore[misc]
    first = first_ms(options.runs)
    print(f"\nthe first partition of a process, 64 samples in 4 groups: {first:.2f} ms\n\ngoals")
    lines = [*verdicts(table, million), _line(first <= 5, f"the first partition of a process: {first:.2f} ms", "5 ms")]
    print("\n".join(lines))
    figures = {"inputs": table, "million ms": million, "first ms": first}
    write_record("partition", figures, packages=["numpy"], seed=SEED)


if __name__ == "__main__":
    main()
