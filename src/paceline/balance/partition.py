"""Cuts samples into groups of equal size and equal cost. Whole numbers only: all ranks compute the same groups."""

from __future__ import annotations

from typing import Any

from paceline.balance.host_search import find_groups_on_hosts
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
    hosts: Any = None,
    sample_bytes: Any = None,
    host_bytes_limit: int | None = None,
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

    With `hosts`, groups start from `placement` too. Samples cross from host to host only for what a host cannot even
    out by itself, those that shift most for their bytes; then each host evens out its own groups. Nothing is dealt
    from scratch. The heaviest group is never heavier than it was, and within `tolerance` of the bound where swaps and
    the limit of bytes allow it.

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
        hosts: The host of each group, as numbers or names. It needs a placement with groups of even size.
        sample_bytes: What each sample takes when it travels; padding takes nothing. Each takes 1 if not given.
        host_bytes_limit: Bytes of samples that a host sends to others at the most, and receives from them. It comes
            before everything else: loads stay uneven, and groups without a real sample, where it is in the way.

    Raises:
        InputError: If an argument cannot be used.
        MemoryLimitError: If no groups were found within the memory limit.
    """
    method = choice(Method, "method", method)
    num_groups = whole_number("num_groups", num_groups, least=1)
    if not 0 <= tolerance < float("inf"):
        raise InputError(f"tolerance must be a number of at least 0, got {tolerance!r}")
    if hosts is None and (sample_bytes is not None or host_bytes_limit is not None):
        raise InputError("sample_bytes and host_bytes_limit say what may travel between hosts: give hosts too")
    if hosts is not None and memory_limit is not None:
        raise InputError("hosts and memory_limit cannot be combined: give one of them")
    task = make_task(
        costs, num_groups, real=real, placement=placement, memory=memory, memory_limit=memory_limit, hosts=hosts,
        sample_bytes=sample_bytes, host_bytes_limit=host_bytes_limit,
    )  # fmt: skip
    if method is Method.SWAP_IN_PLACE and task.placement is None:
        raise InputError("method 'swap_in_place' starts from where samples are: give a placement")
    if task.hosts is None or task.placement is None:
        return task.result(find_groups_within_memory(task, method, tolerance))
    if method not in (Method.AUTO, Method.SWAP_IN_PLACE):
        raise InputError(f"method {method.value!r} deals from scratch, whatever the hosts: take 'auto' with hosts")
    return task.result(find_groups_on_hosts(task, task.hosts, task.placement, tolerance))
