"""The search for even groups, without regard to memory: the methods of `partition` on a checked task.

Groups travel as `group_of`: the group of each sample, one number per sample.
"""

from __future__ import annotations

import numpy as np

from paceline.balance.costs import LARGEST_SUM, Numbers
from paceline.balance.group_hosts import HostTraffic
from paceline.balance.kernels import deal_by_differencing, deal_longest_first, heaviest_first, swap_until_even
from paceline.balance.partition_task import PartitionTask
from paceline.balance.partition_values import Method

MAX_SWEEPS = 400
_FEW_PER_GROUP = 32  # up to this many samples per group, differencing is refined too: swaps have little to choose from
_EVEN = 9e-5  # this near to the bound, groups count as even


def find_groups(task: PartitionTask, method: Method, tolerance: float) -> Numbers:
    """Return the group of each sample by the method, ignoring memory."""
    if method is Method.LONGEST_FIRST:
        return keep_names(task, _longest_first(task))
    if method is Method.DIFFERENCING:
        return keep_names(task, _differencing(task))
    if task.placement is None:
        return _best(task)
    target = target_load(task, tolerance)
    in_place = _swapped_in_place(task, task.placement, target)
    if method is Method.SWAP_IN_PLACE or task.heaviest(in_place) <= target:
        return in_place
    best = _best(task)
    return keep_names(task, best) if task.heaviest(best) < task.heaviest(in_place) else in_place


def target_load(task: PartitionTask, tolerance: float) -> int:
    """Return the load that is light enough within the tolerance."""
    # a huge tolerance must not overflow the kernels' 64 bits
    return task.bound + int(min(task.bound * tolerance, float(LARGEST_SUM)))


def least_target(task: PartitionTask, target: int) -> int:
    """Return the target, or what counts as met: the bound itself need not be met to the last unit."""
    return max(target, int(task.bound * (1 + _EVEN / 4)))


def refine(task: PartitionTask, group_of: Numbers, target: int, *, in_place: bool = False) -> Numbers:
    """Swap until no group is above the target, or nothing helps."""
    target = least_target(task, target)
    if task.heaviest(group_of) <= target:
        return group_of
    refined = group_of if in_place else group_of.copy()
    swap_until_even(
        task.falling, task.order, refined, task.num_groups, target, task.memory, task.memory_limit, MAX_SWEEPS
    )
    return refined


def keep_names(task: PartitionTask, group_of: Numbers) -> Numbers:
    """Rename groups so that most samples stay where `placement` has them.

    Pairs of (group, name) choose in turn, those that keep the most samples first.
    """
    if task.placement is None:
        return group_of
    num_groups = task.num_groups
    pairs, counts = np.unique(group_of * num_groups + task.placement, return_counts=True)
    names = np.full(num_groups, -1)
    is_taken = np.zeros(num_groups, np.bool_)
    for pair in pairs[heaviest_first(counts.astype(np.int64))].tolist():
        group, name = divmod(pair, num_groups)
        if names[group] < 0 and not is_taken[name]:
            names[group], is_taken[name] = name, True
    names[names < 0] = np.flatnonzero(~is_taken)
    renamed: Numbers = names[group_of]
    return renamed


def share_real(task: PartitionTask, group_of: Numbers, traffic: HostTraffic | None = None) -> Numbers:
    """Give a real sample to each group that has none, from the heaviest that has two, in exchange for padding.

    Args:
        task: The samples.
        group_of: The group of each.
        traffic: Between hosts. If given, a sample comes from another host only where no group of the same has two,
            and within the limit of bytes.
    """
    if task.real.all():
        return group_of
    num_real = np.bincount(group_of[task.real], minlength=task.num_groups)
    if num_real.min() > 0 or num_real.max() < 2:
        return group_of
    group_of = group_of.copy()
    loads = task.loads(group_of)
    for empty in np.flatnonzero(num_real == 0).tolist():
        padding = np.flatnonzero((group_of == empty) & ~task.real)
        givers = np.flatnonzero(num_real > 1)
        if not padding.size or not givers.size:
            break
        givers = givers if traffic is None else traffic.nearest(givers, empty)
        giver = int(givers[np.argmax(loads[givers])])
        members = np.flatnonzero((group_of == giver) & task.real)
        members = members if traffic is None else traffic.allowed(members, giver, empty)
        if not members.size:
            continue
        gap = loads[giver] - loads[empty]
        # a sample of half the gap would make the two groups equal
        moving = int(members[np.argmin(np.abs(gap - 2 * task.costs[members]))])
        group_of[moving], group_of[int(padding[0])] = empty, giver
        if traffic is not None:
            traffic.note(moving, giver, empty)
        loads[giver] -= task.costs[moving]
        loads[empty] += task.costs[moving]
        num_real[giver] -= 1
        num_real[empty] += 1
    return group_of


def _best(task: PartitionTask) -> Numbers:
    """Return groups that are never worse than those of differencing.

    Differencing takes one sample of each row of the sorted samples into a group, so its heaviest group has the heaviest
    sample and at least the lightest of every other row. If that alone is above what counts as even, it is tried last.
    """
    good = int(task.bound * (1 + _EVEN))
    lightest_of_rows = task.falling[2 * task.num_groups - 1 :: task.num_groups]  # of full rows but the first
    floor = int(task.falling[:1].sum() + lightest_of_rows.sum())
    by_differencing = None
    if floor <= good:
        by_differencing = _differencing(task)
        if task.heaviest(by_differencing) <= good:
            return by_differencing
    best = _longest_first(task)
    if task.heaviest(best) <= floor:  # differencing cannot be below its own floor
        return best
    other = _differencing(task) if by_differencing is None else by_differencing
    if task.heaviest(other) < task.heaviest(best) or task.costs.size <= _FEW_PER_GROUP * task.num_groups:
        other = refine(task, other, task.bound)
    return other if task.heaviest(other) < task.heaviest(best) else best


def _longest_first(task: PartitionTask) -> Numbers:
    dealt = deal_longest_first(task.falling, task.order, task.num_groups)
    return refine(task, dealt, task.bound, in_place=True)


def _differencing(task: PartitionTask) -> Numbers:
    return deal_by_differencing(task.falling, task.order, task.num_groups)


def _swapped_in_place(task: PartitionTask, placement: Numbers, target: int) -> Numbers:
    return refine(task, share_real(task, _even_sizes(task, placement)), target)


def _even_sizes(task: PartitionTask, placement: Numbers) -> Numbers:
    """Return a placement whose sizes differ by at most 1, moving as few samples as that takes."""
    num_groups = task.num_groups
    least, num_wide = divmod(placement.size, num_groups)
    sizes = np.bincount(placement, minlength=num_groups)
    wanted = np.full(num_groups, least)
    wanted[np.argsort(-sizes, kind="stable")[:num_wide]] += 1  # the largest groups may keep one more
    if (sizes == wanted).all():
        return placement
    group_of, loads = placement.copy(), task.loads(placement)
    excess = []
    for group in np.flatnonzero(sizes > wanted).tolist():
        members = task.order[placement[task.order] == group]
        spare = sizes[group] - wanted[group]
        leaving = members[(np.arange(spare) * members.size + members.size // 2) // spare]  # spread over all costs
        excess.append(leaving)
        loads[group] -= task.costs[leaving].sum()
    moving = np.concatenate(excess)
    moving = moving[np.lexsort((moving, -task.costs[moving]))]  # the heaviest first, equal ones by index
    room = np.maximum(wanted - sizes, 0)
    for sample in moving.tolist():
        open_groups = np.flatnonzero(room)
        group = int(open_groups[np.argmin(loads[open_groups])])
        group_of[sample] = group
        loads[group] += task.costs[sample]
        room[group] -= 1
    return group_of
