"""Time to the first index, indices per second and memory: the plan and torch, grain and accelerate, in one run.

Every measurement runs in a process of its own, so that memory is counted for it alone and nothing is warm. Peers and
plan alternate; the figure is the median of the repetitions.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from record import write_record

SEED = 3
WORLD_SIZE = 8
BATCH_SIZE = 32
RANK = 5


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def drain(make: Callable[[], Iterator[Any]], ids_per_item: int, num_items: int) -> dict[str, float]:
    """Time the first item and `num_items` items, from the call that makes the iterator on."""
    begin, begin_processor = time.perf_counter(), time.process_time()
    iterator = make()
    next(iterator)
    first = time.perf_counter() - begin
    count = 1 + sum(1 for _ in islice(iterator, num_items - 1))
    seconds, processor = time.perf_counter() - begin, time.process_time() - begin_processor
    num = count * ids_per_item
    return {"first_seconds": first, "ids_per_second": num / seconds, "ids_per_processor_second": num / processor}


def plan_arrays(num_samples: int) -> dict[str, float]:
    from paceline import Plan

    begin = time.perf_counter()
    plan = Plan(num_samples, world_size=WORLD_SIZE, batch_size=BATCH_SIZE, seed=SEED)
    plan.rows(RANK, 1, 0, 1)
    first_seconds = time.perf_counter() - begin
    steps = 2048  # 65,536 ids per call

    def blocks() -> Iterator[Any]:
        for first in range(0, plan.num_steps - steps, steps):
            yield plan.rows(RANK, 1, first, steps)

    num_blocks = min(plan.num_steps // steps - 1, 60)
    figures = drain(blocks, steps * BATCH_SIZE, num_blocks)
    return figures | {"first_seconds": first_seconds}


def plan_sampler(num_samples: int) -> dict[str, float]:
    from paceline import PlanSampler

    def batches() -> Iterator[list[int]]:
        sampler = PlanSampler(num_samples, batch_size=BATCH_SIZE, num_replicas=WORLD_SIZE, rank=RANK, seed=SEED)
        return iter(sampler)

    return drain(batches, BATCH_SIZE, min(num_samples // WORLD_SIZE // BATCH_SIZE, 100_000))


def plan_resume(num_samples: int) -> dict[str, float]:
    """The slowest of several resumes: load a state from the middle of an epoch on a different number of ranks."""
    from paceline import PlanSampler

    worst = 0.0
    for part in (0.001, 0.37, 0.5, 0.93):
        sampler = PlanSampler(num_samples, batch_size=BATCH_SIZE, num_replicas=WORLD_SIZE, rank=RANK, seed=SEED)
        state = sampler.state_dict(step=int(len(sampler) * part))
        begin = time.perf_counter()
        other = PlanSampler(num_samples, batch_size=48, num_replicas=6, rank=RANK, seed=SEED)
        other.load_state_dict(state)
        next(iter(other))
        worst = max(worst, time.perf_counter() - begin)
    return {"first_seconds": worst}


def plan_lengths(num_samples: int) -> dict[str, float]:
    """A token budget over known lengths: the whole epoch is planned before the first batch."""
    import numpy as np

    from paceline import LengthPlan, PlanSampler

    lengths = np.random.default_rng(SEED).lognormal(5, 1, num_samples).astype(np.int64).clip(1, 16_384)

    def batches() -> Iterator[list[int]]:
        plan = LengthPlan(lengths, world_size=WORLD_SIZE, max_tokens=16_384, batch_size=512, seed=SEED)
        return iter(PlanSampler.of(plan, rank=RANK))

    return {"first_seconds": drain(batches, 1, 1)["first_seconds"]}


def torch_sampler(num_samples: int) -> dict[str, float]:
    from torch.utils.data import BatchSampler, DistributedSampler

    def batches() -> Iterator[list[int]]:
        data: Any = range(num_samples)
        sampler: Any = DistributedSampler(data, num_replicas=WORLD_SIZE, rank=RANK, seed=SEED)
        return iter(BatchSampler(sampler, BATCH_SIZE, drop_last=False))

    return drain(batches, BATCH_SIZE, num_samples // WORLD_SIZE // BATCH_SIZE)


def accelerate_shard(num_samples: int) -> dict[str, float]:
    from accelerate.data_loader import BatchSamplerShard, SeedableRandomSampler
    from torch.utils.data import BatchSampler

    def batches() -> Iterator[list[int]]:
        order = SeedableRandomSampler(range(num_samples), data_seed=SEED)
        inner = BatchSampler(order, BATCH_SIZE, drop_last=False)
        return iter(BatchSamplerShard(inner, num_processes=WORLD_SIZE, process_index=RANK))

    return drain(batches, BATCH_SIZE, num_samples // WORLD_SIZE // BATCH_SIZE)


def grain_call(num_samples: int) -> dict[str, float]:
    """The native function that computes one index, called for each index of the rank."""
    from grain._src.python.experimental.index_shuffle.python import index_shuffle_module

    def indices() -> Iterator[int]:
        for position in range(RANK, num_samples, WORLD_SIZE):
            yield index_shuffle_module.index_shuffle(position, max_index=num_samples - 1, seed=SEED, rounds=4)

    return drain(indices, 1, 200_000)


def grain_dataset(num_samples: int) -> dict[str, float]:
    """What users of grain write: a shuffled dataset, a slice for the rank, iterated."""
    import grain

    def indices() -> Iterator[int]:
        data = grain.MapDataset.range(num_samples).seed(SEED).shuffle()[RANK::WORLD_SIZE]
        return (data[position] for position in range(len(data)))

    return drain(indices, 1, 50_000)


MEASUREMENTS = {
    measure.__name__: measure
    for measure in (
        plan_arrays,
        plan_sampler,
        plan_resume,
        plan_lengths,
        torch_sampler,
        accelerate_shard,
        grain_call,
        grain_dataset,
    )
}
IMPORTS = {
    "plan_arrays": "paceline.plan",
    "plan_sampler": "paceline.loader.sampler",
    "plan_resume": "paceline.loader.sampler",
    "plan_lengths": "paceline.loader.sampler",
    "torch_sampler": "torch.utils.data",
    "accelerate_shard": "accelerate.data_loader",
    "grain_call": "grain",
    "grain_dataset": "grain",
}


def measure_here(name: str, num_samples: int) -> None:
    """Run one measurement in this process; imports are done before, and their memory is not counted."""
    __import__(IMPORTS[name])
    before = peak_mib()
    figures = MEASUREMENTS[name](num_samples)
    print(json.dumps(figures | {"growth_mib": peak_mib() - before}))


def measure(name: str, num_samples: int, repetitions: int) -> list[dict[str, float]]:
    runs = []
    for _ in range(repetitions):
        done = subprocess.run(
            [sys.executable, __file__, "--measure", name, str(num_samples)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"{name} at {num_samples} failed:\n{done.stderr}")
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return runs


def median(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def spread(runs: list[dict[str, float]]) -> dict[str, list[float]]:
    """Return the least and the most of each figure."""
    return {key: [min(run[key] for run in runs), max(run[key] for run in runs)] for key in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    if options.measure:
        measure_here(options.measure[0], int(options.measure[1]))
        return

    sizes = {name: [10**7] for name in MEASUREMENTS}
    for name in ("plan_arrays", "plan_sampler", "plan_resume"):
        sizes[name] = [10**7, 10**9, 10**12]
    # repeat the whole series, so that a busy moment affects all measurements alike
    runs: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(options.repetitions):
        for name, numbers in sizes.items():
            for number in numbers:
                runs.setdefault((name, number), []).extend(measure(name, number, 1))
    figures = {key: median(value) for key, value in runs.items()}

    print(f"rank {RANK} of {WORLD_SIZE}, batch {BATCH_SIZE}, shuffled; medians of {options.repetitions} processes\n")
    print(f"{'':18}{'N':>8}{'first, ms':>12}{'ids/s, of processor':>22}{'memory, MiB':>13}")
    for (name, number), found in figures.items():
        rate = f"{found['ids_per_second']:.3g}" if "ids_per_second" in found else ""
        rate += f" {found['ids_per_processor_second']:.3g}" if rate else ""
        growth = found["growth_mib"]
        print(f"{name:18}{number:>8.0e}{found['first_seconds'] * 1e3:>12.3f}{rate:>22}{growth:>13.1f}")
    goals = compare(figures)
    print(f"\n{'at N = 1e7':52}{'ratio':>10}{'goal':>8}")
    for goal in goals:
        print(f"{goal['what']:52}{goal['value']:>10.4g}{goal['goal']:>8}  {'reached' if goal['reached'] else 'MISSED'}")
    write_record(
        "plan",
        {
            "medians": [{"what": name, "num_samples": number, **found} for (name, number), found in figures.items()],
            "from least to most": [
                {"what": name, "num_samples": number, **spread(found)} for (name, number), found in runs.items()
            ],
            "goals": goals,
        },
        packages=["numpy", "torch", "accelerate", "grain"],
        seed=SEED,
    )


def compare(figures: dict[tuple[str, int], dict[str, float]]) -> list[dict[str, Any]]:
    """Compare the plan with its peers; ratios are between figures of this run."""
    at = {name: found for (name, number), found in figures.items() if number == 10**7}
    mine, torch_ = at["plan_sampler"], at["torch_sampler"]
    constant = ("plan_arrays", "plan_sampler", "plan_resume")
    growth = max(found["growth_mib"] for (name, _), found in figures.items() if name in constant)
    resume = max(found["first_seconds"] for (name, _), found in figures.items() if name == "plan_resume")
    ratios = [
        ("first index sooner than torch, times", torch_["first_seconds"] / mine["first_seconds"], 100),
        ("arrays faster than grain's native call, times", _rate(at, "plan_arrays", "grain_call"), 50),
        ("arrays faster than grain's dataset, times", _rate(at, "plan_arrays", "grain_dataset"), 50),
        ("sampler faster than torch with start-up, times", _rate(at, "plan_sampler", "torch_sampler"), 3),
        ("sampler faster than accelerate, times", _rate(at, "plan_sampler", "accelerate_shard"), 3),
        ("arrays, million ids per second of processor", at["plan_arrays"]["ids_per_processor_second"] / 1e6, 100),
        ("lists, million ids per second of processor", mine["ids_per_processor_second"] / 1e6, 15),
    ]
    rows = [
        {"what": what, "value": value, "goal": f">= {goal}", "reached": value >= goal} for what, value, goal in ratios
    ]
    limits = [
        ("memory growth to N = 1e12, MiB", growth, 64),
        ("resume anywhere, worst, ms", resume * 1e3, 5),
        ("token budget over 1e7 lengths to the first batch, s", at["plan_lengths"]["first_seconds"], 5),
    ]
    return rows + [
        {"what": what, "value": value, "goal": f"< {limit}", "reached": value < limit} for what, value, limit in limits
    ]


def _rate(at: dict[str, dict[str, float]], mine: str, other: str) -> float:
    return at[mine]["ids_per_second"] / at[other]["ids_per_second"]


if __name__ == "__main__":
    main()
