"""Three ways to divide 100 samples among ranks, for `paceline check`: each returns the loader of one rank.

paceline check examples/loaders.py:clamped --ranks 7
paceline check examples/loaders.py:torch_sampler --ranks 7
paceline check examples/loaders.py:planned --ranks 7
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

from paceline import PlanSampler

BATCH_SIZE = 3


class Squares(Dataset[dict[str, torch.Tensor]]):
    """100 small samples that know their own id."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"id": torch.tensor(index), "x": torch.full((4,), float(index**2))}


def clamped(rank: int, world_size: int) -> DataLoader[Any]:
    """The classic bug: ceil(N/W) samples for each rank, and the last rank takes whatever remains."""
    data = Squares()
    share = -(-len(data) // world_size)
    samples = range(rank * share, min((rank + 1) * share, len(data)))
    return DataLoader(Subset(data, list(samples)), batch_size=BATCH_SIZE, drop_last=True)


def torch_sampler(rank: int, world_size: int) -> DataLoader[Any]:
    """The sampler of torch itself: equal steps, at the price of repeated samples."""
    data = Squares()
    sampler: DistributedSampler[Any] = DistributedSampler(data, num_replicas=world_size, rank=rank)
    return DataLoader(data, batch_size=BATCH_SIZE, sampler=sampler)


def planned(rank: int, world_size: int) -> DataLoader[Any]:
    """The plan: equal steps and full batches, each sample exactly once.

    Sample 0 stands in for padding, and `sampler.num_real(step)` says how many rows are real.
    """
    data = Squares()
    sampler = PlanSampler(data, batch_size=BATCH_SIZE, num_replicas=world_size, rank=rank, stand_in=0)
    return DataLoader(data, batch_sampler=sampler)
