"""Groups on hosts: nothing is lost, the limit of bytes is kept, and loads are never less even than they were."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.balance import Partition, partition
from paceline.errors import InputError

Case = tuple[
    list[int], list[bool], list[int], list[int], int
]  # costs, real, bytes, host of each group, rows of a group


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw groups of one size on a few hosts, in any order, with samples of any cost and bytes."""
    num_groups, rows = draw(st.integers(1, 9)), draw(st.integers(1, 7))
    num = num_groups * rows
    cost = st.integers(0, 60) | st.integers(0, 1 << 40)
    costs = draw(st.lists(cost, min_size=num, max_size=num))
    real = draw(st.lists(st.booleans(), min_size=num, max_size=num) | st.just([True] * num))
    num_bytes = draw(st.lists(st.integers(0, 50), min_size=num, max_size=num) | st.just([1] * num))
    hosts = draw(st.lists(st.integers(0, 3), min_size=num_groups, max_size=num_groups))
    return costs, real, num_bytes, hosts, rows


def groups_of(parts: Partition, num: int) -> Any:
    group_of = np.full(num, -1)
    for group, samples in enumerate(parts.groups):
        group_of[samples] = group
    return group_of


def traffic(parts: Partition, case: Case) -> tuple[Any, Any]:
    """Return the bytes that each host sends and receives."""
    costs, real, num_bytes, hosts, rows = case
    host_of = np.array(hosts)
    before, after = np.repeat(host_of, rows), host_of[groups_of(parts, len(costs))]
    weights = np.where(real, num_bytes, 0) * (before != after)
    return np.bincount(before, weights, 4), np.bincount(after, weights, 4)


def cut(case: Case, **named: Any) -> Partition:
    costs, real, num_bytes, hosts, rows = case
    placement = np.repeat(np.arange(len(hosts)), rows)
    return partition(
        costs, len(hosts), placement=placement, real=np.array(real), hosts=hosts, sample_bytes=num_bytes, **named
    )


def loads_before(case: Case) -> Any:
    costs, real, _, hosts, rows = case
    return np.where(real, costs, 0).reshape(len(hosts), rows).sum(1)


@settings(max_examples=300, deadline=None)
@given(case=cases(), limit=st.none() | st.integers(0, 120), tolerance=st.sampled_from([0.0, 1e-3, 0.1, 2.0]))
def test_no_sample_is_lost_and_no_host_is_above_its_limit(case: Case, limit: int | None, tolerance: float) -> None:
    costs, _, _, hosts, rows = case
    parts = cut(case, host_bytes_limit=limit, tolerance=tolerance)
    assert [group.size for group in parts.groups] == [rows] * len(hosts)
    assert sorted(np.concatenate(parts.groups).tolist()) == list(range(len(costs)))
    sent, received = traffic(parts, case)
    assert sent.sum() == parts.bytes_crossed
    if limit is not None:
        assert max(sent.max(), received.max()) <= limit
    moved = groups_of(parts, len(costs)) != np.repeat(np.arange(len(hosts)), rows)
    assert parts.num_moved == moved.sum() >= parts.num_crossed


@settings(max_examples=300, deadline=None)
@given(case=cases(), limit=st.none() | st.integers(0, 120))
def test_the_heaviest_is_not_heavier_than_it_was(case: Case, limit: int | None) -> None:
    """Unless a group that had no real sample got one, which comes before even loads."""
    _, real, _, hosts, rows = case
    parts = cut(case, host_bytes_limit=limit, tolerance=1e-3)
    before = loads_before(case)
    num_real = np.array(real).reshape(len(hosts), rows).sum(1)
    if num_real.min() > 0:
        assert parts.loads.max() <= max(before.max(), 1.001 * parts.loads.max() / parts.max_over_bound)
    counts = [int(np.array(real)[group].sum()) for group in parts.groups]
    if limit is None and min(counts) == 0:
        assert max(counts) < 2
    assert sum(n == 0 for n in counts) <= (num_real == 0).sum()


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_what_is_even_enough_stays(case: Case) -> None:
    costs, _, num_bytes, hosts, rows = case
    even: Case = (np.tile(costs[:rows], len(hosts)).tolist(), [True] * len(costs), num_bytes, hosts, rows)
    assert cut(even).num_moved == 0


@pytest.mark.parametrize("kind", ["lognormal", "uniform", "squared"])
def test_usual_lengths_come_out_even_with_few_bytes_between_hosts(kind: str) -> None:
    random = np.random.default_rng(4)
    num_groups, rows = 64, 32
    lengths = {
        "lognormal": np.minimum(random.lognormal(5, 1, num_groups * rows), 2048).astype(np.int64),
        "uniform": random.integers(1, 2048, num_groups * rows),
        "squared": random.integers(1, 512, num_groups * rows) ** 2,
    }[kind]
    hosts, placement = np.arange(num_groups) // 8, np.repeat(np.arange(num_groups), rows)
    named: dict[str, Any] = {"placement": placement, "hosts": hosts, "sample_bytes": 8 * lengths}
    by_host, flat = partition(lengths, num_groups, **named), partition(lengths, num_groups, placement=placement)
    assert by_host.max_over_bound <= 1.001
    # what must cross at least: the excess of hosts, if it could be cut into samples of any size
    excess = np.maximum(
        0, np.bincount(hosts, lengths.reshape(num_groups, rows).sum(1)) / 8 * 64 / lengths.sum() - 1.001
    )
    assert by_host.bytes_crossed >= 8 * excess.sum() * 8 * lengths.sum() / 64
    group_of = groups_of(flat, lengths.size)
    of_flat = int(8 * lengths[hosts[group_of] != hosts[placement]].sum())
    assert by_host.bytes_crossed < 0.5 * of_flat


def test_a_limit_is_used_where_it_helps_most() -> None:
    """With less than is needed, loads come out less even than without a limit, and more even than they were."""
    random = np.random.default_rng(1)
    costs = np.minimum(random.lognormal(5, 1, 64 * 32), 2048).astype(np.int64)
    hosts, placement = np.arange(64) // 8, np.repeat(np.arange(64), 32)
    heaviest = [
        partition(
            costs, 64, placement=placement, hosts=hosts, sample_bytes=8 * costs, host_bytes_limit=limit
        ).loads.max()
        for limit in (0, 8_000, 64_000, None)
    ]
    assert heaviest[0] > heaviest[1] > heaviest[2] >= heaviest[3]
    assert heaviest[0] < costs.reshape(64, 32).sum(1).max()  # without any bytes, each host still evens out itself


def test_bytes_decide_who_crosses() -> None:
    """Two samples of the same cost: the smaller one travels."""
    parts = partition(
        [10, 10, 1, 1], 2, placement=[0, 0, 1, 1], hosts=["a", "b"], sample_bytes=[900, 30, 5, 5], tolerance=0
    )
    assert [group.tolist() for group in parts.groups] in ([[0, 2], [1, 3]], [[0, 3], [1, 2]])
    assert parts.bytes_crossed == 35


def test_a_host_of_one_group_and_one_of_many_share_their_work() -> None:
    costs = np.array([*[10] * 8, *[2] * 24])
    parts = partition(costs, 4, placement=np.repeat(np.arange(4), 8), hosts=[7, 3, 3, 3])
    assert parts.max_over_mean == 1.0


def test_the_same_groups_on_every_machine() -> None:
    costs = np.random.Generator(np.random.PCG64(11)).integers(1, 5000, 4096)
    parts = partition(costs, 32, placement=np.arange(4096) % 32, hosts=np.arange(32) % 5, sample_bytes=costs % 97)
    digest = hashlib.blake2b(np.concatenate(parts.groups).astype("<i8").tobytes(), digest_size=8)
    assert digest.hexdigest() == "97d173b74446e8af"


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"hosts": [0]}, "one number or name per group"),
        ({"hosts": [0.5, 1.0]}, "one number or name per group"),
        ({"hosts": [0, 1], "placement": None}, "give a placement"),
        ({"hosts": [0, 1], "placement": [0, 0, 0, 1]}, "1 to 3 samples in a group"),
        ({"hosts": [0, 1], "sample_bytes": [1]}, "one whole number per sample"),
        ({"hosts": [0, 1], "sample_bytes": [1 << 51, 1, 1, 1]}, "more than 2\\*\\*50"),
        ({"hosts": [0, 1], "host_bytes_limit": -1}, "host_bytes_limit"),
        ({"hosts": [0, 1], "method": "differencing"}, "deals from scratch"),
        ({"hosts": [0, 1], "memory": [1, 1, 1, 1], "memory_limit": 4}, "cannot be combined"),
        ({"sample_bytes": [1, 1, 1, 1]}, "give hosts too"),
        ({"host_bytes_limit": 5}, "give hosts too"),
    ],
)
def test_hosts_that_cannot_be_used_are_named(named: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        partition([1, 2, 3, 4], 2, **{"placement": [0, 0, 1, 1], **named})


def test_a_limit_beyond_what_can_be_counted_holds_nothing_back() -> None:
    named: dict[str, Any] = {"placement": [0, 0, 1, 1], "hosts": [0, 1]}
    groups = [partition([1, 2, 9, 4], 2, host_bytes_limit=limit, **named).groups for limit in (1 << 40, 10**20)]
    assert [group.tolist() for group in groups[0]] == [group.tolist() for group in groups[1]]
