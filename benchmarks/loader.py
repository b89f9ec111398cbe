"""The loader compared with torch's DataLoader, DistributedSampler and collate, on the same ranks, in one run.

All iterate over the same dataset on two gloo ranks; passes alternate, and each is compared with its neighbour. Nothing
is trained: the benchmark measures everything that a loop would wait for.

- `plain`: DataLoader with DistributedSampler and torch's collate function.
- `same collate`: Loader with torch's collate function.
- `own collate`: Loader as it is, which collates by itself.

Seconds of the processor are those of the rank and its workers, user and system, after the first batch; other work on
the machine disturbs them less than seconds by the clock. The first batch is timed from the loader's constructor on, by
the clock.

Goals: with the same collate function at most 1.05 of plain's processor time per batch, for 0, 1 and 2 workers, and at
most 1.1 of its time to the first batch.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil  # type: ignore[import-untyped]
import torch
from torch.utils.data import DataLoader, DistributedSampler, default_collate

from paceline import Loader, run_ranks
from paceline.bench.training.counters import worker_seconds
from paceline.comm import Comm
from record import write_record
from verdicts import shown, spread, verdict

BATCH = 32
RANKS = 2
SEED = 3
MANY = 10**7  # samples, where sampling dominates
WARM_UP = 10  # steps, before those that are timed
PROCESSOR_GOAL, FIRST_GOAL = 1.05, 1.1
FIELDS = 12  # numbers of a sample, where collation dominates
SHAPES = {"small": (16,), "large": (3, 64, 64)}


class InMemory:
    """Tensors that are already in memory."""

    def __init__(self, num: int, shape: tuple[int, ...]) -> None:
        self.num, self.kept = num, min(num, 512)
        self.x = torch.rand(self.kept, *shape)

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, sample: int) -> dict[str, Any]:
        return {"x": self.x[sample % self.kept], "label": sample % 10}


class InFiles:
    """One npz file for each sample."""

    def __init__(self, folder: Path, num: int) -> None:
        self.paths = [folder / f"{sample}.npz" for sample in range(num)]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, sample: int) -> dict[str, Any]:
        with np.load(self.paths[sample]) as content:
            return {"x": content["x"], "label": sample % 10}


class ManyFields:
    """Samples of a dozen numbers, as in recommendation."""

    def __init__(self, num: int) -> None:
        self.num, self.kept = num, min(num, 5000)
        self.rows = [{f"f{field:02}": float(row * field % 7) for field in range(FIELDS)} for row in range(self.kept)]

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, sample: int) -> dict[str, float]:
        return self.rows[sample % self.kept]


def plain(dataset: Any, comm: Comm, num_workers: int) -> Iterable[Any]:
    """The usual loop: unequal batches at the end are left out, so that all ranks make the same steps."""
    sampler: Any = DistributedSampler(dataset, comm.world_size, comm.rank, seed=SEED)
    return DataLoader(dataset, BATCH, sampler=sampler, num_workers=num_workers, drop_last=True)


def same_collate(dataset: Any, comm: Comm, num_workers: int) -> Iterable[Any]:
    return own_collate(dataset, comm, num_workers, collate=default_collate)


def own_collate(dataset: Any, comm: Comm, num_workers: int, collate: Any = None) -> Iterable[Any]:
    settings: Any = {"tail": "drop", "seed": SEED, "num_workers": num_workers, "comm": comm, "collate": collate}
    return Loader(dataset, batch_size=BATCH, **settings)


SIDES: dict[str, Callable[..., Iterable[Any]]] = {
    "plain": plain,
    "same collate": same_collate,
    "own collate": own_collate,
}


class Pass(NamedTuple):
    """One pass: seconds by the clock to the first batch, then for each step by the clock and of the processor."""

    first: float
    clock: float
    processor: float


def time_pass(make: Callable[..., Iterable[Any]], dataset: Any, comm: Comm, num_workers: int, steps: int) -> Pass:
    """Time a number of steps. All ranks begin and end together."""
    comm.barrier()
    began = time.perf_counter()
    batches = iter(make(dataset, comm, num_workers))
    next(batches)
    first = time.perf_counter() - began
    for _ in range(WARM_UP):
        next(batches)
    comm.barrier()
    began, used = time.perf_counter(), time.process_time() + worker_seconds()
    for _ in range(steps):
        next(batches)
    used = time.process_time() + worker_seconds() - used
    clock = time.perf_counter() - began
    del batches
    comm.barrier()
    return Pass(first, clock / steps, used / steps)


def compare(comm: Comm, case: dict[str, Any], folder: str, rounds: int) -> dict[str, list[Pass]]:
    """Alternate between all sides; return the passes of this rank."""
    torch.set_num_threads(1)  # ranks share two cores
    dataset = make_dataset(case, Path(folder))
    told: dict[str, list[Pass]] = {name: [] for name in SIDES}
    for number in range(rounds + 1):
        names = list(SIDES) if number % 2 else list(SIDES)[::-1]
        for name in names:
            timed = time_pass(SIDES[name], dataset, comm, case["workers"], case["steps"])
            if number:  # the first round warms up
                told[name].append(timed)
    return told


def judge(case: dict[str, Any], of_ranks: list[dict[str, list[Pass]]]) -> dict[str, Any]:
    """Return ratios to the plain side, of all ranks and rounds, and the verdicts."""
    figures: dict[str, Any] = dict(case)
    for name in SIDES:
        passes = [each for told in of_ranks for each in told[name]]
        figures[f"{name}: processor microseconds per batch"] = spread([1e6 * each.processor for each in passes])
    plain_passes = [each for told in of_ranks for each in told["plain"]]
    for name in list(SIDES)[1:]:
        pairs = list(zip((each for told in of_ranks for each in told[name]), plain_passes, strict=True))
        for what in Pass._fields:
            ratio = spread([getattr(one, what) / getattr(other, what) for one, other in pairs])
            figures[f"{name}: {what} of plain"] = ratio
    figures["processor verdict"] = verdict(figures["same collate: processor of plain"], at_most=PROCESSOR_GOAL)
    figures["first batch verdict"] = verdict(figures["same collate: first of plain"], at_most=FIRST_GOAL)
    return figures


def make_dataset(case: dict[str, Any], folder: Path) -> Any:
    if case["samples"] == "fields":
        return ManyFields(case["num"])
    if case["from"] == "memory":
        return InMemory(case["num"], SHAPES[case["samples"]])
    return InFiles(folder / case["samples"], case["num"])


def write_files(folder: Path, num: int) -> None:
    (folder / "small").mkdir()
    for sample in range(num):
        content = np.random.default_rng(sample).random(SHAPES["small"], np.float32)
        np.savez(folder / "small" / f"{sample}.npz", x=content)


def memory_growth(comm: Comm, num: int) -> float:
    """Return the MiB that iterating over a part of `num` samples takes."""
    before = psutil.Process().memory_info().rss
    dataset = InMemory(num, (16,))
    with Loader(dataset, batch_size=BATCH, comm=comm) as loader:
        for step, _ in enumerate(loader):
            if step == 500:
                break
    return float(psutil.Process().memory_info().rss - before) / 2**20


def growth(comm: Comm) -> list[tuple[int, float]]:
    memory_growth(comm, 1000)
    return [(num, memory_growth(comm, num)) for num in (10**5, 10**7, 10**9)]


def cases(num_files: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for workers in (0, 1, 2):
        for samples, steps in (("small", 400), ("large", 150), ("fields", 300)):
            found.append({"from": "memory", "samples": samples, "workers": workers, "num": 10**6, "steps": steps})
        few = num_files // (RANKS * BATCH) - WARM_UP - 1
        found.append({"from": "files", "samples": "small", "workers": workers, "num": num_files, "steps": few})
    found.append({"from": "memory", "samples": "small", "workers": 0, "num": MANY, "steps": 400})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--files", type=int, default=4000)
    options = parser.parse_args()
    results = []
    print("of DataLoader + DistributedSampler, median (quarters): processor time per batch; time to the first batch")
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), options.files)
        for case in cases(options.files):
            outcomes = run_ranks(compare, RANKS, args=(case, folder, options.rounds), carrier="torch", deadline=550)
            for outcome in outcomes:
                if not outcome.ok:
                    raise SystemExit(f"{case}: {outcome.error}\n{outcome.traceback}")
            row = judge(case, [outcome.value for outcome in outcomes])
            results.append(row)
            print(
                f"{case['from']:>6} {case['samples']:>6}, {case['workers']} workers, {case['num']:>8} samples: "
                f"same collate {shown(row['same collate: processor of plain'])} {row['processor verdict']}, "
                f"own collate {shown(row['own collate: processor of plain'])}; "
                f"first {shown(row['same collate: first of plain'])} {row['first batch verdict']}",
                flush=True,
            )
    flat = run_ranks(growth, RANKS, carrier="torch", deadline=300)
    if not flat[0].ok:
        raise SystemExit(f"memory: {flat[0].error}\n{flat[0].traceback}")
    print("memory for 500 steps:", ", ".join(f"{mib:.1f} MiB of {num:.0e}" for num, mib in flat[0].value))
    figures = {"rounds": options.rounds, "cases": results, "memory_mib": flat[0].value}
    write_record("loader", figures, packages=["torch", "numpy", "paceline"], seed=SEED)


if __name__ == "__main__":
    main()
