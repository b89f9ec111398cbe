"""Cuts samples into groups of equal size and equal cost. Whole numbers only: all ranks compute the same groups."""

from __future__ import annotations

from typing import Any

from paceline.balance.memory_limit import find_groups_within_memory
from paceline.balance.partition_task import make_task
from paceline.balance.partition_values import Method, Partition
from paceline.errors import InputError, choice, whole_number


def partition(
    costs: Any,
    num_groups: int,
    method: str | Method = Method.AUTO,
    placement: Any = None,
    *,
    real: Any = None,
    memory: Any = None,
    memory_limit: int | None = None,
    tolerance: float = 1e-3,
) -> Partition:
    """Cut samples into groups whose sizes differ by at most 1 and whose costs are as equal as possible.

    >>> parts = partition([9, 1, 7, 3, 5, 5], 2)
    >>> [group.tolist() for group in parts.groups], parts.loads.tolist()
    ([[0, 1, 5], [2, 3, 4]], [15, 15])

    Methods: `differencing` is Karmarkar and Karp's, with groups of equal size. `longest_first` gives the heaviest
    sample to the lightest group with room, then swaps. `swap_in_place` starts from `placement` and swaps only what
    must move for a balance within `tolerance`. `auto` without a placement is never worse than `differencing`, and
    within 0.01 % of the bound if one of the first two is. With a placement it swaps in place; if that does not come
    within `tolerance` of the bound it also deals from scratch, names the groups so that most samples stay, and takes
    the better of the two.

    Args:
        costs: One number per sample, at least 0.
        num_groups: Groups to make.
        method: How to find them.
        placement: The group each sample is in now.
        real: Which samples are real; the others are padding: they cost nothing and come last in their group. They are
            spread as even costs allow, or stay where `placement` has them. No group is left without a real sample while
            another has two.
        memory: What each sample needs of its group's memory.
        memory_limit: The memory of one group. The methods then hold their promises as far as the limit allows.
        tolerance: By what fraction the heaviest group may exceed the bound when samples are swapped in place.

    Raises:
        InputError: If an argument cannot be used.
        MemoryLimitError: If no groups were found within the memory limit.
    """
    method = choice(Method, "method", method)
    num_groups = whole_number("num_groups", num_groups, least=1)
    if not 0 <= tolerance < float("inf"):
        raise InputError(f"tolerance must be a number of at least 0, got {tolerance!r}")
    task = make_task(costs, num_groups, real=real, placement=placement, memory=memory, memory_limit=memory_limit)
    if method is Method.SWAP_IN_PLACE and task.placement is None:
        raise InputError("method 'swap_in_place' starts from where samples are: give a placement")
    return task.result(find_groups_within_memory(task, method, tolerance))
