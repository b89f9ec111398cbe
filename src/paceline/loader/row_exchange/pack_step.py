"""Packs for samples whose lengths are known only once they are there: every rank gets the same number of packs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from paceline.balance import whole_costs
from paceline.batch.batch import Batch
from paceline.comm import Comm
from paceline.errors import InputError, PacelineError, whole_number
from paceline.loader.agreement.first_message import gather_json
from paceline.loader.agreement.must_agree import MustAgree, check_agreement
from paceline.loader.row_exchange.batch_collectives import exchange
from paceline.plan.buckets import LARGEST_TOKENS, check_fits, checked_lengths
from paceline.plan.order import Ids
from paceline.plan.packs.pack_forms import PackCost
from paceline.plan.packs.step_packing import pack_ranks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepPacks:
    """The packs of one step, the same on every rank.

    Attributes:
        packs: Which samples each pack holds, [rank][pack]. A sample is named as `exchange` names it, by the rank that
            has it and its row there: `rank * batch_size + row`. An empty pack is one of padding.
        batch_size: Rows to which every rank pads its batch before samples move: no rank has more, before or after.
        loads: What the packs cost: (rank, pack).
        num_moved: Samples that change rank.
        moves: Where these go, each as (from rank, row, to rank, pack).
    """

    packs: tuple[tuple[Ids, ...], ...]
    batch_size: int
    loads: Ids
    num_moved: int
    moves: tuple[tuple[int, int, int, int], ...]

    @property
    def num_packs(self) -> int:
        """Packs of each rank: the same on all."""
        return len(self.packs[0])

    @property
    def max_over_mean(self) -> float:
        """The heaviest rank's cost over the mean."""
        of_ranks = self.loads.sum(1)
        return float(of_ranks.max() / of_ranks.mean()) if of_ranks.any() else 1.0

    def exchange(self, comm: Comm, batch: Batch) -> list[Batch]:
        """Move the samples of all ranks, and return the packs of this rank. All ranks call it.

        Args:
            comm: The ranks.
            batch: What this rank had when it passed its lengths, a row for each.

        Returns:
            A batch for each pack; one of padding has a single row that is not real.
        """
        groups = [np.concatenate(of_rank) for of_rank in self.packs]
        moved = exchange(comm, batch.pad_to(self.batch_size), groups)
        ends = np.cumsum([pack.size for pack in self.packs[comm.rank]]).tolist()
        parts = [torch.arange(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
        return [moved.select(rows) if rows.numel() else moved.emptied(1) for rows in parts]


def pack_step(
    comm: Comm,
    lengths: Any,
    *,
    max_tokens: int,
    cost: PackCost | None = None,
    device: torch.device | str = "cpu",
) -> StepPacks:
    """Decide how the samples that ranks have now are packed. All ranks call it, also one that has none.

    Every rank gets the same number of packs, so that all make the same calls; their costs are about the same, and where
    they are, samples stay where they are.

    >>> from paceline.comm.alone_comm import AloneComm
    >>> step = pack_step(AloneComm(), [5, 3, 6, 2], max_tokens=8)
    >>> [pack.tolist() for pack in step.packs[0]]
    [[2, 3], [0, 1]]

    Args:
        comm: The ranks.
        lengths: Tokens of each sample of this rank, or a function that returns them: if it raises, all ranks do.
        max_tokens: Tokens of a pack at the most, the same on every rank.
        cost: Returns what samples of given lengths cost, an array for an array; without it, each token costs the same.
        device: The device to send from: a carrier for GPUs carries nothing else.

    Raises:
        DisagreementError: On all ranks, if they differ in the budget, or one has lengths or costs that cannot be used.
    """
    own, problem = _own(lengths, max_tokens, cost)
    must_agree = MustAgree(chosen={"max_tokens": str(max_tokens)}, problem=problem)
    gathered = gather_json(comm, [must_agree.to_json(), *own], device)
    check_agreement([MustAgree.from_json(each[0]) for each in gathered])
    counts = [len(each[1]) for each in gathered]
    rank_of = np.repeat(np.arange(comm.world_size), counts)
    row_of = np.concatenate([np.arange(count) for count in counts])
    every_length = np.array([length for each in gathered for length in each[1]], dtype=np.int64)
    every_cost, _ = whole_costs([number for each in gathered for number in each[2]])
    packs = pack_ranks(every_length, every_cost, rank_of, world_size=comm.world_size, max_tokens=max_tokens)
    batch_size = max(1, *counts, *(sum(pack.size for pack in of_rank) for of_rank in packs))
    names = rank_of * batch_size + row_of
    moves = [
        (int(rank_of[sample]), int(row_of[sample]), rank, number)
        for rank, of_rank in enumerate(packs)
        for number, pack in enumerate(of_rank)
        for sample in pack.tolist()
        if rank_of[sample] != rank
    ]
    return StepPacks(
        packs=tuple(tuple(names[pack] for pack in of_rank) for of_rank in packs),
        batch_size=batch_size,
        loads=np.array([[every_cost[pack].sum() for pack in of_rank] for of_rank in packs], dtype=np.int64),
        num_moved=len(moves),
        moves=tuple(moves),
    )


def _own(lengths: Any, max_tokens: int, cost: PackCost | None) -> tuple[tuple[list[int], list[Any]], str]:
    """Return this rank's lengths and costs, and what is wrong with them: nothing is raised before all ranks know."""
    try:
        whole_number("max_tokens", max_tokens, least=1, most=LARGEST_TOKENS)
        lengths = lengths() if callable(lengths) else lengths
        given = np.asarray(lengths.detach().cpu() if hasattr(lengths, "detach") else lengths)
        if given.size == 0:
            return ([], []), ""
        tokens = checked_lengths(given)
        check_fits(tokens, max_tokens)
        costs = np.asarray(tokens if cost is None else cost(tokens.copy()))
        whole_costs(costs)  # raises if some cannot be used
        if costs.size != tokens.size:
            raise InputError(f"cost must return one number for each of {tokens.size} lengths, got {costs.size}")
        return (tokens.tolist(), costs.tolist()), ""
    except PacelineError as error:
        return ([], []), str(error)
    except Exception as error:
        return ([], []), f"the function for lengths or costs raised {type(error).__name__}: {error}"
