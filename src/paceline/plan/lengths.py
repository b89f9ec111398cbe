"""Plans by length: token budgets and length buckets, with equal steps on every rank.

Every rank plans the same from the same array of lengths; nothing communicates.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paceline.errors import EmptyPlanError, InputError, whole_number
from paceline.plan.bucket_layout import BucketLayout, BucketLine, lay_out
from paceline.plan.buckets import make_buckets
from paceline.plan.deal import LARGEST_SIZE, Deal
from paceline.plan.notebook_plan import plan_html
from paceline.plan.order import Ids, Order, make_order
from paceline.plan.plan import LARGEST_SEED, checked_steps
from paceline.plan.shuffle_keys import fold
from paceline.plan.shuffled_plan import ShuffledPlan
from paceline.plan.tail import Summary, Tail, TailLike

_OF_STEPS = 1 << 63  # tells the keys for the order of steps from those for the order of samples


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _EpochPart:
    """A part of an epoch with one number of ranks.

    `history` holds, for each earlier part, its number of ranks and the samples it consumed.
    """

    world_size: int
    line: BucketLine
    layout: BucketLayout
    history: tuple[tuple[int, int], ...] = ()
    first_step: int = 0


class LengthPlan(ShuffledPlan):
    """The plan of an epoch whose samples have known lengths.

    Samples of similar length form a bucket. At each step all ranks take the same number of rows from the same
    bucket: the most that the budget allows for its longest sample. So steps are equal, each rank stays within
    `max_tokens` (even when padded), and ranks have about the same work. Each epoch shuffles the samples within
    their buckets; the order of buckets is shuffled by the seed and is the same in each epoch.

    >>> plan = LengthPlan([4, 9, 3, 8, 4, 5, 2, 3], world_size=2, max_tokens=10, shuffle=False)
    >>> plan.rows(rank=0).tolist()
    [[6, 7], [4, -1], [3, -1]]
    >>> plan.rows(rank=1).tolist()
    [[2, 0], [5, -1], [1, -1]]

    Args:
        lengths: One whole number per sample.
        world_size: Ranks that share the epoch.
        max_tokens: Limit for rows times longest sample, for each rank and step. A longer sample is an error.
        batch_size: Limit for rows, for each rank and step. Alone, it makes plain length buckets.
        tail: What becomes of the remainder, which only the bucket of the longest samples has.
        shuffle: Whether samples and buckets are shuffled.
        seed: Chooses the family of orders.
        spread: Within a bucket the longest sample exceeds the shortest by at most this share. A smaller one means
            less padding, a larger one better mixed batches.
        boundaries: The longest length of each bucket, rising, instead of `spread`.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        *,
        world_size: int,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        tail: TailLike = Tail.PAD,
        shuffle: bool = True,
        seed: int = 0,
        spread: float = 0.1,
        boundaries: Sequence[int] | None = None,
    ) -> None:
        super().__init__(shuffle=shuffle, seed=seed)
        self._tail = Tail.of(tail)
        self._buckets = make_buckets(
            lengths,
            max_tokens=max_tokens,
            batch_size=batch_size,
            spread=spread,
            boundaries=boundaries,
        )
        limits = (self._buckets.offsets.tolist(), self._buckets.batch_sizes.tolist())
        self._sign(self._buckets.digest, self._shuffle, self._seed, self._buckets.has_row_limit, *limits)
        self._part = self._whole_epoch(world_size)
        self._check_steps()

    @property
    def tail(self) -> Tail:
        """What becomes of the remainder."""
        return self._tail

    @property
    def world_size(self) -> int:
        """Ranks that share the epoch."""
        return self._part.world_size

    @property
    def start(self) -> int:
        """Samples of the epoch that were consumed before this plan begins."""
        here = int(self._part.layout.num_dealt()[self._part.first_step])
        return here + sum(consumed for _, consumed in self._part.history)

    @property
    def num_samples(self) -> int:
        """Samples of the whole epoch."""
        return self._buckets.num_samples

    @property
    def num_steps(self) -> int:
        """Steps of one epoch, the same on every rank."""
        return self._part.layout.num_steps - self._part.first_step

    @property
    def num_ids(self) -> int:
        """Sample ids run from 0 to one below this: here, the number of samples."""
        return self.num_samples

    @property
    def row_width(self) -> int:
        """Slots of one rank's row: the largest batch of any step."""
        return self._part.layout.row_width

    @property
    def fill(self) -> float:
        """The share of real tokens over a whole epoch of batches padded to their bucket's longest sample.

        >>> LengthPlan([8, 8, 8, 4], world_size=2, batch_size=2, spread=1).fill
        0.875
        """
        layout = self._whole_epoch(self.world_size).layout
        keeps_shape = self.tail in (Tail.PAD, Tail.REPEAT)
        rows = [deal.num_steps * deal.samples_per_step if keeps_shape else deal.num_used for deal in layout.deals]
        room = int((self._buckets.longest * np.array(rows)).sum())
        used = layout.summary(0).num_used / self.num_samples  # what is dropped counts as of average length
        return used * self._buckets.num_tokens / room if room else 1.0

    def summary(self) -> Summary:
        """Count steps and what is used, dropped, padded and repeated, over all ranks."""
        return self._part.layout.summary(self._part.first_step)

    def _repr_html_(self) -> str:
        """Return it as a table, for notebooks."""
        return plan_html(self)

    def batch_size_of(self, step: int) -> int:
        """Return the rows of one rank's batch at a step, with padding: the same on every rank."""
        return self._deal_of(step)[0].batch_size

    def longest_of(self, step: int) -> int:
        """Return the longest length that a step may hold: batches padded to it are alike on every rank."""
        step = whole_number("step", step, least=0, most=self.num_steps - 1)
        return int(self._buckets.longest[self._bucket_of(step)])

    def num_real(self, step: int, *, rank: int | None = None) -> int:
        """Return how many rows of a step hold a sample: on one rank, or on all together."""
        deal, step_in_bucket = self._deal_of(step)
        if rank is None:
            return deal.num_rows(step_in_bucket)
        return deal.num_real(whole_number("rank", rank, least=0, most=self.world_size - 1), step_in_bucket)

    def rows(self, rank: int, epoch: int = 0, first_step: int = 0, num_steps: int | None = None) -> Ids:
        """Return the sample ids of one rank: (step, slot), -1 where there is no sample.

        Slots beyond the batch size of a step are -1 too; `batch_size_of` says where it ends.
        """
        rank = whole_number("rank", rank, least=0, most=self.world_size - 1)
        epoch = whole_number("epoch", epoch, least=0, most=LARGEST_SEED)
        first_step, num_steps = checked_steps(self.num_steps, first_step, num_steps)
        part = self._part
        positions = part.layout.positions(rank, part.first_step + first_step, num_steps)
        rows = np.full(positions.shape, -1, dtype=np.int64)
        real = positions >= 0
        rows[real] = self._samples_at(part.line.indices_at(positions[real]), epoch)
        return rows

    def where(self, sample: int, epoch: int = 0) -> tuple[int, int, int] | None:
        """Return the (rank, step, slot) that sees a sample, or None if this plan does not use it."""
        sample = whole_number("sample", sample, least=0, most=self.num_samples - 1)
        epoch = whole_number("epoch", epoch, least=0, most=LARGEST_SEED)
        # backward through `rows`: from the sample to its index before and after the shuffle, to the line, to the step
        sorted_index = int(np.flatnonzero(self._buckets.samples == sample)[0])
        bucket = int(np.searchsorted(self._buckets.offsets, sorted_index, side="right")) - 1
        offset = int(self._buckets.offsets[bucket])
        order = self._order_in(bucket, epoch)
        shuffled_index = offset + int(order.positions_of(np.array([sorted_index - offset]))[0])
        position = self._part.line.position_of(shuffled_index)
        if position is None or (rank_step_slot := self._part.layout.where(position, self._part.first_step)) is None:
            return None
        rank, step, slot = rank_step_slot
        return rank, step - self._part.first_step, slot

    def resume(self, consumed: int, world_size: int | None = None) -> LengthPlan:
        """Return the plan of the rest of the epoch after `consumed` samples of this plan.

        `consumed` must end a step, because steps of several lengths cannot be taken in part. With the same number
        of ranks the steps stay as they were; with another number, the rest is laid out again.
        """
        part = self._part
        dealt = part.layout.num_dealt() - part.layout.num_dealt()[part.first_step]
        consumed = whole_number("consumed", consumed, least=0, most=int(dealt[-1]))
        step = part.first_step + int(np.searchsorted(dealt[part.first_step :], consumed))
        if dealt[step] != consumed:
            raise InputError(
                f"consumed must end a step, got {consumed}: steps end at {dealt[step - 1]} and at {dealt[step]} samples"
            )
        rest = copy.copy(self)
        if world_size is not None:
            world_size = whole_number("world_size", world_size, least=1, most=LARGEST_SIZE)
        if world_size is None or world_size == self.world_size:
            rest._part = replace(part, first_step=step)
        else:
            rest._part = self._with_ranks(world_size, step)
        rest._check_steps()
        return rest

    def progress(self, step: int) -> dict[str, Any]:
        """Return what a checkpoint must hold after `step` steps of this plan.

        It grows only when the number of ranks changes within an epoch.
        """
        step = whole_number("step", step, least=0, most=self.num_steps)
        here = int(self._part.layout.num_dealt()[self._part.first_step + step])
        history = [*self._part.history, (self.world_size, here)]
        spent = self.num_samples if step == self.num_steps else sum(part for _, part in history)
        return {"consumed": spent, "history": [list(part) for part in history]}

    def at(self, progress: Mapping[str, Any]) -> LengthPlan:
        """Return the plan of the rest of the epoch after the progress that another plan of this order made."""
        if progress["consumed"] == self.num_samples:
            raise EmptyPlanError(nothing_left(self.num_samples))
        parts = _checked_history(progress)
        following = [ranks for ranks, _ in parts[1:]] + [self.world_size]
        plan = copy.copy(self)
        plan._part = self._whole_epoch(parts[0][0])
        for (_, consumed), ranks in zip(parts, following, strict=True):
            plan = plan.resume(consumed, world_size=ranks)
        return plan

    def _whole_epoch(self, world_size: int) -> _EpochPart:
        line = BucketLine(starts=np.array([0]), sizes=np.array([self.num_samples]))
        return self._lay_out(world_size, line, self._buckets.sizes(), ())

    def _with_ranks(self, world_size: int, step: int) -> _EpochPart:
        """Lay out what is left after `step` steps of this part for another number of ranks."""
        part = self._part
        starts, ends = part.layout.left_after(step)
        history = (*part.history, (part.world_size, int(part.layout.num_dealt()[step])))
        return self._lay_out(world_size, part.line.cut(starts, ends), ends - starts, history)

    def _lay_out(
        self, world_size: int, line: BucketLine, sizes: Ids, history: tuple[tuple[int, int], ...]
    ) -> _EpochPart:
        world_size = whole_number("world_size", world_size, least=1, most=LARGEST_SIZE)
        spent = sum(consumed for _, consumed in history)
        batch_sizes = self._buckets.batch_sizes
        if not self._buckets.has_row_limit:  # a budget can be far larger than the data
            batch_sizes = np.minimum(batch_sizes, max(1, -(-int(sizes.sum()) // world_size)))
        layout = lay_out(
            sizes,
            batch_sizes,
            world_size=world_size,
            tail=self.tail,
            key=fold(self.seed, _OF_STEPS, spent) if self.shuffle else None,
        )
        return _EpochPart(world_size=world_size, line=line, layout=layout, history=history)

    def _check_steps(self) -> None:
        if self.num_steps == 0:
            if self.summary().num_dropped == 0:
                raise EmptyPlanError(nothing_left(self.num_samples))
            raise EmptyPlanError(
                f"no step can be made with tail={self.tail.value!r}: the rest of the "
                f"{self.num_samples} samples does not fill one step of {self.world_size} ranks; "
                f"use tail='pad', fewer ranks or a smaller budget"
            )

    def _bucket_of(self, step: int) -> int:
        return int(self._part.layout.bucket_of_step[self._part.first_step + step])

    def _deal_of(self, step: int) -> tuple[Deal, int]:
        """Return the deal of a step's bucket, and the step's number within that bucket."""
        step = whole_number("step", step, least=0, most=self.num_steps - 1)
        step_in_bucket = int(self._part.layout.step_in_bucket[self._part.first_step + step])
        return self._part.layout.deals[self._bucket_of(step)], step_in_bucket

    def _samples_at(self, indices: Ids, epoch: int) -> Ids:
        """Return the samples that stand at these indices into the buckets in this epoch."""
        buckets = np.searchsorted(self._buckets.offsets, indices, side="right") - 1
        shuffled = np.empty_like(indices)
        for bucket in np.unique(buckets).tolist():
            here = buckets == bucket
            offset = self._buckets.offsets[bucket]
            order = self._order_in(bucket, epoch)
            shuffled[here] = offset + order.samples_at(indices[here] - offset)
        return self._buckets.samples[shuffled]

    def _order_in(self, bucket: int, epoch: int) -> Order:
        size = int(self._buckets.offsets[bucket + 1] - self._buckets.offsets[bucket])
        return make_order(size, fold(self.seed, epoch, bucket) if self.shuffle else None)


def nothing_left(num_samples: int) -> str:
    """Return why an epoch that is over cannot be resumed."""
    return f"nothing is left of the epoch: all {num_samples} samples are consumed; continue with the next epoch"


def _checked_history(progress: Mapping[str, Any]) -> list[tuple[int, int]]:
    history = progress["history"]
    is_list = isinstance(history, Sequence) and len(history) > 0
    if not is_list or not all(isinstance(part, Sequence) and len(part) == 2 for part in history):
        raise InputError(f"the history of a plan by length is a list of (ranks, samples), got {history!r}")
    parts = [
        (whole_number("ranks of the history", ranks, least=1), whole_number("its samples", consumed, least=0))
        for ranks, consumed in history
    ]
    if progress["consumed"] != sum(consumed for _, consumed in parts):
        raise InputError(f"consumed {progress['consumed']!r} is not the sum of the history {history!r}")
    return parts
