"""The steps of a plan by length: buckets cut into steps of one bucket each, and the order of those steps.

All ranks take a step from the same bucket, so their batches are alike. What does not fill a step of its bucket
moves up to the next longer one; only the longest bucket has a remainder, which the tail decides on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from paceline.plan.deal import Deal
from paceline.plan.order import Ids, make_order
from paceline.plan.tail import Summary, Tail


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """The places of the buckets that are still to be dealt, joined end to end.

    Run i holds `sizes[i]` places from place `starts[i]` on. Before anything is consumed there is one run; each
    change of the number of ranks within an epoch cuts the runs once more.
    """

    starts: Ids
    sizes: Ids

    def places_at(self, positions: Ids) -> Ids:
        """Return the places that stand at positions of the line."""
        ends = np.cumsum(self.sizes)
        run = np.searchsorted(ends, positions, side="right")
        return positions - (ends[run] - self.sizes[run]) + self.starts[run]

    def position_of(self, place: int) -> int | None:
        """Return where a place stands on the line, or None if it is consumed."""
        run = int(np.searchsorted(self.starts, place, side="right")) - 1
        if run < 0 or place >= self.starts[run] + self.sizes[run]:
            return None
        return int(self.sizes[:run].sum() + place - self.starts[run])

    def cut(self, begins: Ids, ends: Ids) -> Line:
        """Keep only the positions from each begin to its end, in order."""
        edges = np.concatenate([[0], np.cumsum(self.sizes)])
        low = np.maximum(begins[:, None], edges[:-1])  # (cut, run)
        high = np.minimum(ends[:, None], edges[1:])
        kept = low < high
        starts = low - edges[:-1] + self.starts
        return Line(starts=starts[kept], sizes=(high - low)[kept])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Which step takes which positions of the line.

    Attributes:
        deals: The deal of each bucket's positions to the ranks.
        begins: Where each bucket begins on the line.
        bucket_of_step: The bucket of each step.
        turn_of_step: How many steps of the same bucket come before it.
    """

    deals: tuple[Deal, ...]
    begins: Ids
    bucket_of_step: Ids
    turn_of_step: Ids

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
        """Return where on the line each bucket's untouched positions begin and end after `step` steps."""
        turns = np.bincount(self.bucket_of_step[:step], minlength=len(self.deals)).tolist()
        dealt = _array(deal.num_dealt(turn) for deal, turn in zip(self.deals, turns, strict=True))
        return self.begins + dealt, self.begins + _array(deal.num_samples for deal in self.deals)

    def positions(self, rank: int, first_step: int, num_steps: int) -> Ids:
        """Return the positions of one rank's rows on the line: (step, slot), -1 where there is none."""
        part = slice(first_step, first_step + num_steps)
        bucket = self.bucket_of_step[part, None]
        batch_sizes = _array(deal.batch_size for deal in self.deals)[bucket]
        slots = np.arange(self.row_width)
        rows = self.turn_of_step[part, None] * batch_sizes + slots
        positions = rows * self.deals[0].world_size + rank
        sizes = _array(deal.num_samples for deal in self.deals)[bucket]
        used = _array(deal.num_used for deal in self.deals)[bucket]
        if self.deals[0].tail is Tail.REPEAT:
            positions %= np.maximum(sizes, 1)
        real = (slots < batch_sizes) & (positions < used)
        return np.where(real, positions + self.begins[bucket], -1)

    @property
    def row_width(self) -> int:
        """Slots of one rank's row: the largest batch of any step."""
        used: list[int] = np.unique(self.bucket_of_step).tolist()
        return max(self.deals[bucket].batch_size for bucket in used)

    def place_of(self, position: int, first_step: int) -> tuple[int, int, int] | None:
        """Return (rank, step, slot) of a position of the line from `first_step` on, or None if no rank gets it."""
        bucket = int(np.searchsorted(self.begins, position, side="right")) - 1
        deal = self.deals[bucket]
        turn_of = position - int(self.begins[bucket])
        while (found := deal.place_of(turn_of)) is not None:
            rank, turn, slot = found
            is_it = (self.bucket_of_step == bucket) & (self.turn_of_step == turn)
            step = int(np.flatnonzero(is_it)[0])
            if step >= first_step:
                return rank, step, slot
            turn_of += deal.num_samples  # where the tail repeats, it comes again
        return None


def lay_out(sizes: Ids, batch_sizes: Ids, *, world_size: int, tail: Tail, key: int | None) -> Layout:
    """Cut buckets of these sizes into steps, ordered by the key; without a key, short buckets first."""
    deals, begins = _cascade(sizes, batch_sizes, world_size, tail)
    full = [deal.num_samples // deal.samples_per_step for deal in deals]
    labels = np.repeat(np.arange(len(deals)), full)
    labels = labels[make_order(labels.size, key).samples_at(np.arange(labels.size))]
    # a short step can only be the longest bucket's last: it closes the epoch
    short = deals[-1].num_steps - full[-1]
    labels = np.concatenate([labels, np.full(short, len(deals) - 1, dtype=labels.dtype)])
    by_bucket = np.argsort(labels, kind="stable")
    steps = np.bincount(labels, minlength=len(deals))
    turns = np.empty(labels.size, dtype=np.int64)
    turns[by_bucket] = np.arange(labels.size) - np.repeat(np.cumsum(steps) - steps, steps)
    return Layout(deals=deals, begins=begins, bucket_of_step=labels, turn_of_step=turns)


def _cascade(sizes: Ids, batch_sizes: Ids, world_size: int, tail: Tail) -> tuple[tuple[Deal, ...], Ids]:
    deals, begins, begin, end = [], [], 0, 0
    for bucket, size in enumerate(sizes.tolist()):
        end += size
        batch_size = int(batch_sizes[bucket])
        taken = end - begin  # with what moved up from shorter buckets
        if bucket < sizes.size - 1:
            taken -= taken % (world_size * batch_size)
        deals.append(Deal(num_samples=taken, world_size=world_size, batch_size=batch_size, tail=tail))
        begins.append(begin)
        begin += taken
    return tuple(deals), _array(begins)


def _array(numbers: Iterable[int]) -> Ids:
    return np.fromiter(numbers, dtype=np.int64)
