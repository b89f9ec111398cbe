"""What balancing gains: steps of real matrix work in proportion to cost, with and without it, alternating in one job.

Each rank has batches of 32 lists of lognormal length; a step multiplies one row for each token of its batch, then
meets the other ranks in an all-reduce. Without balancing a step takes as long as its heaviest rank. The bound, with a
core for each rank, is the part of that time that the mean rank has to work, by the lengths; with fewer cores, the
processor time of all ranks over the cores. Short rounds of both kinds follow each other, and each is compared with its
neighbour: how fast the machine multiplies drifts by more than the gain. Goals: at least 90 % of the gain that the bound
allows (median over rounds), and waiting for less than 5 % of the step, with steps of 50 ms and more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import numpy as np
import torch

from paceline import Batch, Jagged, run_ranks
from paceline.balance import linear
from paceline.comm import Comm
from paceline.loader import Balancer, StepStatistics
from record import write_record

SEED, BATCH_SIZE, WIDTH = 0, 32, 768
GAIN_LIMIT, WAITED_LIMIT, STEP_MS = 0.9, 0.05, 50.0


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


def job(comm: Comm, num_steps: int, rounds: int) -> list[dict[str, float]]:
    """Make the same steps plain and balanced, alternating; return seconds per step of each round."""
    torch.set_num_threads(1)
    weights = torch.randn(WIDTH, WIDTH)
    inputs = torch.randn(64 * 1024, WIDTH)
    gradient = np.zeros(1024)

    def step(batch: Batch) -> None:
        num_tokens = int(tokens_of(batch).sum())
        begin = time.thread_time()
        torch.mm(inputs[:num_tokens], weights)
        worked.append(time.thread_time() - begin)
        comm.all_reduce(gradient)

    steps: list[StepStatistics] = []
    worked: list[float] = []
    found = []
    with Balancer(comm, lambda batch: linear(tokens_of(batch)), on_step=steps.append) as balancer:
        for _ in balancer.over([make_batch(comm.rank, 0)] * 3):
            pass  # warms up: ranks connect
        for _ in range(rounds):
            batches = [make_batch(comm.rank, number) for number in range(num_steps)]
            row = {}
            for mode in ("plain", "balanced"):
                source = iter(batches) if mode == "plain" else balancer.over(batches)
                times = []
                steps.clear()
                worked.clear()
                comm.barrier()
                begin = time.perf_counter()
                for batch in source:
                    step(batch)
                    now = time.perf_counter()
                    times.append(now - begin)
                    begin = now
                row[mode] = statistics.mean(times[1:])  # the first has no step before it to hide behind
                row[f"work {mode}"] = statistics.mean(worked[1:])
            row["waited"] = statistics.mean(each.seconds_waited for each in steps[1:])
            row["hidden"] = statistics.mean(each.seconds_hidden for each in steps[1:])
            row["before"] = statistics.mean(each.imbalance_before for each in steps[1:])
            row["after"] = statistics.mean(each.imbalance_after for each in steps[1:])
            row["moved"] = statistics.mean(each.num_moved for each in steps[1:])
            row["kilobytes"] = statistics.mean(each.bytes_sent for each in steps[1:]) / 1e3
            found.append(row)
    return found


def measure(world_size: int, num_steps: int, rounds: int) -> dict[str, float]:
    """Return the figures of one job."""
    outcomes = run_ranks(job, world_size, args=(num_steps, rounds), carrier="torch", deadline=600)
    for outcome in outcomes:
        if not outcome.ok:
            raise SystemExit(f"rank {outcome.rank} failed: {outcome.traceback or outcome}")
    cores = os.cpu_count() or 1
    loads = [[make_lengths(rank, step).sum() for rank in range(world_size)] for step in range(1, num_steps)]
    share = sum(map(np.mean, loads)) / sum(map(max, loads))
    rows = [row for outcome in outcomes for row in outcome.value]
    plain = [row["plain"] for row in outcomes[0].value]
    balanced = [row["balanced"] for row in outcomes[0].value]
    best = [
        took * share if world_size <= cores else sum(o.value[number]["work plain"] for o in outcomes) / cores
        for number, took in enumerate(plain)
    ]
    gains = [(one - other) / (one - least) for one, other, least in zip(plain, balanced, best, strict=True)]
    return {
        "plain ms": statistics.median(plain) * 1e3,
        "balanced ms": statistics.median(balanced) * 1e3,
        "bound ms": statistics.median(best) * 1e3,
        "gain of what is allowed": statistics.median(gains),
        "lowest quarter of gains": statistics.quantiles(gains, n=4)[0],
        "highest quarter of gains": statistics.quantiles(gains, n=4)[2],
        "imbalance before": statistics.mean(row["before"] for row in rows),
        "imbalance after": statistics.mean(row["after"] for row in rows),
        "waited share": statistics.median(row["waited"] / row["balanced"] for row in rows),
        "waited ms": statistics.median(row["waited"] for row in rows) * 1e3,
        "hidden ms": statistics.median(row["hidden"] for row in rows) * 1e3,
        "rows moved": statistics.mean(row["moved"] for row in rows),
        "kilobytes sent per rank": statistics.mean(row["kilobytes"] for row in rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    table = {}
    for world_size in options.ranks:
        row = table[f"{world_size} ranks"] = measure(world_size, options.steps, options.rounds)
        print(f"\n{world_size} ranks on {os.cpu_count()} cores")
        for name, value in row.items():
            print(f"  {name:26} {value:.3f}")
    print("\ngoals")
    for name, row in table.items():
        gain, waited = row["gain of what is allowed"], row["waited share"]
        print(
            f"  {'reached' if gain >= GAIN_LIMIT else 'MISSED '}  {name}: {gain:.0%} of the gain that the bound allows"
        )
        if row["balanced ms"] >= STEP_MS:
            print(f"  {'reached' if waited < WAITED_LIMIT else 'MISSED '}  {name}: waited {waited:.1%} of the step")
    write_record("balance", table, packages=["torch", "numpy"], seed=SEED)


if __name__ == "__main__":
    main()
