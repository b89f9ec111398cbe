"""What every plan of an epoch can answer, whatever it plans by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, runtime_checkable

from paceline.plan.order import Ids
from paceline.plan.tail import Summary, TailLike


@runtime_checkable
class EpochPlan(Protocol):
    """Which rank sees which sample at which step of an epoch, or of the rest of one."""

    @property
    def num_samples(self) -> int:
        """Samples of the whole epoch."""

    @property
    def num_ids(self) -> int:
        """Sample ids run from 0 to one below this."""

    @property
    def world_size(self) -> int:
        """Ranks that share the epoch."""

    @property
    def tail(self) -> TailLike:
        """What becomes of the remainder."""

    @property
    def shuffle(self) -> bool:
        """Whether each epoch has an order of its own."""

    @property
    def seed(self) -> int:
        """The seed of the orders."""

    @property
    def start(self) -> int:
        """Samples of the epoch that were consumed before this plan begins."""

    @property
    def num_steps(self) -> int:
        """Steps, the same on every rank."""

    @property
    def row_width(self) -> int:
        """Slots of one rank's row."""

    @property
    def fingerprint(self) -> str:
        """A short text that is equal for plans of the same order."""

    def summary(self) -> Summary:
        """Count what is used, dropped, padded and repeated."""

    def batch_size_of(self, step: int) -> int:
        """Return the rows of one rank's batch at a step, with padding."""

    def num_real(self, step: int, *, rank: int | None = None) -> int:
        """Return how many rows of a step hold a sample."""

    def rows(self, rank: int, epoch: int = 0, first_step: int = 0, num_steps: int | None = None) -> Ids:
        """Return the sample ids of one rank: (step, slot), -1 where there is no sample."""

    def where(self, sample: int, epoch: int = 0) -> tuple[int, int, int] | None:
        """Return the first (rank, step, slot) that sees a sample, or None."""

    def progress(self, step: int) -> dict[str, Any]:
        """Return what a checkpoint must hold after `step` steps."""

    def at(self, progress: Mapping[str, Any]) -> Self:
        """Return the plan of the rest of the epoch after that progress."""
