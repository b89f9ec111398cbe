"""Packs of one step, where lengths are known only once the samples are there: which rank gets what in which pack."""

from __future__ import annotations

import numpy as np

from paceline.balance.kernels import heaviest_first, members_of, sums_of
from paceline.plan.order import Ids
from paceline.plan.packs.pack_forms import best_fit
from paceline.plan.packs.pack_layout import spread

_EVEN = 1.02  # packs whose costs differ by less go to the ranks that have most of them already


def pack_ranks(lengths: Ids, costs: Ids, rank_of: Ids, *, world_size: int, max_tokens: int) -> list[list[Ids]]:
    """Return the samples of each pack, [rank][pack]: every rank has the same number of packs, of about the same cost.

    >>> lengths = np.array([6, 2, 5, 3, 1])
    >>> packs = pack_ranks(lengths, lengths**2, np.array([0, 0, 0, 0, 1]), world_size=2, max_tokens=9)
    >>> [[pack.tolist() for pack in of_rank] for of_rank in packs]
    [[[0, 1]], [[2, 3, 4]]]

    Args:
        lengths: Tokens of each sample of all ranks, none above the budget.
        costs: What each costs.
        rank_of: The rank that has it.
        world_size: Ranks.
        max_tokens: Tokens of a pack.
    """
    falling = heaviest_first(lengths)
    of_falling, fewest = best_fit(lengths[falling], max_tokens)
    num_rows = max(1, -(-fewest // world_size))
    num_packs = num_rows * world_size
    pack_of = spread(lengths, costs, num_packs, max_tokens=max_tokens, most=max(1, lengths.size))
    if pack_of is None:  # too tight to be spread: packs stay as full as they are, and some may be empty
        pack_of = np.empty_like(of_falling)
        pack_of[falling] = of_falling
    loads = sums_of(pack_of, costs, num_packs)
    members, ends = members_of(pack_of, np.ones(pack_of.size, dtype=np.bool_), num_packs)
    packs = np.split(members, ends[:-1])
    tokens = np.zeros((num_packs, world_size), dtype=np.int64)  # what each rank has of each pack already
    np.add.at(tokens, (pack_of, rank_of), lengths)
    rows = heaviest_first(loads).reshape(num_rows, world_size)
    sums = np.zeros(world_size, dtype=np.int64)
    of_ranks: list[list[Ids]] = [[] for _ in range(world_size)]
    for row in rows:
        for pack, rank in zip(row.tolist(), _ranks_for(loads[row], tokens[row], sums), strict=True):
            of_ranks[rank].append(packs[pack])
            sums[rank] += loads[pack]
    return of_ranks


def _ranks_for(loads: Ids, tokens: Ids, sums: Ids) -> list[int]:
    """Return the rank for each pack of a row, the heaviest first: where its tokens are, or where least work is."""
    if sums.max() - sums.min() + loads[0] > _EVEN * loads[-1]:
        by_work: list[int] = np.argsort(sums, kind="stable").tolist()
        return by_work
    ranks, taken = [-1] * loads.size, np.zeros(loads.size, dtype=np.bool_)
    for pack in heaviest_first(tokens.max(1)).tolist():
        rank = int(np.where(taken, -1, tokens[pack]).argmax())
        ranks[pack], taken[rank] = rank, True
    return ranks
