"""Which rank gets which pack at which step: packs of about the same cost side by side, in steps of random order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from paceline.balance.kernels import heaviest_first, members_of
from paceline.compiled import extension
from paceline.plan.order import Ids
from paceline.plan.packs.pack_forms import COST_BITS, PackForms
from paceline.plan.packs.pieces import Narrow, narrowed
from paceline.plan.shuffle_keys import fold, random_words

_ALIKE = 6  # bits: packs whose costs differ by less than a 64th count as equal, so that each epoch groups them anew
_OF_COSTS, _OF_ROWS, _OF_RANKS = range(3)  # tell apart the keys of one layout


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackLayout:
    """The steps of an epoch, or of what is left of one.

    Attributes:
        grid: The packs of all full steps: (step, pack of the step, rank).
        closing: The packs that do not fill a step, for a last one: the lightest of all, in no order.
    """

    grid: Narrow
    closing: Ids

    def remaining(self, first_step: int) -> Ids:
        """Return the packs from a step on."""
        return np.concatenate([self.grid[first_step:].reshape(-1).astype(np.int64), self.closing])


def lay_out_packs(packs: Ids, costs: Narrow, *, world_size: int, packs_per_step: int, key: int | None) -> PackLayout:
    """Lay packs out in steps.

    Args:
        packs: The packs to lay out.
        costs: What each of all packs costs.
        world_size: Ranks.
        packs_per_step: Packs of each rank and step.
        key: Of the shuffle. Without a key the heaviest come first.
    """
    packs = np.sort(packs)
    packs = packs[heaviest_first(costs[packs].astype(np.int64))]
    num_full = packs.size // (world_size * packs_per_step)
    size = num_full * world_size * packs_per_step
    full, closing = packs[:size], packs[size:]
    if key is not None:
        full = full[heaviest_first(_blurred(costs[full].astype(np.int64), fold(key, _OF_COSTS)))]
    rows = full.reshape(-1, world_size)  # each of about the same cost
    if key is not None and len(rows):
        rows = rows[_mixed(len(rows), fold(key, _OF_ROWS))]
        words = random_words(fold(key, _OF_RANKS), np.arange(size, dtype=np.uint64))
        rows = np.take_along_axis(rows, np.argsort(words.reshape(rows.shape), axis=1, kind="stable"), axis=1)
    grid = narrowed(rows.reshape(num_full, packs_per_step, world_size), costs.size)
    return PackLayout(grid=grid, closing=closing)


def _blurred(costs: Ids, key: int) -> Ids:
    """Lower each cost by a random part of a 64th, then order equal ones by chance."""
    words = random_words(key, np.arange(costs.size, dtype=np.uint64)).astype(np.int64)
    less = ((costs >> _ALIKE) * (words >> 10)) >> 22
    spare = 62 - COST_BITS
    return ((costs - less) << spare) | (words >> (32 - spare))


def _mixed(num_rows: int, key: int) -> Ids:
    """Return a random order of rows that come by cost, so that every stretch of it has heavy and light ones alike.

    Neighbours are sent to different stretches: of each run of rows one to each. Within a stretch the order is random.
    """
    num_stretches = math.isqrt(num_rows)
    rows = np.arange(-(-num_rows // num_stretches) * num_stretches, dtype=np.int64)  # the last run may lack some
    words = random_words(key, np.arange(2 * rows.size, dtype=np.uint64)).reshape(2, -1)
    stretch_of = np.empty_like(rows)
    stretch_of[np.lexsort((words[0], rows // num_stretches))] = rows % num_stretches
    return np.lexsort((words[1, :num_rows], stretch_of[:num_rows]))


def spread_packs(
    forms: PackForms, kept: list[Narrow], lengths: list[Ids], *, num_packs: int, max_tokens: int
) -> list[Narrow]:
    """Spread packs that do not fill a step over all packs of it, so that every rank has its share.

    Args:
        forms: All packs.
        kept: The places of each pack that is left.
        lengths: The lengths of the pieces at these places.
        num_packs: Packs of the step, over all ranks.
        max_tokens: Tokens of a pack.
    """
    places, of_pieces = np.concatenate(kept), np.concatenate(lengths)
    most = forms.most_pieces
    pack_of = spread(of_pieces, forms.costs_of(of_pieces), num_packs, max_tokens=max_tokens, most=most)
    if pack_of is None:  # too tightly packed to be spread
        return kept + [places[:0]] * (num_packs - len(kept))
    members, ends = members_of(pack_of, np.ones(places.size, dtype=np.bool_), num_packs)
    return np.split(places[members], ends[:-1])


def spread(lengths: Ids, costs: Ids, num_packs: int, *, max_tokens: int, most: int) -> Ids | None:
    """Give each piece, the heaviest first, to the lightest pack that has room; None if a piece finds no room.

    Pieces that cost nothing go to the packs with the fewest pieces.

    >>> spread(np.array([4, 3, 2, 1]), np.array([4, 3, 2, 1]), 2, max_tokens=6, most=3).tolist()
    [0, 1, 1, 0]
    """
    order = heaviest_first(costs)
    lengths, costs = np.ascontiguousarray(lengths, dtype=np.int64), np.ascontiguousarray(costs, dtype=np.int64)
    pack_of = np.empty(lengths.size, dtype=np.int64)
    has_room = extension.spread_pieces(lengths, costs, order, num_packs, max_tokens, most, pack_of)
    return pack_of if has_room else None
