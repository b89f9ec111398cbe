"""What balancing gains: steps that take as long as their tokens say, with and without it, alternating in one job.

Each rank has batches of 32 lists of lognormal length. A step computes as an accelerator does: the rank sleeps, for a
time in proportion to the tokens of its batch, and then meets the other ranks in an all-reduce. So ranks do not compete
for processors with what is measured. Without balancing a step takes as long as its heaviest rank; the most that can be
gained is the difference between the heaviest rank and the mean, and it is known from the lengths. Rounds of both kinds
follow each other, and each is compared with its neighbour. Seconds of the processor are given beside those of the
clock, with all threads of a rank.

Goals: at least 95 % of the gain that the bound allows, and waiting for less than 5 % of the step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from paceline import Batch, Jagged, run_ranks
from paceline.balance import linear
from paceline.comm import Comm
from paceline.loader import Balancer, StepStatistics
from record import write_record
from verdicts import shown, spread, verdict

SEED, BATCH_SIZE = 0, 32
SECONDS_PER_TOKEN = 100e-6  # a step takes most of a second
GAIN_GOAL, WAITED_GOAL = 0.95, 0.05


def make_lengths(rank: int, step: int) -> Any:
    random = np.random.default_rng([SEED, rank, step])
    return np.minimum(random.lognormal(5, 1, BATCH_SIZE).astype(np.int64) + 1, 4000)


def make_batch(rank: int, step: int) -> Batch:
    lengths = torch.from_numpy(make_lengths(rank, step))
    tokens = Jagged(keys=["tokens"], values=torch.arange(int(lengths.sum())), lengths=lengths)
    return Batch({"tokens": tokens, "label": torch.arange(BATCH_SIZE)}, batch_size=BATCH_SIZE)


def tokens_of(batch: Batch) -> Any:
    tokens = batch["tokens"]
    assert isinstance(tokens, Jagged)
    return tokens.lengths


def time_steps(comm: Comm, batches: Iterable[Batch]) -> tuple[float, float]:
    """Return seconds per step, by the clock and of the processor. The first has no step before it to hide behind."""
    gradient = np.zeros(1024)
    times, used = [], []
    comm.barrier()
    began, processor = time.perf_counter(), time.process_time()
    for batch in batches:
        time.sleep(int(tokens_of(batch).sum()) * SECONDS_PER_TOKEN)
        comm.all_reduce(gradient)
        now, spent = time.perf_counter(), time.process_time()
        times.append(now - began)
        used.append(spent - processor)
        began, processor = now, spent
    return statistics.mean(times[1:]), statistics.mean(used[1:])


def job(comm: Comm, num_steps: int, rounds: int) -> list[dict[str, float]]:
    """Make the same steps plain and balanced, alternating; return seconds per step of each round."""
    torch.set_num_threads(1)
    steps: list[StepStatistics] = []
    found = []
    with Balancer(comm, lambda batch: linear(tokens_of(batch)), on_step=steps.append) as balancer:
        for _ in balancer.over([make_batch(comm.rank, 0)] * 3):
            pass  # warms up: ranks connect
        for number in range(rounds):
            batches = [make_batch(comm.rank, step) for step in range(num_steps)]
            row = {}
            for mode in ("plain", "balanced") if number % 2 else ("balanced", "plain"):
                steps.clear()
                source = batches if mode == "plain" else balancer.over(batches)
                row[mode], row[f"processor {mode}"] = time_steps(comm, source)
                for name in ("seconds_waited", "seconds_hidden", "imbalance_before", "imbalance_after"):
                    if mode == "balanced":
                        row[name] = statistics.mean(getattr(each, name) for each in steps[1:])
            found.append(row)
    return found


def measure(world_size: int, num_steps: int, rounds: int) -> dict[str, Any]:
    """Return the figures of one job."""
    outcomes = run_ranks(job, world_size, args=(num_steps, rounds), carrier="torch", deadline=600)
    for outcome in outcomes:
        if not outcome.ok:
            raise SystemExit(f"rank {outcome.rank} failed: {outcome.traceback or outcome}")
    loads = [[make_lengths(rank, step).sum() for rank in range(world_size)] for step in range(1, num_steps)]
    heaviest, mean = (statistics.mean(map(float, map(of, loads))) * SECONDS_PER_TOKEN for of in (max, np.mean))
    first = outcomes[0].value
    rows = [row for outcome in outcomes for row in outcome.value]
    gains = spread([(row["plain"] - row["balanced"]) / (heaviest - mean) for row in first])
    waited = spread([row["seconds_waited"] / row["balanced"] for row in rows])
    return {
        "milliseconds_per_step": {mode: spread([1e3 * row[mode] for row in first]) for mode in ("plain", "balanced")},
        "emulated_milliseconds": {"heaviest": round(1e3 * heaviest, 2), "mean": round(1e3 * mean, 2)},
        "processor_milliseconds_per_step": {
            mode: spread([1e3 * row[f"processor {mode}"] for row in rows]) for mode in ("plain", "balanced")
        },
        "gain_of_what_is_allowed": gains,
        "gain_verdict": verdict(gains, at_least=GAIN_GOAL),
        "waited_share": waited,
        "waited_verdict": verdict(waited, at_most=WAITED_GOAL),
        "milliseconds_hidden": spread([1e3 * row["seconds_hidden"] for row in rows]),
        "imbalance_before": round(statistics.mean(row["imbalance_before"] for row in rows), 4),
        "imbalance_after": round(statistics.mean(row["imbalance_after"] for row in rows), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    table = {}
    for world_size in options.ranks:
        row = table[f"{world_size} ranks"] = measure(world_size, options.steps, options.rounds)
        print(f"\n{world_size} ranks")
        for name, value in row.items():
            print(f"  {name:32} {value}")
        print(f"  {row['gain_verdict']}: {shown(row['gain_of_what_is_allowed'])} of the gain that the bound allows")
    write_record("balance", table, packages=["torch", "numpy", "paceline"], seed=SEED)


if __name__ == "__main__":
    main()
