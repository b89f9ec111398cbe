"""The loader compared with torch's DataLoader, DistributedSampler and collate, on the same ranks, in one run.

Both iterate over the same dataset on two gloo ranks; passes alternate. Samples per second are those of the slower rank,
as the median over passes. The first batch is timed from the loader's constructor on. Nothing is trained: the
benchmark measures everything that a loop would wait for.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import torch
from torch.utils.data import DataLoader, DistributedSampler

from paceline import Loader, run_ranks
from paceline.comm import Comm
from record import write_record

BATCH = 32
RANKS = 2
SEED = 3
MANY = 10**7  # samples, where sampling dominates
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
        self.rows = [{f"f{field:02}": float(row * field % 7) for field in range(FIELDS)} for row in range(num)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, sample: int) -> dict[str, float]:
        return self.rows[sample]


def plain(dataset: Any, comm: Comm, num_workers: int) -> Iterable[Any]:
    """The usual loop: unequal batches at the end are left out, so that all ranks make the same steps."""
    sampler: Any = DistributedSampler(dataset, comm.world_size, comm.rank, seed=SEED)
    return DataLoader(dataset, BATCH, sampler=sampler, num_workers=num_workers, drop_last=True)


def ours(dataset: Any, comm: Comm, num_workers: int) -> Iterable[Any]:
    return Loader(dataset, batch_size=BATCH, tail="drop", seed=SEED, num_workers=num_workers, comm=comm)


def time_pass(make: Callable[..., Iterable[Any]], dataset: Any, comm: Comm, num_workers: int, steps: int) -> Any:
    """Return seconds to the first batch, and for a number of steps after it. All ranks begin and end together."""
    comm.barrier()
    began = time.perf_counter()
    batches = iter(make(dataset, comm, num_workers))
    next(batches)
    first = time.perf_counter() - began
    comm.barrier()
    began = time.perf_counter()
    for _ in range(steps):
        next(batches)
    comm.barrier()
    rest = time.perf_counter() - began
    del batches
    return first, rest


def compare(comm: Comm, case: dict[str, Any], folder: str, rounds: int) -> dict[str, Any]:
    """Alternate between both sides; return the medians."""
    torch.set_num_threads(1)  # ranks share two cores
    dataset = make_dataset(case, Path(folder))
    steps = case["steps"]
    told: dict[str, list[tuple[float, float]]] = {"plain": [], "ours": []}
    for number in range(rounds + 1):
        for name, make in (("plain", plain), ("ours", ours)):
            timed = time_pass(make, dataset, comm, case["workers"], steps)
            slowest = comm.all_reduce(np.array(timed), "max")
            if number:  # the first round warms up
                told[name].append((float(slowest[0]), float(slowest[1])))
    first = {name: statistics.median(first for first, _ in pairs) for name, pairs in told.items()}
    rate = {name: RANKS * BATCH * steps / statistics.median(rest for _, rest in pairs) for name, pairs in told.items()}
    ratios = [before[1] / after[1] for before, after in zip(told["plain"], told["ours"], strict=True)]
    return {
        **case,
        "samples_per_second": rate,
        "seconds_to_first_batch": first,
        "times_as_fast": statistics.median(ratios),
        "times_as_fast_spread": [min(ratios), max(ratios)],
        "times_as_soon": first["plain"] / first["ours"],
    }


def make_dataset(case: dict[str, Any], folder: Path) -> Any:
    if case["samples"] == "fields":
        return ManyFields(case["num"])
    if case["from"] == "memory":
        return InMemory(case["num"], SHAPES[case["samples"]])
    return InFiles(folder / case["samples"], case["num"])


def write_files(folder: Path, num: int) -> None:
    for name, shape in SHAPES.items():
        (folder / name).mkdir()
        for sample in range(num):
            np.savez(folder / name / f"{sample}.npz", x=np.random.default_rng(sample).random(shape, np.float32))


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
    for workers in (0, 2):
        for samples, steps in (("small", 600), ("large", 200)):
            found.append({"from": "memory", "samples": samples, "workers": workers, "num": 10**6, "steps": steps})
            few = min(120, num_files // (RANKS * BATCH) - 1)
            found.append({"from": "files", "samples": samples, "workers": workers, "num": num_files, "steps": few})
        found.append({"from": "memory", "samples": "fields", "workers": workers, "num": 50_000, "steps": 500})
    found.append({"from": "memory", "samples": "small", "workers": 0, "num": MANY, "steps": 600})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=4000)
    options = parser.parse_args()
    results = []
    print("speed-up over DataLoader + DistributedSampler (minimum, maximum of rounds); of the first batch; samples/s")
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), options.files)
        for case in cases(options.files):
            outcomes = run_ranks(compare, RANKS, args=(case, folder, options.rounds), carrier="torch", deadline=500)
            if not outcomes[0].ok:
                raise SystemExit(f"{case}: {outcomes[0].error}\n{outcomes[0].traceback}")
            result = outcomes[0].value
            results.append(result)
            least, most = result["times_as_fast_spread"]
            print(
                f"{case['from']:>6} {case['samples']:>6}, {case['workers']} workers, {case['num']:>8} samples: "
                f"{result['times_as_fast']:.2f} ({least:.2f}, {most:.2f}); {result['times_as_soon']:.1f}; "
                f"{result['samples_per_second']['ours']:,.0f}",
                flush=True,
            )
    flat = run_ranks(growth, RANKS, carrier="torch", deadline=300)
    if not flat[0].ok:
        raise SystemExit(f"memory: {flat[0].error}\n{flat[0].traceback}")
    print("memory for 500 steps:", ", ".join(f"{mib:.1f} MiB of {num:.0e}" for num, mib in flat[0].value))
    figures = {"rounds": options.rounds, "cases": results, "memory_mib": flat[0].value}
    write_record("loader", figures, packages=["torch", "numpy"], seed=SEED)


if __name__ == "__main__":
    main()
