"""The input of a partition, checked and turned into whole numbers, with the bound that no partition can beat."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paceline.balance.costs import Numbers, whole_costs
from paceline.balance.group_hosts import GroupHosts, make_hosts
from paceline.balance.kernels import heaviest_first, members_of, sums_of
from paceline.balance.partition_values import Partition
from paceline.errors import InputError, whole_number

NO_MEMORY_LIMIT = -1  # kernels take any negative limit as none
_NO_NUMBERS = np.empty(0, np.int64)

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask:
    """What is asked for, in whole numbers.

    Attributes:
        costs: The cost of each sample; padding costs 0.
        num_groups: Groups to make.
        real: Which samples are real.
        placement: The group each sample is in now, or None.
        hosts: Where groups live, or None.
        memory: What each sample needs of its group's memory; empty without a limit.
        memory_limit: The memory of one group, or `NO_MEMORY_LIMIT`.
        order: The samples, the heaviest first, padding last.
        falling: The costs in this order.
        bound: No partition has a heaviest group below this.
        factor: What the caller's costs were multiplied with, to make them whole.
    """

    costs: Numbers
    num_groups: int
    real: Flags
    placement: Numbers | None
    hosts: GroupHosts | None
    memory: Numbers
    memory_limit: int
    order: Numbers
    falling: Numbers
    bound: int
    factor: float

    def loads(self, group_of: Numbers) -> Numbers:
        """Return the cost of each group."""
        return sums_of(group_of, self.costs, self.num_groups)

    def heaviest(self, group_of: Numbers) -> int:
        """Return the load of the heaviest group."""
        return int(self.loads(group_of).max(initial=0))

    def memory_fits(self, group_of: Numbers) -> bool:
        """Say whether every group's memory is within the limit."""
        if self.memory_limit == NO_MEMORY_LIMIT:
            return True
        return int(sums_of(group_of, self.memory, self.num_groups).max(initial=0)) <= self.memory_limit

    def without_limit(self) -> PartitionTask:
        """Return the same task with memory left out."""
        return replace(self, memory=_NO_NUMBERS, memory_limit=NO_MEMORY_LIMIT)

    def result(self, group_of: Numbers) -> Partition:
        """Return the groups with their figures."""
        loads = self.loads(group_of)
        members, ends = members_of(group_of, self.real, self.num_groups)
        total, heaviest = int(loads.sum()), int(loads.max())
        num_moved, num_crossed, bytes_crossed = 0, 0, 0
        if self.placement is not None:
            moved = np.flatnonzero(group_of != self.placement)
            num_moved = moved.size
            if self.hosts is not None:
                num_crossed, bytes_crossed = self.hosts.crossed(moved, self.placement[moved], group_of[moved])
        return Partition(
            groups=tuple(members[begin:end] for begin, end in itertools.pairwise([0, *ends.tolist()])),
            loads=loads if self.factor == 1.0 else loads / self.factor,
            max_over_mean=heaviest * self.num_groups / total if total else 1.0,
            max_over_bound=heaviest / self.bound if self.bound else 1.0,
            num_moved=num_moved,
            num_crossed=num_crossed,
            bytes_crossed=bytes_crossed,
        )


def make_task(
    costs: Any, num_groups: int, *, real: Any, placement: Any, memory: Any, memory_limit: int | None,
    hosts: Any = None, sample_bytes: Any = None, host_bytes_limit: int | None = None,
) -> PartitionTask:  # fmt: skip
    """Check what the caller gave, and sort the samples by cost."""
    kept, factor = whole_costs(costs)  # a copy, whatever was given
    size = kept.size
    if (memory is None) != (memory_limit is None):
        raise InputError("memory and memory_limit go together: pass both or neither")
    placed = None if placement is None else _checked_placement(placement, size, num_groups)
    is_real = np.ones(size, np.bool_) if real is None else _checked_flags("real", real, size)
    at_hosts = None if hosts is None else make_hosts(hosts, num_groups, placed, sample_bytes, host_bytes_limit, is_real)
    needed, limit = _NO_NUMBERS, NO_MEMORY_LIMIT
    if memory is not None:
        needed = _checked_memory(memory, size)
        needed = np.where(is_real, needed, 0)
        limit = whole_number("memory_limit", memory_limit, least=0)
    # One block: most allocators keep the memory of a large one for the next, where they give that of small ones back to
    # the system. Fresh memory takes as long as the search itself.
    order, falling = np.empty((2, size), np.int64)
    if is_real.all():
        heaviest_first(kept, into=order)
    else:
        heaviest_first(np.where(is_real, kept, -1), into=order)  # -1: padding comes last
        kept[~is_real] = 0
    kept.take(order, out=falling, mode="clip")  # nothing is clipped, but other modes take a copy
    return PartitionTask(
        costs=kept, num_groups=num_groups, real=is_real, placement=placed, hosts=at_hosts, memory=needed,
        memory_limit=limit, order=order, falling=falling, bound=_bound(falling, num_groups), factor=factor,
    )  # fmt: skip


def _checked_flags(name: str, values: Any, size: int) -> Flags:
    array = np.asarray(values)
    if array.shape != (size,) or (array.dtype != np.bool_ and size):
        raise InputError(f"{name} must be one boolean per sample: {size} of them, got {array.dtype} {array.shape}")
    # a copy: kernels take contiguous arrays only, and the caller may change his own while they run without the GIL
    return array.astype(np.bool_)


def _checked_memory(memory: Any, size: int) -> Numbers:
    needed, _ = whole_costs(memory, "memory")
    if needed.size != size or (np.asarray(memory).dtype.kind == "f" and size):
        raise InputError(f"memory must be one whole number per sample, got {needed.size} for {size} samples")
    return needed


def _checked_placement(placement: Any, size: int, num_groups: int) -> Numbers:
    array = np.asarray(placement)
    if array.shape != (size,) or (array.dtype.kind not in "iu" and size):
        raise InputError(f"placement must be one group per sample: {size} of them, got {array.dtype} {array.shape}")
    if size and (array.min() < 0 or array.max() >= num_groups):
        raise InputError(f"placement must name groups from 0 to {num_groups - 1}, got {array.min()} to {array.max()}")
    return array.astype(np.int64)


def _bound(falling: Numbers, num_groups: int) -> int:
    """Return what the heaviest group cannot be below: the mean, and what the heaviest samples bring with them.

    A group has at least n // k samples, so the heaviest sample has at least the lightest ones for company; and of the
    k + 1 heaviest samples two must share a group.
    """
    num = falling.size
    if num == 0:
        return 0
    least = num // num_groups
    bound = max(-(-int(falling.sum()) // num_groups), int(falling[0]))
    if least > 1:
        bound = max(bound, int(falling[0] + falling[num - least + 1 :].sum()))
    if num > num_groups:
        # the lightest pair among the k + 1 heaviest, and the lightest samples that fill its group
        pair = int(falling[num_groups - 1] + falling[num_groups])
        fill = int(falling[num - least + 2 :].sum()) if least > 2 else 0
        bound = max(bound, pair + fill)
    return bound
