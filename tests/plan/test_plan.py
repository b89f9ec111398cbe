"""The plan: equal steps, counted remainders, resume, by property and by exhaustion."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline import Plan, Tail

TAILS = list(Tail)


def all_rows(plan: Plan, epoch: int = 0) -> NDArray[np.int64]:
    """Every rank's rows: (rank, step, slot)."""
    return np.stack([plan.rows(rank, epoch) for rank in range(plan.world_size)])


def seen(plan: Plan, epoch: int = 0, num_steps: int | None = None) -> Counter[int]:
    """How often each sample comes in the first steps, over all ranks."""
    ids = all_rows(plan, epoch)[:, :num_steps]
    return Counter(ids[ids >= 0].tolist())


@st.composite
def plans(draw: st.DrawFn, most_samples: int = 400) -> Plan:
    world_size, batch_size = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    tail = draw(st.sampled_from(TAILS))
    least = {Tail.DROP: world_size * batch_size, Tail.EVEN: world_size}.get(tail, 1)
    return Plan(
        draw(st.integers(least, most_samples)),
        world_size=world_size,
        batch_size=batch_size,
        tail=tail,
        shuffle=draw(st.booleans()),
        seed=draw(st.integers(0, 2**64 - 1)),
    )


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 7])
def test_every_small_case_keeps_the_table_of_tails(tail: Tail, world_size: int) -> None:
    for batch_size in (1, 2, 3, 4, 8):
        step = world_size * batch_size
        for num_samples in range(1, 2 * step + 4):
            per_rank = num_samples // world_size
            num_steps, lost, repeated, padded = {
                Tail.DROP: (num_samples // step, num_samples % step, 0, 0),
                Tail.EVEN: (-(-per_rank // batch_size), num_samples % world_size, 0, 0),
                Tail.PAD: (-(-num_samples // step), 0, 0, -num_samples % step),
                Tail.REPEAT: (-(-num_samples // step), 0, -num_samples % step, 0),
            }[tail]
            if num_steps == 0:
                with pytest.raises(ValueError, match="no step can be made"):
                    Plan(num_samples, world_size=world_size, batch_size=batch_size, tail=tail)
                continue
            plan = Plan(num_samples, world_size=world_size, batch_size=batch_size, tail=tail, seed=num_samples)
            rows, counts = all_rows(plan), seen(plan)
            assert rows.shape == (world_size, num_steps, batch_size)
            assert dict(plan.summary()) == {
                "num_steps": num_steps,
                "num_used": len(counts),
                "num_dropped": lost,
                "num_padded": padded,
                "num_repeated": repeated,
            }
            assert len(counts) == num_samples - lost
            assert sum(counts.values()) == len(counts) + repeated
            if tail is not Tail.EVEN:
                assert (rows < 0).sum() == padded
            else:
                assert len({int(n) for n in (rows[:, -1] >= 0).sum(axis=1)}) == 1


@given(plans())
def test_a_step_is_full_until_the_last_and_ranks_differ_by_one_row_at_most(plan: Plan) -> None:
    real = all_rows(plan) >= 0
    assert real[:, :-1].all()
    counts = real.sum(axis=2)
    assert counts[:, -1].max() - counts[:, -1].min() <= 1
    assert counts[:, -1].max() > 0
    assert (np.diff(real.astype(int), axis=2) <= 0).all(), "real rows come first"
    for step in {0, plan.num_steps - 1}:
        assert plan.num_real(step) == counts[:, step].sum()
        for rank in range(plan.world_size):
            assert plan.num_real(step, rank=rank) == counts[rank, step]


@given(plans(), st.integers(0, 5))
def test_where_is_the_inverse_of_rows(plan: Plan, epoch: int) -> None:
    rows = all_rows(plan, epoch)
    for sample in range(plan.num_samples):
        rank_step_slot = plan.where(sample, epoch)
        if rank_step_slot is None:
            assert sample not in rows
        else:
            assert rows[rank_step_slot] == sample
            found = [(step, slot * plan.world_size + rank) for rank, step, slot in np.argwhere(rows == sample)]
            rank, step, slot = rank_step_slot
            assert min(found) == (step, slot * plan.world_size + rank), "the first of several slots"


@given(plans(), st.data())
def test_a_part_of_the_rows_is_that_part_of_all_rows(plan: Plan, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, plan.num_steps))
    count = data.draw(st.integers(0, plan.num_steps - first))
    rank = data.draw(st.integers(0, plan.world_size - 1))
    part = plan.rows(rank, 3, first, count)
    np.testing.assert_array_equal(part, plan.rows(rank, 3)[first : first + count])


@given(plans(), st.data())
def test_resume_on_the_same_ranks_goes_on_as_if_nothing_had_happened(plan: Plan, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, plan.num_steps - 1))
    rest = plan.resume(step * plan.world_size * plan.batch_size)
    np.testing.assert_array_equal(all_rows(rest, 2), all_rows(plan, 2)[:, step:])


CHANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 8), st.integers(1, 8)), max_size=5)


@given(st.integers(1, 300), st.sampled_from([Tail.PAD, Tail.REPEAT]), st.integers(0, 99), CHANGES)
def test_an_epoch_resumed_again_and_again_on_other_ranks_sees_each_sample_once(
    num_samples: int, tail: Tail, seed: int, changes: list[tuple[int, int, int]]
) -> None:
    plan = Plan(num_samples, world_size=3, batch_size=2, tail=tail, seed=seed)
    total: Counter[int] = Counter()
    for wanted, world_size, batch_size in changes:
        steps = min(wanted, plan.num_steps - 1)
        total += seen(plan, 4, steps)
        plan = plan.resume(steps * plan.world_size * plan.batch_size, world_size, batch_size)
    total += seen(plan, 4)
    assert set(total) == set(range(num_samples))
    assert sum(total.values()) == num_samples + plan.summary().num_repeated


@given(st.integers(60, 300), st.integers(0, 9))
def test_the_global_batch_does_not_depend_on_how_many_ranks_share_it(num_samples: int, seed: int) -> None:
    def steps(world_size: int, batch_size: int) -> list[set[int]]:
        plan = Plan(num_samples, world_size=world_size, batch_size=batch_size, seed=seed)
        return [set(all_rows(plan)[:, step].ravel().tolist()) - {-1} for step in range(plan.num_steps)]

    assert steps(1, 12) == steps(2, 6) == steps(3, 4) == steps(12, 1)


@given(plans())
def test_epochs_and_seeds_give_orders_of_their_own_and_the_same_again(plan: Plan) -> None:
    again = Plan(
        plan.num_samples,
        world_size=plan.world_size,
        batch_size=plan.batch_size,
        tail=plan.tail,
        shuffle=plan.shuffle,
        seed=plan.seed,
    )
    assert again == plan
    np.testing.assert_array_equal(all_rows(again, 7), all_rows(plan, 7))
    if plan.num_samples > 50:
        assert (all_rows(plan, 0) == all_rows(plan, 1)).all() == (not plan.shuffle)


def test_seed_and_epoch_are_not_added() -> None:
    one = Plan(1000, world_size=1, batch_size=1000, seed=1)
    other = Plan(1000, world_size=1, batch_size=1000, seed=0)
    assert (one.rows(0, epoch=0) != other.rows(0, epoch=1)).any()


@pytest.mark.parametrize("num_samples", [65_536, 65_537, 262_145, 1_048_577])
def test_large_plans_lose_and_repeat_nothing(num_samples: int) -> None:
    plan = Plan(num_samples, world_size=7, batch_size=32, seed=3)
    ids = all_rows(plan, 1)
    assert (np.sort(ids[ids >= 0]) == np.arange(num_samples)).all()


@pytest.mark.parametrize("num_samples", [10**9, 10**12, 2**62])
def test_huge_plans_are_as_quick_as_small_ones(num_samples: int) -> None:
    plan = Plan(num_samples, world_size=64, batch_size=32, seed=3)
    last = plan.num_steps - 2
    rows = plan.rows(63, epoch=5, first_step=last, num_steps=1)
    assert rows.shape == (1, 32)
    assert [plan.where(int(sample), 5) for sample in rows[0]] == [(63, last, slot) for slot in range(32)]
    middle = plan.resume(num_samples // 2, world_size=48)
    assert middle.rows(0, first_step=0, num_steps=1).shape == (1, 32)


def test_orders_are_the_same_on_every_machine_and_with_every_version() -> None:
    small = Plan(10, world_size=1, batch_size=10, seed=42)
    assert small.rows(0, epoch=3).tolist() == [[4, 7, 2, 9, 3, 6, 5, 1, 0, 8]]
    for num_samples, expected in {
        65_536: [6852, 52934, 65504],
        100_000: [95336, 38444, 85831],
        10**12: [35777807418, 474929588130, 107755585079],
    }.items():
        plan = Plan(num_samples, world_size=2, batch_size=3, seed=42)
        assert plan.rows(1, epoch=3, num_steps=1).tolist() == [expected]


def test_a_resumed_plan_counts_the_rest_only() -> None:
    plan = Plan(100, world_size=7, batch_size=3, tail="even")
    rest = plan.resume(42, world_size=5)
    assert dict(rest.summary()) == {
        "num_steps": 4,
        "num_used": 55,
        "num_dropped": 3,
        "num_padded": 0,
        "num_repeated": 0,
    }


@pytest.mark.parametrize("tail", TAILS)
def test_every_part_of_small_plans_is_that_part_of_all_rows(tail: Tail) -> None:
    for num_samples in (12, 17, 23, 24):
        plan = Plan(num_samples, world_size=2, batch_size=4, tail=tail)
        for rank in range(2):
            whole = plan.rows(rank, 1)
            for first in range(plan.num_steps + 1):
                for count in range(plan.num_steps - first + 1):
                    part = plan.rows(rank, 1, first, count)
                    np.testing.assert_array_equal(part, whole[first : first + count])


@given(plans(), st.data())
def test_where_of_a_resumed_plan_finds_what_its_rows_hold(plan: Plan, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, plan.num_steps - 1))
    rest = plan.resume(step * plan.world_size * plan.batch_size)
    rows = all_rows(rest, 1)
    for sample in range(plan.num_samples):
        rank_step_slot = rest.where(sample, 1)
        assert (rank_step_slot is None) == (sample not in rows)
        assert rank_step_slot is None or rows[rank_step_slot] == sample


def test_a_fingerprint_tells_orders_apart_and_nothing_else() -> None:
    def make(num_samples: int = 100, **options: Any) -> str:
        settings: dict[str, Any] = {"world_size": 7, "batch_size": 3} | options
        return Plan(num_samples, **settings).fingerprint

    assert len({make(), make(101), make(seed=1), make(shuffle=False)}) == 4
    assert make() == make(world_size=2, batch_size=5, tail="drop")
