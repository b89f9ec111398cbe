"""The plan of an epoch: which rank sees which sample at which step, by arithmetic alone.

Nothing here communicates, loads or stores anything: the same integers give the same plan everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np

from paceline.errors import InputError, whole_number
from paceline.plan.deal import Deal, make_deal
from paceline.plan.even import EvenDeal
from paceline.plan.notebook_plan import plan_html
from paceline.plan.order import Ids, Order, make_order
from paceline.plan.shuffle_keys import fold
from paceline.plan.tail import Summary, Tail, TailLike

LARGEST_SEED = (1 << 64) - 1
ORDER_VERSION = 1  # part of every fingerprint; raised when the same integers give another order


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one epoch of `num_samples` samples over `world_size` ranks.

    Every rank makes `num_steps` steps. What does not fill a step is treated as `tail` says and counted.

    >>> plan = Plan(11, world_size=2, batch_size=4, shuffle=False)
    >>> plan.rows(rank=0).tolist()
    [[0, 2, 4, 6], [8, 10, -1, -1]]
    >>> plan.rows(rank=1).tolist()
    [[1, 3, 5, 7], [9, -1, -1, -1]]
    >>> plan.where(10)
    (0, 1, 1)

    After 8 samples, continue with three ranks:

    >>> rest = plan.resume(8, world_size=3)
    >>> [rest.rows(rank=rank).tolist() for rank in range(3)]
    [[[8, -1, -1, -1]], [[9, -1, -1, -1]], [[10, -1, -1, -1]]]

    Attributes:
        num_samples: Samples of the whole epoch.
        world_size: Ranks that share the epoch.
        batch_size: Rows of one rank's batch.
        tail: What becomes of the remainder.
        shuffle: Whether each epoch has an order of its own; otherwise samples come in the order of their ids.
        seed: Chooses the family of orders; mixed with the epoch, never added to it.
        start: Samples of the epoch that were consumed before this plan begins; `resume` sets it.
        costs: What each sample costs, if that is known: then each step is dealt so that all ranks have the same work.
            It holds the same samples as without costs; every rank computes the same deal, and nothing is sent.

    >>> plan = Plan(8, world_size=2, batch_size=4, shuffle=False, costs=[9, 1, 1, 9, 1, 1, 9, 9])
    >>> plan.rows(rank=0).tolist(), plan.rows(rank=1).tolist(), plan.loads(0).tolist()
    ([[1, 3, 5, 6]], [[0, 2, 4, 7]], [20, 20])
    """

    num_samples: int
    _: KW_ONLY
    world_size: int
    batch_size: int
    tail: TailLike = Tail.PAD
    shuffle: bool = True
    seed: int = 0
    start: int = 0
    costs: Any = field(default=None, repr=False, compare=False)
    _deal: Deal = field(init=False, repr=False, compare=False)
    _even: EvenDeal | None = field(init=False, repr=False, compare=False)
    _costs_digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        deal = make_deal(
            self.num_samples,
            start=self.start,
            world_size=self.world_size,
            batch_size=self.batch_size,
            tail=self.tail,
        )
        start = int(self.start)
        num_samples = start + deal.num_samples
        checked_shuffle(self.shuffle)
        even = None
        if self.costs is not None:
            even = self.costs if isinstance(self.costs, EvenDeal) else EvenDeal(self.costs, num_samples)
        # the class is frozen: what was checked replaces what the caller gave, once
        checked = {
            "costs": None if even is None else even.costs,
            "_even": even,
            "_costs_digest": "" if even is None else even.digest,
            "num_samples": num_samples,
            "world_size": deal.world_size,
            "batch_size": deal.batch_size,
            "start": start,
            "tail": deal.tail,
            "seed": whole_number("seed", self.seed, least=0, most=LARGEST_SEED),
            "_deal": deal,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def num_steps(self) -> int:
        """Steps of one epoch, the same on every rank."""
        return self._deal.num_steps

    @property
    def num_ids(self) -> int:
        """Sample ids run from 0 to one below this: here, the number of samples."""
        return self.num_samples

    @property
    def row_width(self) -> int:
        """Slots of one rank's row: its `batch_size`."""
        return self.batch_size

    def batch_size_of(self, step: int) -> int:
        """Return the rows of one rank's batch at a step, with padding: here, at every step the same."""
        whole_number("step", step, least=0, most=self.num_steps - 1)
        return self.batch_size

    @property
    def fingerprint(self) -> str:
        """A short text that is equal for plans of the same order: same samples, shuffle, seed and costs."""
        settings: tuple[object, ...] = (ORDER_VERSION, self.num_samples, self.shuffle, self.seed)
        if self._costs_digest:
            settings = (*settings, self._costs_digest)
        return hashlib.blake2b(repr(settings).encode(), digest_size=8).hexdigest()

    def summary(self) -> Summary:
        """Count steps and what is used, dropped, padded and repeated, over all ranks.

        A resumed plan counts the rest of the epoch: `num_used` and `num_dropped` add up to what was left.
        """
        return self._deal.summary()

    def _repr_html_(self) -> str:
        """Return it as a table, for notebooks."""
        return plan_html(self)

    def num_real(self, step: int, *, rank: int | None = None) -> int:
        """Return how many rows of a step hold a sample: on one rank, or on all together.

        >>> plan = Plan(11, world_size=2, batch_size=4)
        >>> plan.num_real(1), plan.num_real(1, rank=0), plan.num_real(1, rank=1)
        (3, 2, 1)
        """
        step = whole_number("step", step, least=0, most=self.num_steps - 1)
        if rank is None:
            return self._deal.num_rows(step)
        return self._deal.num_real(self._checked_rank(rank), step)

    def rows(self, rank: int, epoch: int = 0, first_step: int = 0, num_steps: int | None = None) -> Ids:
        """Return the sample ids of one rank: (step, slot), -1 where there is no sample.

        Real rows come first. `first_step` and `num_steps` select a range of steps; only these take memory.
        """
        rank = self._checked_rank(rank)
        first_step, num_steps = checked_steps(self.num_steps, first_step, num_steps)
        if self._even is not None:
            return self._even_rows(self._even, rank, epoch, first_step, num_steps)
        rows = np.empty((num_steps, self.batch_size), dtype=np.int64)
        flat = rows.reshape(-1)
        begin, num_real = self._deal.slots(rank, first_step, num_steps)
        flat[num_real:] = -1
        begin = (self.start + begin) % self.num_samples  # with the tail `repeat`, positions begin again
        self._order(epoch).samples_along(begin, self.world_size, flat[:num_real])
        return rows

    def where(self, sample: int, epoch: int = 0) -> tuple[int, int, int] | None:
        """Return the (rank, step, slot) that sees a sample, or None if this plan does not use it.

        With the tail `repeat` it is the first of several.
        """
        sample = whole_number("sample", sample, least=0, most=self.num_samples - 1)
        return self.where_first(np.array([sample]), epoch)

    def where_first(self, samples: Ids, epoch: int = 0) -> tuple[int, int, int] | None:
        """Return the first (rank, step, slot) that sees any of the samples, or None."""
        positions = self._order(epoch).positions_of(samples) - self.start
        positions = positions % self.num_samples if self.tail is Tail.REPEAT else positions[positions >= 0]
        rank_step_slot = self._deal.where(int(positions.min())) if positions.size else None
        if rank_step_slot is None or self._even is None:
            return rank_step_slot
        _, step, _ = rank_step_slot  # costs decide on the rank and the slot within the step
        index = int(positions.min()) - step * self._deal.samples_per_step
        groups = self._even.groups(self._step_samples(step, self._order(epoch)), self.world_size)
        rank = next(rank for rank, group in enumerate(groups) if index in group)
        return rank, step, int(np.searchsorted(groups[rank], index))

    def loads(self, step: int, epoch: int = 0) -> Ids:
        """Return what the samples of each rank cost at a step, of a plan with costs.

        Costs that are not whole numbers are counted in units of a power of two.
        """
        step = whole_number("step", step, least=0, most=self.num_steps - 1)
        if self._even is None:
            raise InputError("this plan was made without costs")
        return self._even.loads(self._step_samples(step, self._order(epoch)), self.world_size)

    def _step_samples(self, step: int, order: Order) -> Ids:
        """Return the samples of all ranks at a step, in the order of positions."""
        begin = step * self._deal.samples_per_step
        positions = np.arange(begin, begin + self._deal.num_rows(step), dtype=np.int64) + self.start
        return order.samples_at(positions % self.num_samples if self.tail is Tail.REPEAT else positions)

    def _even_rows(self, even: EvenDeal, rank: int, epoch: int, first_step: int, num_steps: int) -> Ids:
        order, rows = self._order(epoch), np.full((num_steps, self.batch_size), -1, dtype=np.int64)
        for row, step in zip(rows, range(first_step, first_step + num_steps), strict=True):
            samples = self._step_samples(step, order)
            group = even.groups(samples, self.world_size)[rank]
            row[: group.size] = samples[group]
        return rows

    def resume(self, consumed: int, world_size: int | None = None, batch_size: int | None = None) -> Plan:
        """Return the plan of the rest of the epoch after `consumed` samples of this plan.

        Each remaining sample comes exactly once, on any number of ranks and with any batch size, including those that
        the tail of this plan would have dropped. A resumed plan can be resumed again.
        """
        consumed = whole_number("consumed", consumed, least=0, most=self.num_samples - self.start)
        return replace(
            self,
            costs=self._even,
            start=self.start + consumed,
            world_size=self.world_size if world_size is None else world_size,
            batch_size=self.batch_size if batch_size is None else batch_size,
        )

    def progress(self, step: int) -> dict[str, Any]:
        """Return what a checkpoint must hold after `step` steps of this plan: one number.

        With the last step the whole epoch is spent, including what the tail has dropped.
        """
        step = whole_number("step", step, least=0, most=self.num_steps)
        if step == self.num_steps:
            return {"consumed": self.num_samples}
        return {"consumed": self.start + self._deal.num_dealt(step)}

    def at(self, progress: Mapping[str, Any]) -> Plan:
        """Return the plan of the rest of the epoch after the progress that another plan of this order made."""
        consumed = whole_number("consumed", progress["consumed"], least=0, most=self.num_samples)
        return replace(self, start=consumed, costs=self._even)

    def _checked_rank(self, rank: int) -> int:
        return whole_number("rank", rank, least=0, most=self.world_size - 1)

    def _order(self, epoch: int) -> Order:
        epoch = whole_number("epoch", epoch, least=0, most=LARGEST_SEED)
        return make_order(self.num_samples, fold(self.seed, epoch) if self.shuffle else None)


def checked_shuffle(shuffle: bool) -> bool:
    """Return `shuffle` if it is a boolean: a seed or a generator passed by mistake would count as true."""
    if not isinstance(shuffle, bool):
        raise InputError(f"shuffle must be True or False, got {shuffle!r}")
    return shuffle


def checked_steps(of: int, first_step: int, num_steps: int | None) -> tuple[int, int]:
    """Return the first step and the number of steps of a part of `of` steps."""
    first_step = whole_number("first_step", first_step, least=0, most=of)
    left = of - first_step
    if num_steps is None:
        return first_step, left
    return first_step, whole_number("num_steps", num_steps, least=0, most=left)
