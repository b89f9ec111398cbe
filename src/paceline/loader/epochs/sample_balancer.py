"""Balances batches together with the ids of their samples: rows that move take their ids with them.

The ids travel in a field of their own. It is added and removed here alone: neither the cost function nor the user sees
it.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from paceline.batch import Batch
from paceline.comm import Comm
from paceline.loader.agreement.background import Closeable
from paceline.loader.row_exchange.balancer import Balancer, Balancing, StepStatistics
from paceline.loader.row_exchange.row_costs import CostFunction

_IDS = "paceline.ids"


class SampleBalancer(Closeable):
    """A balancer of batches whose samples are known.

    Args:
        comm: The ranks. All make it at the same time.
        cost: Returns what the rows of a batch cost.
        seconds_per_cost: What a unit of cost takes a rank; None if that is not known.
    """

    def __init__(self, comm: Comm, cost: CostFunction, *, seconds_per_cost: float | None) -> None:
        self._balancer = Balancer(comm, lambda batch: cost(batch.without(_IDS)), seconds_per_cost=seconds_per_cost)
        weakref.finalize(self, self._balancer.close, wait=False)

    def start(self, batch: Batch, ids: list[int], *, problem: str = "", num_left: int = 0) -> BalancingSamples:
        """Begin to balance a batch; returns at once.

        Args:
            batch: This rank's rows.
            ids: The samples of its real rows.
            problem: Why this rank cannot continue: then `finish` raises on all ranks.
            num_left: Steps since the last one that was balanced.
        """
        field = torch.zeros(batch.batch_size, dtype=torch.int64)
        field[: batch.num_real] = torch.tensor(ids, dtype=torch.int64)
        batch = batch.with_field(_IDS, field.to(batch.device))
        return BalancingSamples(self._balancer.start(batch, problem=problem, num_left=num_left))

    def close(self, *, wait: bool = True) -> None:
        """End the balancer after what is under way; or abandon it, if peers may never come."""
        self._balancer.close(wait=wait)


class BalancingSamples:
    """A batch that is being balanced."""

    def __init__(self, balancing: Balancing) -> None:
        self._balancing = balancing

    def wait(self, seconds: float) -> bool:
        """Wait until `finish` would return at once, for some seconds at the most; return whether it would."""
        return self._balancing.wait(seconds)

    def finish(self) -> tuple[Batch, list[int], StepStatistics]:
        """Return this rank's rows after balancing, the samples of the real ones, and what balancing did."""
        batch = self._balancing.finish()
        ids: Any = batch[_IDS]
        return batch.without(_IDS), ids[: batch.num_real].tolist(), self._balancing.statistics
