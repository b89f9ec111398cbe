"""The inner loops of the partition, which are compiled: whole numbers in, whole numbers out.

Arrays are made here and filled there; each is of int64, contiguous, and checked before anything is written. Every
choice between equals is made by position, so all machines compute the same groups bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paceline.compiled import extension

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


def heaviest_first(costs: Numbers, *, into: Numbers | None = None) -> Numbers:
    """Return the indices from the largest to the smallest number, equal ones in their order. None is below -1."""
    order = np.empty(costs.size, np.int64) if into is None else into
    extension.heaviest_first(costs, order)
    return order


def sums_of(group_of: Numbers, numbers: Numbers, num_groups: int) -> Numbers:
    """Return the sum of each group's numbers."""
    sums = np.empty(num_groups, np.int64)
    extension.add_up_groups(group_of, numbers, sums)
    return sums


def members_of(group_of: Numbers, real: Flags, num_groups: int) -> tuple[Numbers, Numbers]:
    """Return the samples group after group, real ones in rising order and then padding; and where each group ends."""
    members, ends = np.empty(group_of.size, np.int64), np.empty(num_groups, np.int64)
    extension.list_members(group_of, real, members, ends)
    return members, ends


def deal_longest_first(falling: Numbers, order: Numbers, num_groups: int) -> Numbers:
    """Give each sample in turn to the lightest group with room; return the group of each sample.

    `falling` has the costs in the order of `order`. Groups of equal load take turns. Samples that cost 0 have nothing
    to weigh: they go to the groups with the fewest samples.
    """
    group_of = np.empty(order.size, np.int64)
    extension.deal_longest_first(falling, order, num_groups, group_of)
    return group_of


def deal_by_differencing(falling: Numbers, order: Numbers, num_groups: int) -> Numbers:
    """Karmarkar and Karp's differencing with groups of equal size; return the group of each sample.

    `falling` has the costs in the order of `order`. These are cut into rows of one per group; each row is a state
    with `num_groups` sums. The two states of largest spread are merged, large sums with small ones, until one is left.
    """
    group_of = np.empty(order.size, np.int64)
    extension.deal_by_differencing(falling, order, num_groups, group_of)
    return group_of


def swap_until_even(
    falling: Numbers, order: Numbers, group_of: Numbers, num_groups: int, target: int,
    memory: Numbers, limit: int, max_sweeps: int,
) -> None:  # fmt: skip
    """Swap samples between groups until none is heavier than `target`, or nothing helps. It changes `group_of`.

    A sweep pairs the heaviest group with the lightest, the second with the second lightest and so on, and makes the
    best swap of each pair. When sweeps do not help the heaviest group any more, it tries all others. Groups that are
    light enough are only touched as partners, so little moves. Sizes stay as they are, or two groups swap theirs.

    Args:
        falling: Costs in the order of `order`.
        order: The samples, the heaviest first.
        group_of: The group of each sample; sizes differ by at most 1.
        num_groups: Groups.
        target: The load at which a group is light enough.
        memory: What each sample needs of its group's memory.
        limit: The memory of a group; no limit if negative.
        max_sweeps: Stop after this many sweeps.
    """
    extension.swap_until_even(falling, order, num_groups, target, memory, limit, max_sweeps, group_of)


def even_out_hosts(
    falling: Numbers, order: Numbers, costs: Numbers, num_bytes: Numbers, real: Flags, host_of: Numbers,
    group_of: Numbers, traffic: tuple[Numbers, Numbers], *, host_target: int, target: int, limit: int, max_sweeps: int,
) -> None:  # fmt: skip
    """Swap samples until no group is heavier than `target`, or nothing helps, with few bytes between hosts.

    Hosts above `host_target` for each of their groups give heavy samples to lighter hosts for the lightest there. Then
    each host swaps between its own groups. It changes `group_of` and `traffic`. Sizes of groups stay as they are.

    Args:
        falling: Costs in the order of `order`.
        order: The samples, the heaviest first, padding last.
        costs: What each sample costs.
        num_bytes: What each takes when it travels.
        real: Which are real.
        host_of: The host of each group.
        group_of: The group of each sample; sizes differ by at most 1.
        traffic: Bytes that each host has sent and received: what it has already, and then all.
        host_target: The load for each of its groups at which a host is light enough.
        target: The load at which a group is light enough; not below `host_target`.
        limit: Bytes that a host may send, and receive; no limit if negative.
        max_sweeps: Stop after this many sweeps inside a host.
    """
    extension.even_out_hosts(
        falling, order, costs, num_bytes, real, host_of, host_target, target, limit, max_sweeps, *traffic, group_of
    )
