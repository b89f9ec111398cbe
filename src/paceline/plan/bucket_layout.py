"""The steps of a plan by length: buckets cut into steps of one bucket each, and the order of those steps.

All ranks take a step from the same bucket, so their batches have the same shape. What does not fill a step of its
bucket moves up to the next longer one; only the longest bucket has a remainder, which is left to the tail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from paceline.plan.deal import Deal
from paceline.plan.order import Ids, make_order
from paceline.plan.tail import Summary, Tail


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BucketLine:
    """What is still to be dealt of all buckets, joined end to end: a position on the line -> an index into the buckets.

    An index counts through all buckets, the shortest lengths first. Run i of the line holds `sizes[i]` indices from
    `starts[i]` on. Before anything is consumed there is one run; each change of the number of ranks within an epoch
    cuts the runs once more.
    """

    starts: Ids
    sizes: Ids

    def indices_at(self, positions: Ids) -> Ids:
        """Return the indices that stand at positions of the line."""
        ends = np.cumsum(self.sizes)
        run = np.searchsorted(ends, positions, side="right")
        return positions - (ends[run] - self.sizes[run]) + self.starts[run]

    def position_of(self, index: int) -> int | None:
        """Return where an index stands on the line, or None if it is consumed."""
        run = int(np.searchsorted(self.starts, index, side="right")) - 1
        if run < 0 or index >= self.starts[run] + self.sizes[run]:
            return None
        return int(self.sizes[:run].sum() + index - self.starts[run])

    def cut(self, first: Ids, ends: Ids) -> BucketLine:
        """Keep only the positions from first[i] up to ends[i], for each i, in order."""
        edges = np.concatenate([[0], np.cumsum(self.sizes)])  # of the runs, as positions of the line
        low = np.maximum(first[:, None], edges[:-1])  # (cut, run): where the two overlap
        high = np.minimum(ends[:, None], edges[1:])
        overlaps = low < high
        starts = low - edges[:-1] + self.starts
        return BucketLine(starts=starts[overlaps], sizes=(high - low)[overlaps])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BucketLayout:
    """Which step takes which positions of the line.

    Attributes:
        deals: The deal of each bucket's positions to the ranks.
        starts: Where each bucket starts on the line.
        bucket_of_step: The bucket of each step.
        step_in_bucket: For each step, how many steps of the same bucket come before it.
    """

    deals: tuple[Deal, ...]
    starts: Ids
    bucket_of_step: Ids
    step_in_bucket: Ids

    @property
    def num_steps(self) -> int:
        """Steps over all buckets."""
        return int(self.bucket_of_step.size)

    def num_dealt(self) -> Ids:
        """Samples dealt before each step and after the last: num_steps + 1 rising numbers."""
        per_step = _array(deal.samples_per_step for deal in self.deals)[self.bucket_of_step]
        dealt: Ids = np.concatenate([[0], np.cumsum(per_step)])
        return np.minimum(dealt, np.int64(sum(deal.num_used for deal in self.deals)))

    def summary(self, first_step: int) -> Summary:
        """Count what is done from `first_step` on."""
        dealt = self.num_dealt()
        tail = self.deals[-1].summary()  # the only bucket with a remainder
        return Summary(
            num_steps=self.num_steps - first_step,
            num_used=int(dealt[-1] - dealt[first_step]),
            num_dropped=tail.num_dropped,
            num_padded=tail.num_padded,
            num_repeated=tail.num_repeated,
        )

    def left_after(self, step: int) -> tuple[Ids, Ids]:
        """Return where on the line each bucket's untouched positions start and end after `step` steps."""
        num_steps = np.bincount(self.bucket_of_step[:step], minlength=len(self.deals)).tolist()  # made in each bucket
        dealt = _array(deal.num_dealt(made) for deal, made in zip(self.deals, num_steps, strict=True))
        return self.starts + dealt, self.starts + _array(deal.num_samples for deal in self.deals)

    def positions(self, rank: int, first_step: int, num_steps: int) -> Ids:
        """Return the positions of one rank's rows on the line: (step, slot), -1 where there is none."""
        part = slice(first_step, first_step + num_steps)
        bucket = self.bucket_of_step[part, None]
        batch_sizes = _array(deal.batch_size for deal in self.deals)[bucket]
        slots = np.arange(self.row_width)
        # `Deal.positions` for steps of several buckets at once; positions count from the start of each bucket
        rows = self.step_in_bucket[part, None] * batch_sizes + slots
        positions = rows * self.deals[0].world_size + rank
        sizes = _array(deal.num_samples for deal in self.deals)[bucket]
        used = _array(deal.num_used for deal in self.deals)[bucket]
        if self.deals[0].tail is Tail.REPEAT:
            positions %= np.maximum(sizes, 1)
        real = (slots < batch_sizes) & (positions < used)
        return np.where(real, positions + self.starts[bucket], -1)

    @property
    def row_width(self) -> int:
        """Slots of one rank's row: the largest batch of any step."""
        used: list[int] = np.unique(self.bucket_of_step).tolist()
        return max(self.deals[bucket].batch_size for bucket in used)

    def where(self, position: int, first_step: int) -> tuple[int, int, int] | None:
        """Return (rank, step, slot) of a position of the line from `first_step` on, or None if no rank gets it."""
        bucket = int(np.searchsorted(self.starts, position, side="right")) - 1
        deal = self.deals[bucket]
        position_in_bucket = position - int(self.starts[bucket])
        while (slot_in_bucket := deal.where(position_in_bucket)) is not None:
            rank, step_in_bucket, slot = slot_in_bucket
            is_it = (self.bucket_of_step == bucket) & (self.step_in_bucket == step_in_bucket)
            step = int(np.flatnonzero(is_it)[0])
            if step >= first_step:
                return rank, step, slot
            position_in_bucket += deal.num_samples  # if the tail repeats, the sample comes again
        return None


def lay_out(sizes: Ids, batch_sizes: Ids, *, world_size: int, tail: Tail, key: int | None) -> BucketLayout:
    """Cut buckets of these sizes into steps, ordered by the key; without a key, short buckets first."""
    deals, starts = _cascade(sizes, batch_sizes, world_size, tail)
    full = [deal.num_samples // deal.samples_per_step for deal in deals]
    labels = np.repeat(np.arange(len(deals)), full)  # the bucket of each full step
    labels = labels[make_order(labels.size, key).samples_at(np.arange(labels.size))]
    # a short step can only be the longest bucket's last: it closes the epoch
    short = deals[-1].num_steps - full[-1]
    labels = np.concatenate([labels, np.full(short, len(deals) - 1, dtype=labels.dtype)])
    by_bucket = np.argsort(labels, kind="stable")
    steps = np.bincount(labels, minlength=len(deals))
    step_in_bucket = np.empty(labels.size, dtype=np.int64)
    step_in_bucket[by_bucket] = np.arange(labels.size) - np.repeat(np.cumsum(steps) - steps, steps)
    return BucketLayout(deals=deals, starts=starts, bucket_of_step=labels, step_in_bucket=step_in_bucket)


def _cascade(sizes: Ids, batch_sizes: Ids, world_size: int, tail: Tail) -> tuple[tuple[Deal, ...], Ids]:
    """Deal each bucket in full steps; what is left over moves up to the next longer bucket."""
    deals, starts, start, end = [], [], 0, 0
    for bucket, size in enumerate(sizes.tolist()):
        end += size
        batch_size = int(batch_sizes[bucket])
        taken = end - start  # with what moved up from shorter buckets
        if bucket < sizes.size - 1:
            taken -= taken % (world_size * batch_size)
        deals.append(Deal(num_samples=taken, world_size=world_size, batch_size=batch_size, tail=tail))
        starts.append(start)
        start += taken
    return tuple(deals), _array(starts)


def _array(numbers: Iterable[int]) -> Ids:
    return np.fromiter(numbers, dtype=np.int64)
