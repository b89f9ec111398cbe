"""Groups of equal size and cost: valid for any input, never worse than differencing, the same everywhere."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.balance import MemoryLimitError, Partition, partition, quadratic
from paceline.errors import InputError
from pure_differencing import pure_differencing

METHODS = ("auto", "differencing", "longest_first", "swap_in_place")
COSTS = st.lists(st.integers(0, 50) | st.integers(0, 1 << 40), max_size=60)


def check_valid(parts: Partition, num: int, num_groups: int) -> None:
    """Each sample in one group, sizes that differ by at most 1."""
    assert len(parts.groups) == num_groups
    assert sorted(np.concatenate(parts.groups).tolist()) == list(range(num))
    sizes = [group.size for group in parts.groups]
    assert max(sizes) - min(sizes) <= 1


def heaviest(parts: Partition) -> int:
    return int(max(parts.loads))


@settings(max_examples=150, deadline=None)
@given(costs=COSTS, num_groups=st.integers(1, 9), method=st.sampled_from(METHODS), data=st.data())
def test_every_sample_is_in_one_group_and_sizes_are_even(
    costs: list[int], num_groups: int, method: str, data: st.DataObject
) -> None:
    placement = data.draw(st.lists(st.integers(0, num_groups - 1), min_size=len(costs), max_size=len(costs)))
    given_placement = placement if method == "swap_in_place" or data.draw(st.booleans()) else None
    parts = partition(costs, num_groups, method, given_placement)
    check_valid(parts, len(costs), num_groups)
    loads = [sum(costs[sample] for sample in group.tolist()) for group in parts.groups]
    assert parts.loads.tolist() == loads
    mean = sum(costs) / num_groups
    assert parts.max_over_mean == pytest.approx(max(loads) / mean if mean else 1.0)
    assert parts.max_over_bound >= 1 - 1e-12
    group_of = {sample: group for group, samples in enumerate(parts.groups) for sample in samples.tolist()}
    moved = 0 if given_placement is None else sum(group_of[sample] != place for sample, place in enumerate(placement))
    assert parts.num_moved == moved
    assert all((np.diff(group) > 0).all() for group in parts.groups)


@settings(max_examples=150, deadline=None)
@given(costs=COSTS, num_groups=st.integers(1, 9))
def test_auto_is_never_above_differencing(costs: list[int], num_groups: int) -> None:
    found = heaviest(partition(costs, num_groups))
    assert found <= heaviest(partition(costs, num_groups, "differencing"))
    longest_first = partition(costs, num_groups, "longest_first")
    assert found <= heaviest(longest_first) * 1.0001
    assert found <= max(sum(costs[sample] for sample in group) for group in pure_differencing(costs, num_groups))


def test_auto_takes_differencing_where_it_is_better() -> None:
    """Few samples of similar cost: longest-first is often above differencing there, and auto must not be."""
    random = np.random.default_rng(0)
    num_better = 0
    for _ in range(300):
        num_groups = int(random.integers(2, 9))
        costs = random.integers(1, 200, num_groups * int(random.integers(2, 6)))
        differencing = heaviest(partition(costs, num_groups, "differencing"))
        num_better += differencing < heaviest(partition(costs, num_groups, "longest_first"))
        assert heaviest(partition(costs, num_groups)) <= differencing
    assert num_better > 10


@settings(max_examples=200, deadline=None)
@given(costs=COSTS, num_groups=st.integers(1, 9))
def test_differencing_is_that_of_the_textbook(costs: list[int], num_groups: int) -> None:
    pure = sorted(sum(costs[sample] for sample in group) for group in pure_differencing(costs, num_groups))
    assert sorted(partition(costs, num_groups, "differencing").loads.tolist()) == pure


@settings(max_examples=60, deadline=None)
@given(costs=st.lists(st.integers(0, 30), min_size=1, max_size=7), num_groups=st.integers(1, 4))
def test_the_bound_is_one_and_small_cases_come_near_the_best(costs: list[int], num_groups: int) -> None:
    """All ways of grouping are tried: none is below the bound, and ours is within 4/3 of the best."""
    num = len(costs)
    least, num_wide = divmod(num, num_groups)
    best = None
    for choice in itertools.product(range(num_groups), repeat=num):
        sizes = [choice.count(group) for group in range(num_groups)]
        if sorted(sizes) != [least] * (num_groups - num_wide) + [least + 1] * num_wide:
            continue
        loads = [
            sum(cost for cost, at in zip(costs, choice, strict=True) if at == group) for group in range(num_groups)
        ]
        best = max(loads) if best is None else min(best, max(loads))
    parts = partition(costs, num_groups)
    assert best is not None
    if best:
        assert heaviest(parts) / parts.max_over_bound <= best + 1e-9
        assert best <= heaviest(parts) <= 4 / 3 * best


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=60),
    num_groups=st.integers(1, 9),
    method=st.sampled_from(METHODS),
    data=st.data(),
)
def test_padding_stands_last_and_no_group_goes_without(
    rows: list[tuple[int, bool]], num_groups: int, method: str, data: st.DataObject
) -> None:
    costs, real = [cost for cost, _ in rows], np.array([is_real for _, is_real in rows])
    placement = data.draw(st.lists(st.integers(0, num_groups - 1), min_size=len(rows), max_size=len(rows)))
    parts = partition(costs, num_groups, method, placement, real=real)
    check_valid(parts, len(rows), num_groups)
    counts = [int(real[group].sum()) for group in parts.groups]
    for group, num_real in zip(parts.groups, counts, strict=True):
        assert real[group[:num_real]].all()
        assert not real[group[num_real:]].any()
    if min(counts) == 0 and max(counts) > 1:  # only a group that has no row at all
        assert all(parts.groups[group].size == 0 for group, count in enumerate(counts) if count == 0)
    assert parts.loads.tolist() == [sum(costs[row] for row in group[real[group]].tolist()) for group in parts.groups]


@pytest.mark.parametrize("method", METHODS)
def test_padding_is_spread_where_costs_say_nothing(method: str) -> None:
    real = np.arange(40) < 12
    placement = np.arange(40) // 10
    parts = partition(np.zeros(40, int), 4, method if method != "swap_in_place" else "auto", real=real)
    assert [int(real[group].sum()) for group in parts.groups] == [3, 3, 3, 3]
    kept = partition(np.zeros(40, int), 4, "swap_in_place", placement, real=real)
    assert min(int(real[group].sum()) for group in kept.groups) >= 1


def test_a_real_sample_that_costs_nothing_is_not_padding() -> None:
    parts = partition([0, 0, 0, 0], 2, real=np.array([True, True, False, False]))
    assert sorted(group[0] for group in parts.groups) == [0, 1]
    assert sorted(group[1] for group in parts.groups) == [2, 3]


@pytest.mark.parametrize(("kind", "limit"), [("lognormal", 1.0001), ("uniform", 1.0001)])
def test_usual_lengths_come_out_even(kind: str, limit: float) -> None:
    random = np.random.default_rng(3)
    lengths = random.lognormal(5, 1, 8192).astype(np.int64) if kind == "lognormal" else random.integers(1, 4096, 8192)
    placement = np.arange(8192) // 128
    assert partition(lengths, 64).max_over_mean <= limit
    placed = partition(lengths, 64, placement=placement)
    assert placed.max_over_mean <= 1.002
    assert placed.num_moved <= 819


def test_a_giant_is_met_with_the_lightest() -> None:
    costs = [1000, *[10] * 63]
    parts = partition(costs, 8)
    assert heaviest(parts) == 1000 + 7 * 10
    assert parts.max_over_bound == 1.0


def test_with_a_placement_that_is_even_nothing_moves() -> None:
    placement = np.arange(128) % 4
    parts = partition(np.full(128, 7), 4, placement=placement)
    assert parts.num_moved == 0
    assert [set(placement[group].tolist()) for group in parts.groups] == [{0}, {1}, {2}, {3}]


def test_a_smaller_tolerance_moves_more() -> None:
    lengths = np.random.default_rng(1).lognormal(5, 1, 4096).astype(np.int64)
    placement = np.arange(4096) // 128
    rough = partition(lengths, 32, placement=placement, tolerance=0.05)
    fine = partition(lengths, 32, placement=placement, tolerance=1e-4)
    assert rough.num_moved < fine.num_moved
    assert rough.max_over_bound <= 1.05
    assert fine.max_over_mean <= 1.0002 < rough.max_over_mean


def test_where_swaps_in_place_get_stuck_auto_deals_anew() -> None:
    costs = np.minimum(np.random.default_rng(5).zipf(1.5, 8192), 100_000)
    placement = np.arange(8192) // 128
    stuck = partition(costs, 64, "swap_in_place", placement)
    anew = partition(costs, 64, "auto", placement)
    assert anew.max_over_bound <= min(1.001, stuck.max_over_bound)
    assert anew.max_over_mean <= partition(costs, 64, "differencing").max_over_mean


def test_groups_are_named_so_that_samples_stay() -> None:
    lengths = np.random.default_rng(2).integers(1, 100, 64)
    first = partition(lengths, 4, "longest_first")
    placement = np.empty(64, int)
    for group, samples in enumerate(first.groups):
        placement[samples] = 3 - group  # the same groups by other names
    assert partition(lengths, 4, "longest_first", placement).num_moved == 0


def test_sums_up_to_two_to_the_62_do_not_overflow() -> None:
    costs = [1 << 60, (1 << 60) - 4, 1 << 59, 1 << 59, 1 << 60, 3]
    for method in ("auto", "differencing", "longest_first"):
        parts = partition(costs, 2, method)
        assert sum(parts.loads.tolist()) == sum(costs)
        assert min(parts.loads) > 0
    with pytest.raises(InputError, match="more than 2"):
        partition([1 << 61, 1 << 61, 1], 2)
    with pytest.raises(InputError, match="more than 2"):
        partition(np.array([(1 << 64) - 1], dtype=np.uint64), 2)


def test_floats_are_scaled_and_come_back() -> None:
    parts = partition([0.5, 1.5, 2.25, 0.25], 2)
    assert parts.loads.dtype == np.float64
    assert sorted(parts.loads.tolist()) == [2.0, 2.5]
    assert partition([1e-300, 2e-300, 3e-300], 3).loads.sum() == pytest.approx(6e-300)
    assert sorted(partition([1e300, 2e300], 2).loads.tolist()) == pytest.approx([1e300, 2e300])


@pytest.mark.parametrize(
    ("costs", "named", "message"),
    [
        ([1, -2, 3], {}, "must not be negative: sample 1 has -2"),
        ([1.0, float("nan")], {}, "finite and not negative: sample 1 has nan"),
        ([float("inf")], {}, "sample 0 has inf"),
        ([[1, 2]], {}, "one number per sample"),
        (["a"], {}, "must be numbers"),
        ([1, 2], {"method": "best"}, "method must be one of"),
        ([1, 2], {"method": "swap_in_place"}, "give a placement"),
        ([1, 2], {"placement": [0]}, "one group per sample"),
        ([1, 2], {"placement": [0, 2]}, "from 0 to 1"),
        ([1, 2], {"real": [1, 0]}, "one boolean per sample"),
        ([1, 2], {"memory": [1, 2]}, "go together"),
        ([1, 2], {"memory": [1], "memory_limit": 3}, "one whole number per sample"),
        ([1, 2], {"tolerance": -1}, "tolerance must be"),
    ],
)
def test_what_cannot_be_used_is_named(costs: Any, named: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        partition(costs, 2, **named)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 20)), min_size=1, max_size=40),
    num_groups=st.integers(1, 6),
    slack=st.integers(0, 30),
    placed=st.booleans(),
)
def test_memory_is_respected_or_refused(rows: list[tuple[int, int]], num_groups: int, slack: int, placed: bool) -> None:
    costs, memory = [cost for cost, _ in rows], [need for _, need in rows]
    limit = max(*memory, -(-sum(memory) // num_groups)) + slack
    placement = [row % num_groups for row in range(len(rows))] if placed else None
    try:
        parts = partition(costs, num_groups, placement=placement, memory=memory, memory_limit=limit)
    except MemoryLimitError:
        return
    check_valid(parts, len(rows), num_groups)
    assert max(sum(memory[row] for row in group.tolist()) for group in parts.groups) <= limit


def test_memory_with_room_is_found_and_balanced() -> None:
    random = np.random.default_rng(7)
    lengths = random.lognormal(5, 1, 2048).astype(np.int64)
    limit = int(lengths.sum() / 16 * 1.005)
    parts = partition(lengths**2, 16, memory=lengths, memory_limit=limit)
    assert max(int(lengths[group].sum()) for group in parts.groups) <= limit
    assert parts.max_over_bound <= 1.05
    free = partition(lengths**2, 16)
    assert max(int(lengths[group].sum()) for group in free.groups) > limit  # it was in the way


def test_memory_that_cannot_hold_all_is_said() -> None:
    with pytest.raises(MemoryLimitError, match="need 12 together, the largest 5"):
        partition([1, 1, 1], 2, memory=[5, 4, 3], memory_limit=4)
    with pytest.raises(MemoryLimitError, match="no groups of memory 7 were found"):
        partition([1, 1, 1], 2, memory=[4, 4, 4], memory_limit=7)


def test_the_same_everywhere() -> None:
    """The groups of a fixed input, as one number: it changes only if some machine computes something else."""
    lengths = np.random.Generator(np.random.PCG64(11)).integers(1, 5000, 5000)
    digest = hashlib.blake2b(digest_size=8)
    for method in ("auto", "differencing", "longest_first"):
        for group in partition(lengths, 37, method).groups:
            digest.update(group.astype("<i8").tobytes())
    placed = partition(lengths, 37, placement=np.arange(5000) % 37)
    for group in placed.groups:
        digest.update(group.astype("<i8").tobytes())
    assert digest.hexdigest() == "870a0e446ff26643"


def test_any_kind_of_array_will_do() -> None:
    """Kernels take contiguous arrays of 64 bits: what callers have is turned into those."""
    costs = np.random.default_rng(0).integers(1, 1000, 600).astype(np.int32)[::2]
    real = np.ones(600, bool)[::2]
    placement = np.arange(600, dtype=np.uint8)[::2] % 7
    costs.flags.writeable = real.flags.writeable = placement.flags.writeable = False
    limit = int(costs.sum() // 6)
    for method in METHODS:
        plain = partition(costs.tolist(), 7, method, placement.tolist())
        for given_costs in (costs, costs.astype(np.uint64), costs.astype(">i8"), costs.astype(np.float32)):
            parts = partition(given_costs, 7, method, placement, real=real, memory=costs, memory_limit=10 * limit)
            assert [group.tolist() for group in parts.groups] == [group.tolist() for group in plain.groups]
        check_valid(partition(costs, 7, method, placement, real=real, memory=costs, memory_limit=limit), 300, 7)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), num=st.integers(100, 900), num_groups=st.integers(2, 4), heavy=st.booleans())
def test_auto_is_never_above_differencing_with_many_samples(seed: int, num: int, num_groups: int, heavy: bool) -> None:
    random = np.random.default_rng(seed)
    costs = random.lognormal(3, 2, num).astype(np.int64) if heavy else random.integers(10**6, 10**6 + 50, num)
    found = partition(costs, num_groups)
    assert heaviest(found) <= heaviest(partition(costs, num_groups, "differencing"))
    check_valid(found, num, num_groups)


def test_a_long_list_of_usual_lengths_has_a_cost() -> None:
    lengths = np.full(3_000_000, 500)
    lengths[7] = 8192
    costs = quadratic(lengths, width=4096)
    assert costs[7] > costs[0] > 0
    with pytest.raises(InputError, match="too large"):
        quadratic([10**9], width=10**6)


def test_no_samples_and_any_tolerance() -> None:
    assert [group.size for group in partition([], 3, real=[], memory=[], memory_limit=5).groups] == [0, 0, 0]
    assert partition([1, 2, 3, 9], 2, placement=[0, 0, 1, 1], tolerance=1e308).num_moved == 0
