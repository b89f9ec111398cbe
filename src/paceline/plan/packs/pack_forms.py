"""Packs before samples are in them: which lengths share a pack. They are formed once, and serve every epoch.

An epoch only decides which of the pieces of one length takes which of that length's places, so packs, steps and counts
are the same in each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.balance import whole_costs
from paceline.balance.kernels import members_of, sums_of
from paceline.compiled import extension
from paceline.errors import InputError
from paceline.plan.order import Ids, make_order
from paceline.plan.packs.pieces import Narrow, narrowed

PackCost = Callable[[Any], Any]  # an array of lengths -> an array of costs

COST_BITS = 31  # the heaviest pack's cost is scaled to this number of bits
_FINEST = 1 << 20  # units that the room of a pack is counted in; a larger budget is counted in larger units
_SHARES_KEPT = (0.0, 0.03, 0.1)  # of all tokens: the shortest pieces that have this share are kept to fill packs
_FULL_ENOUGH = 0.9975


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackForms:
    """Packs as places for lengths.

    Attributes:
        places: Pack after pack, the place that each of its pieces has among all pieces by length.
        ends: Where the places of each pack end.
        costs: What each pack costs, in units of its own.
        by_length: The cost of each distinct length, rising, in units that add up for any pack: (length, cost).
        most_pieces: Pieces of the pack that has most of them.
    """

    places: Narrow
    ends: Narrow
    costs: Narrow
    by_length: tuple[Ids, Ids]
    most_pieces: int

    @property
    def num_packs(self) -> int:
        """Packs in all."""
        return int(self.ends.size)

    def sizes(self) -> Ids:
        """Return the number of pieces of each pack."""
        ends: Ids = self.ends.astype(np.int64)
        return np.diff(ends, prepend=0)

    def places_of(self, pack: int) -> Narrow:
        """Return the places of one pack."""
        return self.places[self.ends[pack - 1] if pack else 0 : self.ends[pack]]

    def costs_of(self, lengths: Any) -> Ids:
        """Return what pieces of these lengths cost."""
        distinct, costs = self.by_length
        of_pieces: Ids = costs[np.searchsorted(distinct, lengths)]
        return of_pieces


def make_forms(rising: Ids, max_tokens: int, *, cost: PackCost | None, key: int | None) -> PackForms:
    """Form packs.

    Args:
        rising: The lengths of all pieces, from the shortest to the longest.
        max_tokens: Tokens of a pack.
        cost: What pieces of these lengths cost; the length itself if not given.
        key: Of the shuffle. Without a key the longest are packed first.
    """
    line, pack_of, num_packs = _packed(rising, max_tokens, key)
    members, ends = members_of(pack_of, np.ones(pack_of.size, dtype=np.bool_), num_packs)
    most = int(np.diff(ends, prepend=0).max())
    by_length = _length_costs(rising, cost, most)
    distinct, costs = by_length
    sums = sums_of(pack_of, costs[np.searchsorted(distinct, rising[line])], num_packs)
    bits = int(sums.max()).bit_length()
    sums = sums << (COST_BITS - bits) if bits <= COST_BITS else sums >> (bits - COST_BITS)
    return PackForms(
        places=narrowed(line[members], rising.size),
        ends=narrowed(ends, rising.size),
        costs=narrowed(sums, (1 << COST_BITS) - 1),
        by_length=by_length,
        most_pieces=most,
    )


def _packed(rising: Ids, max_tokens: int, key: int | None) -> tuple[Ids, Ids, int]:
    """Return the order in which places are packed, the pack of each, and the number of packs.

    Packed in a random order, lengths mix in each pack as they do in the data. Where that leaves too much room, the
    shortest are kept for last, to fill it; and where there are too few short ones, the longest are packed first.
    """
    if key is not None:
        for share in _SHARES_KEPT:
            line = _kept_for_last(rising, share, key)
            pack_of, num_packs = best_fit(rising[line], max_tokens)
            if rising.sum() >= _FULL_ENOUGH * max_tokens * num_packs:
                return line, pack_of, num_packs
    falling = np.arange(rising.size - 1, -1, -1, dtype=np.int64)
    of_falling, fewest = best_fit(rising[falling], max_tokens)
    if key is not None and num_packs <= fewest:
        return line, pack_of, num_packs
    return falling, of_falling, fewest


def _kept_for_last(rising: Ids, share: float, key: int) -> Ids:
    """Return all places in random order, but the shortest that have a share of all tokens last, the longest first."""
    num_short = int(np.searchsorted(np.cumsum(rising), share * float(rising.sum()))) if share else 0
    long = np.arange(rising.size - num_short, dtype=np.int64)
    mixed = num_short + make_order(long.size, key).samples_at(long) if long.size else long
    return np.concatenate([mixed, np.arange(num_short - 1, -1, -1, dtype=np.int64)])


def best_fit(lengths: Ids, max_tokens: int) -> tuple[Ids, int]:
    """Put each piece in turn into the fullest pack that has room for it; return the pack of each, and their number.

    Pieces without tokens fit everywhere: they go to the packs with the fewest pieces, for rows are padded to the most.

    >>> best_fit(np.array([5, 4, 3, 1]), 8)[0].tolist()
    [0, 1, 0, 1]
    >>> best_fit(np.array([8, 0, 8, 0, 0]), 8)[0].tolist()
    [0, 0, 1, 0, 1]
    """
    is_empty = lengths == 0
    if is_empty.any():
        pack_of = np.empty(lengths.size, dtype=np.int64)
        pack_of[~is_empty], num_packs = best_fit(lengths[~is_empty], max_tokens)
        num_packs = max(1, num_packs)
        counts = np.bincount(pack_of[~is_empty], minlength=num_packs)
        pack_of[is_empty] = _fewest_first(counts, int(is_empty.sum()))
        return pack_of, num_packs
    unit = -(-max_tokens // _FINEST)
    room = max_tokens // unit
    if unit > 1:  # rounded up, so that no pack is over the budget; a piece that fills a pack still does
        lengths = np.minimum(-(-lengths // unit), room)
    pack_of = np.empty(lengths.size, dtype=np.int64)
    return pack_of, extension.best_fit(np.ascontiguousarray(lengths), room, pack_of)


def _fewest_first(counts: Ids, num_more: int) -> Ids:
    """Return a pack for each of some more pieces, so that the packs with the fewest pieces get the most of them."""
    rising = np.sort(counts)
    # if the first k packs are filled up to the count of the next one, that takes so many pieces
    needed = rising * np.arange(rising.size) - np.concatenate([[0], np.cumsum(rising)[:-1]])
    num_filled = int(np.searchsorted(needed, num_more, side="right"))
    level = (int(rising[:num_filled].sum()) + num_more) // num_filled
    room = np.maximum(level - counts, 0)
    spare = num_more - int(room.sum())
    room[np.flatnonzero(counts <= level)[:spare]] += 1
    return np.repeat(np.arange(counts.size), room)


def _length_costs(rising: Ids, cost: PackCost | None, most: int) -> tuple[Ids, Ids]:
    """Return the distinct lengths and what each costs, so scaled that a pack of `most` of them adds up."""
    distinct = rising[np.flatnonzero(np.diff(rising, prepend=-1))]
    if cost is None:
        return distinct, distinct
    given = np.asarray(cost(distinct.copy()))
    if given.shape != distinct.shape:
        raise InputError(
            f"cost must return one number for each length: it got {distinct.size} lengths, and returned an array of "
            f"shape {given.shape}"
        )
    costs, _ = whole_costs(given, "costs of lengths", added_up=False)
    excess = (int(costs.max()) * most).bit_length() - 62
    return distinct, costs >> max(0, excess)
