"""Mixed plans: several datasets in one epoch, in the proportion of their weights, with equal steps.

Samples are numbered as in a concatenation: dataset d's sample i is `sum(sizes[:d]) + i`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from paceline.errors import InputError, choice, listed, whole_number
from paceline.plan.deal import LARGEST_SIZE
from paceline.plan.notebook_plan import plan_html
from paceline.plan.order import Ids, Order, make_order
from paceline.plan.plan import ORDER_VERSION, Plan
from paceline.plan.shuffle_keys import fold
from paceline.plan.tail import Summary, Tail, TailLike

_OF_DATASETS = 1 << 62  # tells the keys for the order within a dataset from those of the epoch


class Until(StrEnum):
    """When an epoch of a mixture ends."""

    FIRST_EXHAUSTED = "first_exhausted"  # no sample is drawn twice in one epoch
    ALL_SEEN = "all_seen"  # every sample is drawn at least once in each epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one epoch draws from one dataset."""

    size: int
    num_draws: int

    @property
    def num_repeated(self) -> int:
        """Draws of samples that this epoch has already drawn."""
        return max(0, self.num_draws - self.size)

    @property
    def num_unseen(self) -> int:
        """Samples that one epoch does not draw; later epochs begin with them."""
        return max(0, self.size - self.num_draws)


class MixedPlan:
    """The plan of an epoch that mixes several datasets.

    An epoch draws from each dataset in proportion to its weight, by exact counts, and shuffles all draws
    together. Each epoch continues in a dataset where the last one stopped, and starts over at its end, so all samples
    of a dataset are drawn equally often. Steps, tails and `resume` count draws.

    >>> plan = MixedPlan([100, 10], weights=[3, 1], world_size=2, batch_size=4)
    >>> [(share.num_draws, share.num_repeated) for share in plan.shares]
    [(30, 0), (10, 0)]
    >>> plan.summary().num_steps
    5

    Args:
        sizes: Samples of each dataset.
        weights: How often each dataset is drawn from, in proportion; by size if not given.
        world_size: Ranks that share the epoch.
        batch_size: Rows of one rank's batch.
        until: When the epoch ends: `first_exhausted` if neither this nor `num_samples` is given.
        num_samples: Draws of one epoch, instead of `until`.
        tail: What becomes of the remainder.
        shuffle: Whether draws are shuffled; otherwise the datasets come one after the other.
        seed: Chooses the family of orders.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        world_size: int,
        batch_size: int,
        weights: Sequence[float] | None = None,
        until: Until | Literal["first_exhausted", "all_seen"] | None = None,
        num_samples: int | None = None,
        tail: TailLike = Tail.PAD,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        checked_sizes = _checked_sizes(sizes)
        portions = _portions(checked_sizes, weights)
        if num_samples is None:
            end = choice(Until, "until", until or Until.FIRST_EXHAUSTED)
            num_samples = _draws_until(checked_sizes, portions, end)
        elif until is not None:
            raise InputError(
                f"until={until!r} and num_samples={num_samples} both say when the epoch ends: pass only one"
            )
        self._draws = Plan(
            num_samples,
            world_size=world_size,
            batch_size=batch_size,
            tail=tail,
            shuffle=shuffle,
            seed=seed,
        )
        quotas = _quotas(portions, self._draws.num_samples)
        if 0 in quotas:
            dataset = quotas.index(0)
            raise InputError(
                f"dataset {dataset} would never be drawn: its share of {self._draws.num_samples} draws rounds to 0; "
                f"give it more weight, draw more samples, or leave it out"
            )
        self._shares = tuple(
            Share(size=size, num_draws=quota) for size, quota in zip(checked_sizes, quotas, strict=True)
        )

    @property
    def shares(self) -> tuple[Share, ...]:
        """What one epoch draws from each dataset."""
        return self._shares

    @property
    def world_size(self) -> int:
        """Ranks that share the epoch."""
        return self._draws.world_size

    @property
    def start(self) -> int:
        """Draws of the epoch that were consumed before this plan begins."""
        return self._draws.start

    @property
    def num_samples(self) -> int:
        """Draws of the whole epoch."""
        return self._draws.num_samples

    @property
    def tail(self) -> TailLike:
        """What becomes of the remainder."""
        return self._draws.tail

    @property
    def shuffle(self) -> bool:
        """Whether draws are shuffled."""
        return self._draws.shuffle

    @property
    def seed(self) -> int:
        """The seed of the orders."""
        return self._draws.seed

    @property
    def num_ids(self) -> int:
        """Sample ids run from 0 to one below this: the samples of all datasets."""
        return sum(share.size for share in self.shares)

    @property
    def num_steps(self) -> int:
        """Steps of one epoch, the same on every rank."""
        return self._draws.num_steps

    @property
    def row_width(self) -> int:
        """Slots of one rank's row: its batch size."""
        return self._draws.row_width

    @property
    def fingerprint(self) -> str:
        """A short text that is equal for plans of the same order."""
        settings = (ORDER_VERSION, self._draws.fingerprint, self.shares)
        return hashlib.blake2b(repr(settings).encode(), digest_size=8).hexdigest()

    def _repr_html_(self) -> str:
        """Return it as a table, for notebooks."""
        return plan_html(self)

    def summary(self) -> Summary:
        """Count the samples that one epoch uses, leaves unseen and repeats; `shares` has it for each dataset.

        With the tails `drop` and `even` a draw that is dropped counts as a sample that is not seen. The summary of a
        resumed plan counts draws.
        """
        tail = self._draws.summary()
        if self.start:
            return tail
        repeated = sum(share.num_repeated for share in self.shares)
        unseen = sum(share.num_unseen for share in self.shares)
        return replace(
            tail,
            num_used=self.num_ids - unseen - tail.num_dropped,
            num_dropped=unseen + tail.num_dropped,
            num_repeated=repeated + tail.num_repeated,
        )

    def batch_size_of(self, step: int) -> int:
        """Return the rows of one rank's batch at a step, with padding: here, at every step the same."""
        return self._draws.batch_size_of(step)

    def num_real(self, step: int, *, rank: int | None = None) -> int:
        """Return how many rows of a step hold a sample: on one rank, or on all together."""
        return self._draws.num_real(step, rank=rank)

    def rows(self, rank: int, epoch: int = 0, first_step: int = 0, num_steps: int | None = None) -> Ids:
        """Return the sample ids of one rank: (step, slot), -1 where there is no sample."""
        # draws are numbered dataset after dataset; each number is replaced by the sample that it draws
        rows = self._draws.rows(rank, epoch, first_step, num_steps)
        edges = self._edges([share.num_draws for share in self.shares])
        offsets = self._edges([share.size for share in self.shares])
        dataset_of = np.searchsorted(edges, rows, side="right") - 1  # -1 for padding
        for dataset, share in enumerate(self.shares):
            here = dataset_of == dataset
            positions = rows[here] - edges[dataset] + self._first_position(dataset, epoch)
            rows[here] = offsets[dataset] + self._order_of(dataset).samples_at(positions % share.size)
        return rows

    def where(self, sample: int, epoch: int = 0) -> tuple[int, int, int] | None:
        """Return the first (rank, step, slot) that sees a sample, or None if this epoch does not use it."""
        dataset, index = self.dataset_of(sample)
        share = self.shares[dataset]
        position = int(self._order_of(dataset).positions_of(np.array([index]))[0])
        first = (position - self._first_position(dataset, epoch)) % share.size
        before = sum(other.num_draws for other in self.shares[:dataset])
        # the sample is drawn `first` draws into its dataset's share, and again after each time round the dataset
        return self._draws.where_first(before + np.arange(first, share.num_draws, share.size), epoch)

    def dataset_of(self, sample: int) -> tuple[int, int]:
        """Return the dataset that a sample belongs to, and its index there.

        >>> MixedPlan([100, 10], world_size=1, batch_size=1).dataset_of(103)
        (1, 3)
        """
        offsets = self._edges([share.size for share in self.shares])
        sample = whole_number("sample", sample, least=0, most=int(offsets[-1]) - 1)
        dataset = int(np.searchsorted(offsets, sample, side="right")) - 1
        return dataset, sample - int(offsets[dataset])

    def resume(self, consumed: int, world_size: int | None = None, batch_size: int | None = None) -> MixedPlan:
        """Return the plan of the rest of the epoch after `consumed` draws of this plan."""
        return self._with_draws(self._draws.resume(consumed, world_size, batch_size))

    def progress(self, step: int) -> dict[str, Any]:
        """Return what a checkpoint must hold after `step` steps of this plan: one number."""
        return self._draws.progress(step)

    def at(self, progress: Mapping[str, Any]) -> MixedPlan:
        """Return the plan of the rest of the epoch after the progress that another plan of this order made."""
        return self._with_draws(self._draws.at(progress))

    def _with_draws(self, draws: Plan) -> MixedPlan:
        plan = object.__new__(MixedPlan)
        plan._draws, plan._shares = draws, self._shares
        return plan

    def _first_position(self, dataset: int, epoch: int) -> int:
        """Return where in the dataset's order this epoch begins."""
        share = self.shares[dataset]
        return epoch * share.num_draws % share.size

    def _order_of(self, dataset: int) -> Order:
        key = fold(self._draws.seed, _OF_DATASETS, dataset) if self._draws.shuffle else None
        return make_order(self.shares[dataset].size, key)

    @staticmethod
    def _edges(counts: Sequence[int]) -> Ids:
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _checked_sizes(sizes: Sequence[int]) -> list[int]:
    checked = [
        whole_number(f"the size of dataset {dataset}", size, least=1, most=LARGEST_SIZE)
        for dataset, size in enumerate(listed("sizes", sizes, of="one number per dataset"))
    ]
    if not checked or sum(checked) > LARGEST_SIZE:
        raise InputError(f"a mixture needs 1 to {LARGEST_SIZE} samples in all, got sizes {checked}")
    return checked


def _portions(sizes: list[int], weights: Any) -> list[Fraction]:
    """Return what part of the draws each dataset gets, exactly."""
    checked = sizes if weights is None else listed("weights", weights, of="one number per dataset")
    if len(checked) != len(sizes):
        raise InputError(f"weights must be one number per dataset, got {checked} for {len(sizes)} datasets")
    for dataset, weight in enumerate(checked):
        if isinstance(weight, bool) or not isinstance(weight, int | float | Fraction) or not 0 < weight < math.inf:
            raise InputError(f"the weight of dataset {dataset} must be above 0, got {weight!r}")
    exact = [Fraction(weight) for weight in checked]
    total = sum(exact)
    return [weight / total for weight in exact]


def _draws_until(sizes: list[int], portions: list[Fraction], until: Until) -> int:
    """Return the draws after which the first dataset, or the last, has been drawn completely."""
    lengths = [size / portion for size, portion in zip(sizes, portions, strict=True)]
    if until is Until.FIRST_EXHAUSTED:
        return math.floor(min(lengths))
    return math.ceil(max(lengths))


def _quotas(portions: list[Fraction], num_draws: int) -> list[int]:
    """Round the portions to whole draws that add up, the largest remainders up."""
    exact = [portion * num_draws for portion in portions]
    quotas = [math.floor(quota) for quota in exact]
    missing = num_draws - sum(quotas)
    by_remainder = sorted(range(len(exact)), key=lambda dataset: (quotas[dataset] - exact[dataset], dataset))
    for dataset in by_remainder[:missing]:
        quotas[dataset] += 1
    return quotas
