"""Batches sent between ranks: all fields in one call, compared with one call per field in plain torch, in one run.

Both sides return the same rows; that is checked before anything is timed. Calls alternate, and each is compared with
its neighbour: by the clock as the slowest rank had it, and by the processor time of all ranks, which includes the
threads of gloo. Collectives are counted by a communicator that counts.

Goals, by the clock and by processor time: with 2 fields not slower than one call per field, with 10 and more at least
twice as fast.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from paceline.batch import Batch, Jagged
from paceline.comm.torch_comm import TorchComm
from paceline.launch import run_ranks
from paceline.loader import exchange, gather_batches
from record import write_record
from verdicts import shown, spread, verdict

SEED = 5
ROWS = 128
WIDTH = 16  # numbers in a row of a dense field
MEAN_LENGTH = 20
KINDS = ("dense", "mixed")  # mixed: every other field is jagged


class CountingComm(TorchComm):
    """Counts collectives and the bytes that this rank brings."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.bytes = 0

    def all_gather(self, array: Any) -> Any:
        """Count and gather."""
        self._count(array)
        return super().all_gather(array)

    def all_to_all(self, array: Any, send_counts: Any, receive_counts: Any) -> Any:
        """Count and exchange."""
        self._count(array)
        return super().all_to_all(array, send_counts, receive_counts)

    def _count(self, array: Any) -> None:
        self.calls += 1
        self.bytes += array.nbytes


def make_batch(rank: int, num_fields: int, kind: str) -> Batch:
    random = torch.Generator().manual_seed(SEED + rank)
    fields: dict[str, Any] = {}
    for index in range(num_fields):
        if kind == "mixed" and index % 2:
            lengths = torch.randint(0, 2 * MEAN_LENGTH, (ROWS,), generator=random)
            values = torch.randint(0, 1 << 40, (int(lengths.sum()),), generator=random)
            fields[f"f{index:02}"] = Jagged(keys=[f"f{index:02}"], values=values, lengths=lengths)
        else:
            fields[f"f{index:02}"] = torch.rand(ROWS, WIDTH, generator=random)
    return Batch(fields, batch_size=ROWS)


def plain_gather(batch: Batch, world_size: int) -> dict[str, Any]:
    """One all_gather_single (formerly all_gather_into_tensor) for each dense field, two for each jagged one."""
    result: dict[str, Any] = {}
    for name in batch.names():
        field = batch[name]
        if isinstance(field, torch.Tensor):
            out = field.new_empty((world_size * ROWS, *field.shape[1:]))
            dist.all_gather_single(out, field)
            result[name] = out
            continue
        lengths = field.lengths.new_empty(world_size * ROWS)
        dist.all_gather_single(lengths, field.lengths)
        counts = lengths.view(world_size, -1).sum(1).tolist()
        padded = field.values.new_zeros(max(counts))
        padded[: field.values.numel()] = field.values
        flat = field.values.new_empty(world_size * max(counts))
        dist.all_gather_single(flat, padded)
        values = flat.view(world_size, -1)
        result[name] = (torch.cat([values[rank, :count] for rank, count in enumerate(counts)]), lengths)
    return result


def plain_exchange(batch: Batch, groups: list[Any], rank: int) -> dict[str, Any]:
    """One all_to_all_single for each dense field, two for each jagged one; rows come in the order of ranks."""
    sent = [torch.from_numpy(group[group // ROWS == rank] - rank * ROWS) for group in groups]
    rows = torch.cat(sent)
    counts = [len(part) for part in sent]
    came = np.bincount(groups[rank] // ROWS, minlength=len(groups)).tolist()
    result: dict[str, Any] = {}
    for name in batch.names():
        field = batch[name]
        if isinstance(field, torch.Tensor):
            out = field.new_empty((sum(came), *field.shape[1:]))
            dist.all_to_all_single(out, field[rows], came, counts)
            result[name] = out
            continue
        selected = field.select(rows)
        lengths = selected.lengths.new_empty(sum(came))
        dist.all_to_all_single(lengths, selected.lengths, came, counts)
        send = [int(part.sum()) for part in torch.split(selected.lengths, counts)]
        receive = [int(part.sum()) for part in torch.split(lengths, came)]
        values = selected.values.new_empty(sum(receive))
        dist.all_to_all_single(values, selected.values, receive, send)
        result[name] = (values, lengths)
    return result


def same(batch: Batch, plain: dict[str, Any]) -> bool:
    for name, expected in plain.items():
        field = batch.real(name)
        if isinstance(field, Jagged):
            if not (torch.equal(field.values, expected[0]) and torch.equal(field.lengths, expected[1])):
                return False
        elif not torch.equal(field, expected):
            return False
    return True


def measure(comm: TorchComm, num_fields: int, kind: str, repetitions: int) -> dict[str, Any]:
    """Time both sides of both calls on this rank."""
    rank, world_size = comm.rank, comm.world_size
    batch = make_batch(rank, num_fields, kind)
    # sorted, so that rows come in the order of ranks on both sides
    rows = np.random.default_rng(SEED).permutation(world_size * ROWS)
    groups = [np.sort(part) for part in np.split(rows, world_size)]
    assert same(gather_batches(comm, batch), plain_gather(batch, world_size))
    assert same(exchange(comm, batch, groups), plain_exchange(batch, groups, rank))
    calls: dict[str, Callable[[], Any]] = {
        "gather": lambda: gather_batches(comm, batch),
        "plain_gather": lambda: plain_gather(batch, world_size),
        "exchange": lambda: exchange(comm, batch, groups),
        "plain_exchange": lambda: plain_exchange(batch, groups, rank),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for repetition in range(repetitions + 3):
        for name, call in calls.items():
            dist.barrier()
            clock, processor = time.perf_counter(), time.process_time()
            call()
            if repetition >= 3:  # the first ones warm up
                times[name].append((time.perf_counter() - clock, time.process_time() - processor))
    counting = CountingComm()
    gather_batches(counting, batch)
    gathered = counting.calls, counting.bytes
    exchange(counting, batch, groups)
    return {
        "times": times,
        "collectives": {"gather": gathered[0], "exchange": counting.calls - gathered[0]},
        "bytes": {"gather": gathered[1], "exchange": counting.bytes - gathered[1]},
    }


def measure_all(comm: TorchComm, fields: list[int], repetitions: int) -> dict[str, Any]:
    torch.set_num_threads(1)  # ranks share two cores
    return {f"{kind} {count}": measure(comm, count, kind, repetitions) for kind in KINDS for count in fields}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--fields", type=int, nargs="+", default=[2, 5, 10, 20])
    parser.add_argument("--repetitions", type=int, default=100)
    options = parser.parse_args()
    figures = []
    print(
        f"{ROWS} rows a rank; dense rows of {WIDTH} float32, jagged of {MEAN_LENGTH} int64 on average; milliseconds\n"
    )
    print("times as fast by the clock, and as cheap by processor time, as one call per field; median (quarters)")
    for num_ranks in options.ranks:
        outcomes = run_ranks(measure_all, num_ranks, (options.fields, options.repetitions), deadline=500)
        for outcome in outcomes:
            if not outcome.ok:
                raise SystemExit(f"rank {outcome.rank}: {outcome.error}\n{outcome.traceback}\n{outcome.output}")
        results = [outcome.value for outcome in outcomes]
        for key in results[0]:
            kind, num_fields = key.split()
            for call in ("gather", "exchange"):
                figures.append(row := judge(results, key, call, num_ranks, kind, int(num_fields)))
                print(
                    f"{call:8} {num_ranks} ranks, {kind:5} {num_fields:>2} fields: {row['fused_ms']:.3f} ms, clock "
                    f"{shown(row['times_as_fast'])} {row['clock_verdict'] or ''}, processor "
                    f"{shown(row['times_as_cheap'])} {row['processor_verdict'] or ''}; {row['collectives']} calls"
                )
    write_record("exchange", figures, packages=["torch", "numpy", "paceline"], seed=SEED)


def judge(
    results: list[dict[str, Any]], key: str, call: str, num_ranks: int, kind: str, num_fields: int
) -> dict[str, Any]:
    """Compare neighbouring calls: the slowest rank's time by the clock, and the processor time of all ranks."""

    def repetitions(name: str) -> tuple[list[float], list[float]]:
        of_calls = list(zip(*(result[key]["times"][name] for result in results), strict=True))
        slowest = [max(clock for clock, _ in ranks) for ranks in of_calls]
        return slowest, [sum(processor for _, processor in ranks) for ranks in of_calls]

    plain, fused = repetitions(f"plain_{call}"), repetitions(call)
    clock, processor = (
        spread([one / other for one, other in zip(*sides, strict=True)]) for sides in zip(plain, fused, strict=True)
    )
    goal = 1.0 if num_fields == 2 else 2.0 if num_fields >= 10 else None
    return {
        "call": call,
        "ranks": num_ranks,
        "kind": kind,
        "fields": num_fields,
        "plain_ms": statistics.median(plain[0]) * 1e3,
        "fused_ms": statistics.median(fused[0]) * 1e3,
        "times_as_fast": clock,
        "times_as_cheap": processor,
        "goal": goal,
        "clock_verdict": None if goal is None else verdict(clock, at_least=goal),
        "processor_verdict": None if goal is None else verdict(processor, at_least=goal),
        "collectives": results[0][key]["collectives"][call],
        "bytes": results[0][key]["bytes"][call],
    }


if __name__ == "__main__":
    main()
