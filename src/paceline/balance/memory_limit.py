"""The search for even groups whose memory stays within a limit.

Memory is fitted by the same swaps that even out costs, with the roles of the two numbers exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from paceline.balance.costs import Numbers
from paceline.balance.group_search import MAX_SWEEPS, find_groups, keep_names, refine, share_real, target_load
from paceline.balance.kernels import deal_by_differencing, deal_longest_first, heaviest_first, swap_until_even
from paceline.balance.partition_task import NO_MEMORY_LIMIT, PartitionTask
from paceline.balance.partition_values import MemoryLimitError, Method

_NO_COST_LIMIT = -1  # kernels take any negative limit as none
_COST_LIMITS = (1.0, 1.001, 1.01, 1.1)  # how far fitting memory may raise the heaviest load, as factors of it


def find_groups_within_memory(task: PartitionTask, method: Method, tolerance: float) -> Numbers:
    """Return groups within the memory limit, or raise."""
    if task.memory_limit == NO_MEMORY_LIMIT:
        return find_groups(task, method, tolerance)
    _check_total(task)
    unlimited = find_groups(task.without_limit(), method, tolerance)
    if task.memory_fits(unlimited):
        return unlimited
    fitter = _MemoryFitter(task=task, order=heaviest_first(np.where(task.real, task.memory, -1)))
    target = task.bound if task.placement is None else target_load(task, tolerance)
    # keep the even costs if possible: swap only what is above the memory limit, and raise costs as little as that takes
    for factor in _COST_LIMITS:
        fitting = fitter.fit(unlimited, int(task.heaviest(unlimited) * factor))
        if task.memory_fits(fitting):
            return refine(task, fitting, target)
    # otherwise start from groups of even memory, and even out the costs as far as memory allows
    candidates = [refine(task, fitting, target) for fitting in fitter.fitting_deals()]
    if not candidates:
        total = int(task.memory.sum())
        raise MemoryLimitError(
            f"no groups of memory {task.memory_limit} were found for {task.costs.size} samples that need {total} "
            f"together in {task.num_groups} groups; the limit is "
            f"{task.memory_limit * task.num_groups / max(1, total):.4f} times that"
        )
    return keep_names(task, min(candidates, key=task.heaviest))


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemoryFitter:
    """Swaps samples until memory fits. `order` has the samples by memory, the largest first, padding last."""

    task: PartitionTask
    order: Numbers

    def fit(self, group_of: Numbers, max_cost: int) -> Numbers:
        """Swap until memory fits or nothing helps, with no group's cost above `max_cost`."""
        task, fitted = self.task, share_real(self.task, group_of).copy()
        swap_until_even(
            task.memory[self.order], self.order, fitted, task.num_groups, task.memory_limit,
            task.costs, max_cost, MAX_SWEEPS,
        )  # fmt: skip
        return fitted

    def fitting_deals(self) -> list[Numbers]:
        """Deal by memory in both ways; return the groups that fit."""
        deals: tuple[Callable[[Numbers, Numbers, int], Numbers], ...] = (
            deal_longest_first,
            deal_by_differencing,
        )
        by_memory = self.task.memory[self.order]
        fitted = [self.fit(deal(by_memory, self.order, self.task.num_groups), _NO_COST_LIMIT) for deal in deals]
        return [group_of for group_of in fitted if self.task.memory_fits(group_of)]


def _check_total(task: PartitionTask) -> None:
    total, largest = int(task.memory.sum()), int(task.memory.max(initial=0))
    if largest > task.memory_limit or total > task.memory_limit * task.num_groups:
        raise MemoryLimitError(
            f"{task.num_groups} groups of memory {task.memory_limit} cannot hold samples that need {total} together, "
            f"the largest {largest}"
        )
