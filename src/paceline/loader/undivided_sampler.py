"""The lists of all ranks in turn, for loaders that divide batches among ranks by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from paceline.loader.sampler_state import PlannedPass


class RankSampler(Protocol):
    """What is asked of the sampler of a rank, which is a `PlanSampler`."""

    @property
    def num_replicas(self) -> int:
        """Ranks of the job."""

    def __len__(self) -> int: ...

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch."""

    def begin(self) -> PlannedPass:
        """Begin a pass."""

    def lists_of_all_ranks(self, planned: PlannedPass) -> Iterator[list[int]]:
        """Yield the lists of a pass, of all ranks."""


class UndividedSampler:
    """Hands out, step by step, the list of rank 0, of rank 1, and so on.

    accelerate, and Hugging Face Trainer with it, gives process r of W the batches r, r + W, r + 2W, ... of a loader:
    of these lists they are just the ones of rank r. Get it by `PlanSampler.undivided`, which it shares its epoch and
    state with.

    Attributes:
        sampler: The sampler of this rank.
        batch_size: None: lists may be shorter than a full one, and are to be taken as they are.
        drop_last: False, since the plan has dropped already what it drops.
    """

    def __init__(self, sampler: RankSampler) -> None:
        self.sampler = sampler
        self.batch_size = None
        self.drop_last = False

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch."""
        self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        """Lists of all ranks in the pass that comes next."""
        return len(self.sampler) * self.sampler.num_replicas

    def __iter__(self) -> Iterator[list[int]]:
        """Begin a pass."""
        return self._make_lists()

    def _make_lists(self) -> Iterator[list[int]]:
        planned = self.sampler.begin()
        yield from self.sampler.lists_of_all_ranks(planned)
