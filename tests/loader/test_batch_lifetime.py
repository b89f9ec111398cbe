"""A batch that the loop has let go of is freed before the next one is loaded: nobody else holds it."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from paceline import Batch, Loader, run_ranks
from paceline.comm import Comm


class CountingDataset:
    """Counts, whenever a sample is loaded, how many batches that were handed out are still in memory."""

    def __init__(self) -> None:
        self.handed_out: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()
        self.counts: list[int] = []

    def __len__(self) -> int:
        return 24

    def __getitem__(self, sample: int) -> dict[str, Any]:
        self.counts.append(len(self.handed_out))
        return {"x": torch.full((3,), float(sample))}


def costs_of(batch: Batch) -> Any:
    return batch["x"][:, 0]  # type: ignore[index]


def largest_count(comm: Comm, is_balanced: bool) -> int:
    dataset = CountingDataset()
    with Loader(dataset, batch_size=2, comm=comm, cost=costs_of if is_balanced else None) as loader:
        for epoch in range(2):
            loader.set_epoch(epoch)
            for batch in loader:
                dataset.handed_out.add(batch["x"])  # type: ignore[arg-type]
                del batch
    assert len(dataset.counts) == 2 * 24 // comm.world_size
    return max(dataset.counts)


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_nobody_but_the_loop_holds_a_batch(num_ranks: int) -> None:
    outcomes = run_ranks(largest_count, num_ranks, args=(False,), carrier="threads", deadline=60)
    assert [outcome.value for outcome in outcomes] == [0] * num_ranks


def test_of_balanced_batches_only_what_is_under_way_is_held() -> None:
    outcomes = run_ranks(largest_count, 2, args=(True,), carrier="threads", deadline=60)
    assert all(outcome.value is not None and outcome.value <= 1 for outcome in outcomes)
