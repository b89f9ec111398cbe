"""What the loop of a rank has received in a pass: for its state, and for values that are gathered by sample."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from paceline.batch import Batch
from paceline.loader.row_exchange.balancer import StepStatistics
from paceline.loader.sampler_state import PlannedPass
from paceline.plan.order import Ids


@dataclass(slots=True, kw_only=True, eq=False)
class DeliveredStep:
    """A batch as the loop receives it. It is not frozen: to copy it in each step takes longer than all else there.

    Attributes:
        batch: The rows of this rank.
        ids: The samples of its real rows.
        skipped: Samples of this step that could not be loaded, on this rank.
        statistics: What balancing did; None if nothing is balanced.
        seconds_waited: How long the loop waited for it; the pass fills it in.
    """

    batch: Batch
    ids: list[int]
    skipped: tuple[int, ...] = ()
    statistics: StepStatistics | None = None
    seconds_waited: float = 0.0


@dataclass(slots=True, kw_only=True)
class DeliveredBatches:
    """The batches of one pass that the loop of this rank has received.

    Attributes:
        keeps_ids: Whether the samples of all batches are kept: the plan does not know those of rows that moved.
        planned: The pass.
        num_steps: Batches that were received.
        num_rows: Rows of the last one.
        has_ended: Whether the pass has come to its end.
    """

    keeps_ids: bool
    planned: PlannedPass
    num_steps: int = 0
    num_rows: int = 0
    has_ended: bool = False
    _last_ids: list[int] = field(default_factory=list)
    _ids_of_steps: list[Ids] = field(default_factory=list)
    _skipped: set[int] = field(default_factory=set)

    def note(self, delivered: DeliveredStep) -> None:
        """Note a batch that is handed out."""
        self.num_steps += 1
        self.num_rows, self._last_ids = delivered.batch.batch_size, delivered.ids
        self._skipped.update(delivered.skipped)
        if self.keeps_ids:
            self._ids_of_steps.append(np.array(delivered.ids, np.int64))

    @property
    def last_ids(self) -> Ids:
        """The samples of the last batch."""
        return np.array(self._last_ids, np.int64)

    def all_ids(self, rank: int) -> Ids:
        """Return the samples of all real rows that the loop of this rank has received, in their order."""
        plan = self.planned.plan
        if self.keeps_ids or plan is None:
            return np.concatenate([np.empty(0, np.int64), *self._ids_of_steps])
        ids = plan.rows(rank, self.planned.epoch, 0, self.num_steps).reshape(-1)
        return ids[(ids >= 0) & ~np.isin(ids, list(self._skipped))]
