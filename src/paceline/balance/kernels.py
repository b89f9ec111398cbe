"""Compiled inner loops of the partition: whole numbers in, whole numbers out, the GIL released.

Every choice between equals is made by position, so all machines compute the same groups bit for bit. Compiling takes
a few seconds once and is cached on disk; `warm_up` in warming.py does it ahead of time. Everything is in one file,
because numba's cache looks only at a function's own file to see whether something has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Function = TypeVar("Function", bound=Callable[..., Any])

_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS
_RUN = 12  # runs of this many are sorted by insertion, then merged
_COUNTED = 256  # from this many on, values that lie close together are sorted by counting
_LARGEST_INT64 = np.int64((1 << 63) - 1)


def _compiled(function: Function) -> Function:
    """Compile when first called, keep it on disk if a folder can be written, and let other threads run meanwhile."""
    try:
        return cast(Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # neither our folder nor the user's can be written to
        return cast(Function, numba.njit(nogil=True)(function))


@_compiled
def heaviest_first(costs: Numbers) -> Numbers:
    """Return the indices from the largest to the smallest number; equal ones in their order.

    Where key and index fit into one number they are sorted as one, digit by digit, so no two are ever equal.
    """
    size = costs.size
    order = np.arange(size)
    if size == 0:
        return order
    top = costs.max()
    span = top - costs.min()
    index_bits = 1
    while size >> index_bits > 0:
        index_bits += 1
    other = np.empty_like(order)
    starts = np.empty(_DIGITS, np.int64)
    if span >> (62 - index_bits) == 0:
        for index in range(size):
            order[index] = (top - costs[index]) << index_bits | index
        shift = 0
        while span >> shift > 0:
            order, other = _sort_by_digit(order, other, index_bits + shift, starts), order
            shift += _DIGIT_BITS
        for index in range(size):
            order[index] &= (1 << index_bits) - 1
        return order
    shift = 0
    while shift < 63 and span >> shift > 0:  # key and index do not fit into one number: sort the indices by key
        starts[:] = 0
        for index in range(size):
            starts[((top - costs[index]) >> shift) & (_DIGITS - 1)] += 1
        _make_starts(starts)
        for index in range(size):
            digit = ((top - costs[order[index]]) >> shift) & (_DIGITS - 1)
            other[starts[digit]] = order[index]
            starts[digit] += 1
        order, other = other, order
        shift += _DIGIT_BITS
    return order


@_compiled
def _make_starts(counts: Numbers) -> None:
    """Turn counts into where each one's run starts."""
    begin = 0
    for digit in range(counts.size):
        count = counts[digit]
        counts[digit] = begin
        begin += count


@_compiled
def _sort_by_digit(numbers: Numbers, into: Numbers, shift: int, starts: Numbers) -> Numbers:
    """Sort by one digit; numbers of the same digit keep their order."""
    starts[:] = 0
    for number in numbers:
        starts[(number >> shift) & (_DIGITS - 1)] += 1
    _make_starts(starts)
    for number in numbers:
        digit = (number >> shift) & (_DIGITS - 1)
        into[starts[digit]] = number
        starts[digit] += 1
    return into


@_compiled
def sums_of(group_of: Numbers, numbers: Numbers, num_groups: int) -> Numbers:
    """Return the sum of each group's numbers."""
    sums = np.zeros(num_groups, np.int64)
    for sample in range(group_of.size):
        sums[group_of[sample]] += numbers[sample]
    return sums


@_compiled
def members_of(group_of: Numbers, real: Flags, num_groups: int) -> tuple[Numbers, Numbers]:
    """Return the samples group after group, real ones in rising order and then padding; and where each group ends."""
    ends = np.zeros(num_groups + 1, np.int64)
    num_real = np.zeros(num_groups, np.int64)
    for sample in range(group_of.size):
        ends[group_of[sample] + 1] += 1
        if real[sample]:
            num_real[group_of[sample]] += 1
    ends = np.cumsum(ends)
    real_position, padding_position = ends[:-1].copy(), ends[:-1] + num_real
    members = np.empty(group_of.size, np.int64)
    for sample in range(group_of.size):
        group = group_of[sample]
        if real[sample]:
            members[real_position[group]] = sample
            real_position[group] += 1
        else:
            members[padding_position[group]] = sample
            padding_position[group] += 1
    return members, ends[1:]


@_compiled
def _sort_by_counting(
    values: Numbers, labels: Numbers, size: int, low: int, span: int, spare_values: Numbers, spare_labels: Numbers
) -> None:  # fmt: skip
    """Sort values from `low` to `low + span` with one or two digits."""
    starts = np.empty(min(span + 1, _DIGITS), np.int64)
    shift = 0
    while span >> shift > 0:
        starts[:] = 0
        for index in range(size):
            starts[((values[index] - low) >> shift) & (_DIGITS - 1)] += 1
        _make_starts(starts)
        for index in range(size):
            digit = ((values[index] - low) >> shift) & (_DIGITS - 1)
            position = starts[digit]
            spare_values[position], spare_labels[position] = values[index], labels[index]
            starts[digit] = position + 1
        for index in range(size):
            values[index], labels[index] = spare_values[index], spare_labels[index]
        shift += _DIGIT_BITS


@_compiled
def _sort_rising(values: Numbers, labels: Numbers, size: int, spare_values: Numbers, spare_labels: Numbers) -> None:
    """Sort the first `size` values, with their labels; equal ones keep their order."""
    if size >= _COUNTED:  # sums are near to each other, so counting beats comparing
        low, high = values[0], values[0]
        for index in range(size):
            low, high = min(low, values[index]), max(high, values[index])
        if high - low < _DIGITS or (high - low < _DIGITS * _DIGITS and size >= _DIGITS // 2):
            _sort_by_counting(values, labels, size, low, high - low, spare_values, spare_labels)
            return
    for begin in range(0, size, _RUN):
        for index in range(begin + 1, min(begin + _RUN, size)):
            value, label = values[index], labels[index]
            position = index
            while position > begin and values[position - 1] > value:
                values[position], labels[position] = values[position - 1], labels[position - 1]
                position -= 1
            values[position], labels[position] = value, label
    width = _RUN
    while width < size:
        for begin in range(0, size - width, 2 * width):
            middle = begin + width
            end = min(middle + width, size)
            if values[middle - 1] <= values[middle]:
                continue
            for index in range(begin, middle):
                spare_values[index], spare_labels[index] = values[index], labels[index]
            left, right, position = begin, middle, begin
            while left < middle:
                if right < end and values[right] < spare_values[left]:
                    values[position], labels[position] = values[right], labels[right]
                    right += 1
                else:
                    values[position], labels[position] = spare_values[left], spare_labels[left]
                    left += 1
                position += 1
        width *= 2


@_compiled
def deal_longest_first(falling: Numbers, order: Numbers, num_groups: int) -> Numbers:
    """Give each sample in turn to the lightest group with room; return the group of each sample.

    `falling` has the costs in the order of `order`. Groups stand in a line, the lightest first. A batch takes groups
    from the front as long as the next one is not heavier than any group that the batch has added to; then the batch is
    sorted and merged back. Samples that cost 0 have nothing to weigh: they go to the groups with the fewest samples.
    """
    num = order.size
    group_of = np.empty(num, np.int64)
    least = num // num_groups
    num_wide = num - least * num_groups  # groups that get one more
    loads, groups = np.zeros(num_groups, np.int64), np.arange(num_groups)
    counts = np.zeros(num_groups, np.int64)
    spare_loads, spare_groups = np.empty(num_groups, np.int64), np.empty(num_groups, np.int64)
    front, wide, item = 0, 0, 0  # groups before the front are full; `wide` groups have got their one more
    while item < num and falling[item] > 0:
        batch, lightest = front, _LARGEST_INT64
        while item < num and batch < num_groups and loads[batch] <= lightest:
            cost = falling[item]
            if cost == 0:
                break
            group = groups[batch]
            if counts[group] > least or (counts[group] == least and wide == num_wide):
                if batch > front:  # full: it is skipped when the next batch starts with it
                    break
                front += 1
                batch += 1
                continue
            group_of[order[item]] = group
            counts[group] += 1
            if counts[group] > least:
                wide += 1
            loads[batch] += cost
            lightest = min(lightest, loads[batch])
            batch += 1
            item += 1
        if batch == front:
            continue
        taken = batch - front
        _sort_rising(loads[front:batch], groups[front:batch], taken, spare_loads, spare_groups)
        for index in range(taken):
            spare_loads[index], spare_groups[index] = loads[front + index], groups[front + index]
        index, position, rest = 0, front, batch
        while index < taken:
            if rest < num_groups and loads[rest] <= spare_loads[index]:
                loads[position], groups[position] = loads[rest], groups[rest]
                rest += 1
            else:
                loads[position], groups[position] = spare_loads[index], spare_groups[index]
                index += 1
            position += 1
    level = 0  # the rest costs nothing: fill the groups with the fewest samples first
    while item < num:
        for group in range(num_groups):
            if item < num and counts[group] == level and (level < least or (level == least and wide < num_wide)):
                group_of[order[item]] = group
                counts[group] += 1
                item += 1
                if level == least:
                    wide += 1
        level += 1
    return group_of


@_compiled
def _comes_before(spreads: Numbers, one: int, other: int) -> bool:
    return spreads[one] > spreads[other] or (spreads[one] == spreads[other] and one < other)


@_compiled
def _push(heap: Numbers, size: int, spreads: Numbers, state: int) -> None:
    position = size
    while position > 0 and _comes_before(spreads, state, heap[(position - 1) // 2]):
        heap[position] = heap[(position - 1) // 2]
        position = (position - 1) // 2
    heap[position] = state


@_compiled
def _pop(heap: Numbers, size: int, spreads: Numbers) -> int:
    """Take the first from a heap of `size`."""
    first, last = heap[0], heap[size - 1]
    position = 0
    while 2 * position + 1 < size - 1:
        child = 2 * position + 1
        if child + 1 < size - 1 and _comes_before(spreads, heap[child + 1], heap[child]):
            child += 1
        if not _comes_before(spreads, heap[child], last):
            break
        heap[position] = heap[child]
        position = child
    heap[position] = last
    return first  # type: ignore[no-any-return]


@_compiled
def deal_by_differencing(falling: Numbers, order: Numbers, num_groups: int) -> Numbers:
    """Karmarkar and Karp's differencing with groups of equal size; return the group of each sample.

    `falling` has the costs in the order of `order`. These are cut into rows of one per group; each row is a state
    with `num_groups` sums. The two states of largest spread are merged, large sums with small ones, until one is left.
    """
    num = order.size
    num_rows = (num + num_groups - 1) // num_groups
    group_of = np.zeros(num, np.int64)
    if num_groups == 1 or num == 0:
        return group_of
    num_states = 2 * num_rows - 1
    sums = np.zeros((num_states, num_groups), np.int64)
    positions = np.empty((num_states, num_groups), np.int64)  # where each sum stood in the first of the merged states
    first, second = np.empty(num_states, np.int64), np.empty(num_states, np.int64)
    spreads = np.empty(num_states, np.int64)
    heap = np.empty(num_rows + 1, np.int64)
    for row in range(num_rows):
        for slot in range(num_groups):
            item = row * num_groups + slot
            if item < num:
                sums[row, num_groups - 1 - slot] = falling[item]
        spreads[row] = sums[row, num_groups - 1] - sums[row, 0]
        _push(heap, row, spreads, row)
    spare_sums, spare_positions = np.empty(num_groups, np.int64), np.empty(num_groups, np.int64)
    size = num_rows
    for state in range(num_rows, num_states):
        large = _pop(heap, size, spreads)
        small = _pop(heap, size - 1, spreads)
        size -= 2
        for slot in range(num_groups):
            sums[state, slot] = sums[large, slot] + sums[small, num_groups - 1 - slot]
            positions[state, slot] = slot
        _sort_rising(sums[state], positions[state], num_groups, spare_sums, spare_positions)
        first[state], second[state] = large, small
        spreads[state] = sums[state, num_groups - 1] - sums[state, 0]
        _push(heap, size, spreads, state)
        size += 1
    # unroll the merges from the last: each state passes the groups of its sums on to the two it was merged from
    groups = sums  # the memory of the sums, which are no longer needed
    for slot in range(num_groups):
        groups[num_states - 1, slot] = slot
    for state in range(num_states - 1, num_rows - 1, -1):
        for slot in range(num_groups):
            position, group = positions[state, slot], groups[state, slot]
            groups[first[state], position] = group
            groups[second[state], num_groups - 1 - position] = group
    for row in range(num_rows):
        for slot in range(num_groups):
            item = row * num_groups + slot
            if item < num:
                group_of[order[item]] = groups[row, num_groups - 1 - slot]
    return group_of


@_compiled
def _best_swap(
    one: Numbers, num_one: int, other: Numbers, num_other: int, gap: int, enough: int, most: int,
    one_members: Numbers, other_members: Numbers, memory: Numbers, room: int, other_room: int,
) -> tuple[int, int, np.int64]:  # fmt: skip
    """Return the positions of two samples whose swap best evens out two groups, and by how much it lightens the first.

    Costs rise along both groups; `gap` is by how much the first is heavier. A shift from `enough` to `most` leaves both
    light enough, so the first such swap is taken. A position of -1 stands for no sample: then one is only moved, which
    is allowed if the first group has more samples. `room` and `other_room` are what is left of the groups' memory; if
    they are negative, memory is not checked.
    """
    best, best_one, best_other = np.int64(0), -1, -1
    capped = room >= 0
    # a swap that shifts `shift` leaves a gap of |gap - 2 shift|: the nearer to half of the gap, the better
    if num_one > num_other:
        for position in range(num_one):
            shift = one[position]
            better = 0 < shift < gap and (best == 0 or abs(gap - 2 * shift) < abs(gap - 2 * best))
            if better and (not capped or memory[one_members[position]] <= other_room):
                best, best_one, best_other = shift, position, -1
    partner = 0  # as costs rise along the first group, the best partner only moves forward
    for position in range(num_one):
        while partner < num_other and one[position] - other[partner] > gap - (one[position] - other[partner]):
            partner += 1
        for candidate in (partner - 1, partner):  # the last that shifts more than half, the first that does not
            if candidate < 0 or candidate >= num_other:
                continue
            shift = one[position] - other[candidate]
            if 0 < shift < gap and (best == 0 or abs(gap - 2 * shift) < abs(gap - 2 * best)):
                if capped:
                    more = memory[one_members[position]] - memory[other_members[candidate]]
                    if more > other_room or -more > room:
                        continue
                best, best_one, best_other = shift, position, candidate
                if enough <= shift <= most:
                    return best_one, best_other, best
    return best_one, best_other, best


@_compiled
def _put(costs: Numbers, samples: Numbers, size: int, cost: int, sample: int) -> None:
    """Put a sample into the sorted group of `size` samples."""
    position = size
    while position > 0 and costs[position - 1] > cost:
        costs[position], samples[position] = costs[position - 1], samples[position - 1]
        position -= 1
    costs[position], samples[position] = cost, sample


@_compiled
def _take(costs: Numbers, samples: Numbers, size: int, position: int) -> None:
    """Close the gap that a sample leaves."""
    for index in range(position, size - 1):
        costs[index], samples[index] = costs[index + 1], samples[index + 1]


@_compiled
def refine(
    falling: Numbers, order: Numbers, group_of: Numbers, num_groups: int, target: int,
    memory: Numbers, limit: int, max_sweeps: int,
) -> Numbers:  # fmt: skip
    """Swap samples between groups until none is heavier than `target`, or nothing helps; return the group of each.

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
    sizes, loads = np.zeros(num_groups, np.int64), np.zeros(num_groups, np.int64)
    used = np.zeros(num_groups, np.int64)
    # (group, slot): the samples of each group and their costs, rising; a group has one slot to spare during a swap
    member_costs = np.empty((num_groups, order.size // num_groups + 2), np.int64)
    members = np.empty_like(member_costs)
    result = group_of.copy()
    for item in range(order.size - 1, -1, -1):  # the lightest first, so that costs rise along a group
        sample = order[item]
        group = group_of[sample]
        members[group, sizes[group]] = sample
        member_costs[group, sizes[group]] = falling[item]
        sizes[group] += 1
        loads[group] += falling[item]
        if limit >= 0:
            used[group] += memory[sample]
    sweep = 0
    while sweep < max_sweeps:
        sweep += 1
        ranking = heaviest_first(loads)
        if loads[ranking[0]] <= target:
            break
        helped = False
        for pair in range(num_groups // 2):
            heavy, light = ranking[pair], ranking[num_groups - 1 - pair]
            if loads[heavy] <= target:
                break
            helped |= _swap_once(heavy, light, target, member_costs, members, sizes, loads, memory, used, limit, result)
        if not helped:  # then the heaviest tries every partner
            heavy = ranking[0]
            for partner in range(num_groups - 1, 0, -1):
                if _swap_once(
                    heavy, ranking[partner], target, member_costs, members, sizes, loads, memory, used, limit, result
                ):
                    helped = True
                    break
            if not helped:
                break
    return result


@_compiled
def _swap_once(
    heavy: int, light: int, target: int, member_costs: Numbers, members: Numbers, sizes: Numbers, loads: Numbers,
    memory: Numbers, used: Numbers, limit: int, result: Numbers,
) -> bool:  # fmt: skip
    """Make the best swap between two groups, if one helps."""
    gap = loads[heavy] - loads[light]
    if gap <= 1:
        return False
    room, other_room = -1, -1
    if limit >= 0:
        room, other_room = limit - used[heavy], limit - used[light]
    one, other, shift = _best_swap(
        member_costs[heavy], sizes[heavy], member_costs[light], sizes[light], gap, loads[heavy] - target,
        target - loads[light], members[heavy], members[light], memory, room, other_room,
    )  # fmt: skip
    if one < 0:
        return False
    cost, sample, other_sample = member_costs[heavy, one], members[heavy, one], np.int64(-1)
    _take(member_costs[heavy], members[heavy], sizes[heavy], one)
    sizes[heavy] -= 1
    if other >= 0:
        other_cost, other_sample = member_costs[light, other], members[light, other]
        _take(member_costs[light], members[light], sizes[light], other)
        sizes[light] -= 1
        _put(member_costs[heavy], members[heavy], sizes[heavy], other_cost, other_sample)
        sizes[heavy] += 1
        result[other_sample] = heavy
    _put(member_costs[light], members[light], sizes[light], cost, sample)
    sizes[light] += 1
    result[sample] = light
    loads[heavy] -= shift
    loads[light] += shift
    if limit >= 0:
        needs = memory[sample] - (memory[other_sample] if other >= 0 else 0)
        used[heavy] -= needs
        used[light] += needs
    return True
