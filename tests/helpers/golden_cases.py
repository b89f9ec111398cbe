"""Seeded inputs of partitions and orders, each with a digest of what comes out: the same on every machine, for ever.

`python -m tests.helpers.golden_cases` prints the digests as JSON. Those in golden_digests.json are from before the
kernels were written in C. They change only together with `ORDER_VERSION`, or with a method of `partition`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from paceline import PlanSampler
from paceline.balance import MemoryLimitError, partition
from paceline.errors import InputError
from paceline.plan import Plan
from paceline.plan.deal import LARGEST_SIZE
from paceline.plan.order import Feistel, Table
from paceline.plan.shuffle_keys import fold, random_words

FILE = Path(__file__).with_name("golden_digests.json")
KINDS = ("equal", "few values", "heavy tail", "zeros", "all zero", "spread", "huge", "fractions", "not a number")
SHAPES = (
    (0, 3), (1, 1), (1, 4), (5, 7), (7, 2), (12, 3), (31, 8), (64, 4), (257, 16), (600, 7), (1500, 300), (4000, 32),
    (9000, 1100),
)  # fmt: skip
SIZES = (2, 3, 5, 97, 4096, 65_535, 65_536, 65_537, 262_145, 1_000_003, 10**9 + 7, 2**40 + 1, LARGEST_SIZE)
PLANS = (110, 1000, 65_536, 65_537, 200_001)


def words(*key: int, size: int) -> Any:
    """Return random 32-bit words as int64, from Paceline's own stream: numpy's may change."""
    return random_words(fold(*key), np.arange(size, dtype=np.uint64)).astype(np.int64)


def make_costs(kind: str, size: int, num_groups: int) -> Any:
    """Return costs of one kind."""
    drawn = words(KINDS.index(kind), size, num_groups, size=size)
    fit = 30 - max(1, size).bit_length()  # so that all of them add up to less than 2**62
    return {
        "equal": np.full(size, 17, dtype=np.int64),
        "few values": drawn % 5,
        "heavy tail": (1 << 32) // (drawn + 1),
        "zeros": np.where(drawn % 3 == 0, drawn % 1000, 0),
        "all zero": np.zeros(size, dtype=np.int64),
        "spread": 1 + drawn % 4096,
        "huge": drawn << fit,
        "fractions": drawn / 7.0,
        "not a number": np.where(np.arange(size) == size // 2, np.nan, drawn / 3.0),
    }[kind]


def variants(costs: Any, num_groups: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what else a caller may pass for these costs."""
    size = costs.size
    drawn = words(77, size, num_groups, size=size)
    placement, real = drawn % num_groups, drawn % 5 != 0
    memory = 1 + drawn % 50
    limit = int(max(memory.max(initial=0), -(-int(memory.sum()) // num_groups)))
    for method in ("auto", "differencing", "longest_first"):
        yield method, {"method": method}
        yield f"{method} placed", {"method": method, "placement": placement}
    yield "swap_in_place", {"method": "swap_in_place", "placement": placement}
    yield "swap_in_place exactly", {"method": "swap_in_place", "placement": placement, "tolerance": 0.0}
    yield "padding", {"real": real}
    yield "padding placed", {"real": real, "placement": np.arange(size) * num_groups // max(1, size)}
    yield "memory", {"memory": memory, "memory_limit": limit + 3}
    yield (
        "memory to spare",
        {"memory": memory, "memory_limit": limit + limit // 4, "placement": placement, "real": real},
    )


def digest(*values: Any) -> str:
    """Return a short digest of arrays and texts."""
    found = hashlib.blake2b(digest_size=8)
    for value in values:
        data = value if isinstance(value, np.ndarray) else repr(value).encode()
        found.update(data.astype(data.dtype.newbyteorder("<")).tobytes() if isinstance(data, np.ndarray) else data)
    return found.hexdigest()


def partition_digest(costs: Any, num_groups: int, named: dict[str, Any]) -> str:
    """Return the digest of a partition, or what kind of error it is."""
    try:
        parts = partition(costs, num_groups, **named)
    except (MemoryLimitError, InputError) as error:
        return type(error).__name__
    sizes = np.array([group.size for group in parts.groups])
    figures = (parts.max_over_mean, parts.max_over_bound, parts.num_moved)
    return digest(sizes, np.concatenate(parts.groups), parts.loads, figures)


def partition_digests(kind: str, size: int, num_groups: int) -> dict[str, str]:
    """Return the digests of all variants of one input."""
    costs = make_costs(kind, size, num_groups)
    return {name: partition_digest(costs, num_groups, named) for name, named in variants(costs, num_groups)}


def order_digests(size: int) -> dict[str, str]:
    """Return the digests of both kinds of order of one size, forward and backward."""
    num = min(size, 70_000)
    positions = np.arange(num) if num == size else (words(5, size, size=num) << 31 | words(6, size, size=num)) % size
    found = {}
    for kind in (Table, Feistel) if size <= 65_536 else (Feistel,):
        order = kind(size=size, key=fold(size, 9))
        name = kind.__name__
        found[name] = digest(order.samples_at(positions))
        found[f"{name} backward"] = digest(order.positions_of(positions))
    return found


def plan_digests(num_samples: int) -> dict[str, str]:
    """Return the digests of the rows of plans with all tails, and of the lists of a sampler."""
    found = {}
    for tail in ("drop", "even", "pad", "repeat"):
        for world_size, batch_size, start, shuffle in ((1, 4, 0, True), (7, 3, 11, True), (3, 32, 5, False)):
            plan = Plan(num_samples, world_size=world_size, batch_size=batch_size, tail=tail, shuffle=shuffle, seed=3)
            plan = plan.resume(start)
            first = max(0, plan.num_steps - 40)
            rows = [plan.rows(rank, 2, first, plan.num_steps - first) for rank in range(world_size)]
            found[f"{tail} {world_size} {shuffle}"] = digest(*rows)
        sampler = PlanSampler(num_samples, batch_size=5, num_replicas=6, rank=5, tail=tail, stand_in=1, seed=4)
        found[f"{tail} lists"] = digest([ids for ids, _ in zip(sampler, range(3000), strict=False)])
    return found


def all_digests() -> dict[str, dict[str, str]]:
    """Return all digests, by input."""
    found: dict[str, dict[str, str]] = {}
    for kind in KINDS:
        found |= {f"{kind}, {size} in {groups}": partition_digests(kind, size, groups) for size, groups in SHAPES}
    found |= {f"order of {size}": order_digests(size) for size in SIZES}
    found |= {f"plan of {size}": plan_digests(size) for size in PLANS}
    return found


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(digests)}" for name, digests in all_digests().items()]
    print("{\n" + ",\n".join(lines) + "\n}")
