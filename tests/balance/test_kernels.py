"""The kernels of the partition compute what their plain Python twins compute, number for number."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import plain_kernels as plain

from paceline.balance import kernels

COSTS = st.lists(st.integers(0, 9) | st.integers(0, 1 << 30) | st.integers(0, 1 << 55), max_size=70)
NUM_GROUPS = st.integers(1, 9)
MAX_SWEEPS = 40


def numbers(values: list[int]) -> kernels.Numbers:
    return np.array(values, dtype=np.int64)


def sorted_costs(costs: list[int]) -> tuple[list[int], list[int]]:
    order = plain.heaviest_first(costs)
    return [costs[sample] for sample in order], order


@settings(max_examples=200)
@given(st.lists(st.integers(-1, 40) | st.integers(0, 1 << 20) | st.integers(0, 1 << 62), max_size=90))
def test_the_heaviest_come_first_and_equal_ones_in_their_order(costs: list[int]) -> None:
    assert kernels.heaviest_first(numbers(costs)).tolist() == plain.heaviest_first(costs)


@given(st.integers(0, 5000), st.integers(1, 62), st.integers(0, 1000))
def test_long_arrays_are_sorted_alike(size: int, bits: int, seed: int) -> None:
    costs = np.random.default_rng(seed).integers(0, 1 << bits, size)
    assert (kernels.heaviest_first(costs) == np.argsort(-costs, kind="stable")).all()


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1 << 50), st.booleans()), max_size=60))
def test_groups_are_added_up_and_listed(rows: list[tuple[int, int, bool]]) -> None:
    group_of, costs, real = ([row[part] for row in rows] for part in range(3))
    assert kernels.sums_of(numbers(group_of), numbers(costs), 7).tolist() == plain.sums_of(group_of, costs, 7)
    members, ends = kernels.members_of(numbers(group_of), np.array(real, dtype=np.bool_), 7)
    groups = plain.members_of(group_of, [bool(flag) for flag in real], 7)
    assert members.tolist() == [sample for group in groups for sample in group]
    assert np.diff(ends, prepend=0).tolist() == [len(group) for group in groups]


@settings(max_examples=200)
@given(COSTS, NUM_GROUPS)
def test_longest_first_deals_alike(costs: list[int], num_groups: int) -> None:
    falling, order = sorted_costs(costs)
    dealt = kernels.deal_longest_first(numbers(falling), numbers(order), num_groups)
    assert dealt.tolist() == plain.deal_longest_first(falling, order, num_groups)


@settings(max_examples=200)
@given(COSTS, NUM_GROUPS)
def test_differencing_deals_alike(costs: list[int], num_groups: int) -> None:
    falling, order = sorted_costs(costs)
    dealt = kernels.deal_by_differencing(numbers(falling), numbers(order), num_groups)
    assert dealt.tolist() == plain.deal_by_differencing(falling, order, num_groups)


@given(st.integers(0, 100), st.sampled_from([(700, 300), (2500, 1200), (6000, 5000), (3000, 3)]), st.integers(1, 30))
@settings(max_examples=12)
def test_many_groups_are_dealt_alike(seed: int, shape: tuple[int, int], bits: int) -> None:
    """Sums are sorted in other ways where there are many, and where they lie close together."""
    num, num_groups = shape
    costs = np.random.default_rng(seed).integers(0, 1 << bits, num).tolist()
    falling, order = sorted_costs(costs)
    dealt = kernels.deal_by_differencing(numbers(falling), numbers(order), num_groups)
    assert dealt.tolist() == plain.deal_by_differencing(falling, order, num_groups)
    if num_groups < 1000:  # the plain one takes too long
        dealt = kernels.deal_longest_first(numbers(falling), numbers(order), num_groups)
        assert dealt.tolist() == plain.deal_longest_first(falling, order, num_groups)


@settings(max_examples=300)
@given(COSTS, NUM_GROUPS, st.data())
def test_swaps_are_the_same(costs: list[int], num_groups: int, data: st.DataObject) -> None:
    falling, order = sorted_costs(costs)
    start = data.draw(st.permutations([sample % num_groups for sample in range(len(costs))]))
    mean = sum(costs) // num_groups
    target = data.draw(st.sampled_from([mean, mean + mean // 1000, mean + mean // 10, 0]))
    memory = data.draw(st.lists(st.integers(0, 20), min_size=len(costs), max_size=len(costs)))
    limit = data.draw(st.sampled_from([-1, sum(memory) // num_groups, sum(memory) // num_groups + 10, 10**6]))
    sweeps = data.draw(st.sampled_from([1, 2, MAX_SWEEPS]))
    swapped = numbers(start)
    kernels.swap_until_even(
        numbers(falling), numbers(order), swapped, num_groups, target, numbers(memory), limit, sweeps
    )
    twin = plain.Refiner(falling, order, start, num_groups, target, memory, limit)
    assert swapped.tolist() == twin.run(sweeps)
