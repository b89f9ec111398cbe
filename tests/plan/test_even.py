"""Plans with costs: the same steps, the same rows per rank, the same work on all of them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import Plan, PlanSampler, Tail
from paceline.errors import EmptyPlanError, InputError


def lengths(num: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).lognormal(5, 1, num).astype(np.int64)


@settings(max_examples=150, deadline=None)
@given(
    costs=st.lists(st.integers(0, 1000), min_size=1, max_size=80),
    world_size=st.integers(1, 5),
    batch_size=st.integers(1, 6),
    tail=st.sampled_from(Tail),
    shuffle=st.booleans(),
    epoch=st.integers(0, 3),
    consumed=st.integers(0, 80),
)
def test_costs_change_who_gets_a_row_and_nothing_else(
    costs: list[int], world_size: int, batch_size: int, tail: Tail, shuffle: bool, epoch: int, consumed: int
) -> None:
    def make(**named: Any) -> Plan:
        made = Plan(len(costs), world_size=world_size, batch_size=batch_size, tail=tail, shuffle=shuffle, **named)
        return made.resume(min(consumed, len(costs)), world_size=world_size + 1) if consumed % 2 else made

    try:
        plain = make()
    except EmptyPlanError:
        with pytest.raises(EmptyPlanError):
            make(costs=costs)
        return
    plan = make(costs=costs)
    ranks = range(plan.world_size)
    even, usual = (np.stack([p.rows(rank, epoch) for rank in ranks]) for p in (plan, plain))
    assert plan.summary() == plain.summary()
    assert ((even >= 0) == (usual >= 0)).all()  # rank by rank as many real rows, and these first
    for step in range(plan.num_steps):
        assert sorted(even[:, step].ravel()) == sorted(usual[:, step].ravel())
        loads = [sum(costs[sample] for sample in even[rank, step] if sample >= 0) for rank in ranks]
        assert plan.loads(step, epoch).tolist() == loads
    for sample in range(len(costs)):
        rank_step_slot = plan.where(sample, epoch)
        if plain.where(sample, epoch) is None:
            assert rank_step_slot is None
        else:
            assert rank_step_slot is not None
            assert even[rank_step_slot] == sample
    part = plan.rows(0, epoch, plan.num_steps // 2)
    assert (part == even[0, plan.num_steps // 2 :]).all()


def test_work_is_even_where_it_was_not() -> None:
    costs = lengths(4096)
    plan = Plan(4096, world_size=8, batch_size=64, costs=costs)
    plain = Plan(4096, world_size=8, batch_size=64)
    for step in range(plan.num_steps):
        loads = plan.loads(step)
        usual = np.array([costs[plain.rows(rank, 0, step, 1)].sum() for rank in range(8)])
        assert loads.sum() == usual.sum()
        assert loads.max() <= 1.001 * loads.mean() < usual.max()


def test_costs_may_be_fractions_and_are_part_of_the_fingerprint() -> None:
    costs = lengths(64) / 7
    plan = Plan(64, world_size=2, batch_size=8, costs=costs)
    same = Plan(64, world_size=2, batch_size=8, costs=costs.copy())
    other = Plan(64, world_size=2, batch_size=8, costs=costs[::-1])
    assert plan == same
    assert plan != other
    assert len({plan.fingerprint, other.fingerprint, Plan(64, world_size=2, batch_size=8).fingerprint}) == 3
    assert plan.resume(16).fingerprint == plan.fingerprint


@pytest.mark.parametrize(
    ("costs", "message"),
    [([1, 2], "one number per sample: 4 of them, got 2"), ([1, 2, 3, -4], "negative"), ([1.0, 2, 3, np.nan], "finite")],
)
def test_costs_that_cannot_be_used_are_named(costs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Plan(4, world_size=2, batch_size=1, costs=costs)


def test_loads_need_costs() -> None:
    with pytest.raises(InputError, match="without costs"):
        Plan(4, world_size=2, batch_size=1).loads(0)


def test_the_sampler_hands_out_the_plan_and_leaves_no_thread() -> None:
    costs = lengths(500)
    samplers = [
        PlanSampler(500, batch_size=16, num_replicas=3, rank=rank, seed=5, costs=costs) for rank in range(3)
    ]  # fmt: skip
    lists = [list(sampler) for sampler in samplers]
    assert [len(each) for each in lists] == [11, 11, 11]
    assert sorted(sample for each in lists for row in each for sample in row) == list(range(500))
    plan = samplers[1].plan
    assert lists[1] == [[sample for sample in row if sample >= 0] for row in plan.rows(1).tolist()]

    begun = iter(samplers[0])
    next(begun)
    state = samplers[0].state_dict()
    assert any(thread.name.startswith("paceline-plan") for thread in threading.enumerate())
    del begun  # a loop that was left early
    assert not any(thread.name.startswith("paceline-plan") for thread in threading.enumerate())

    rest = [PlanSampler(500, batch_size=16, num_replicas=2, rank=rank, seed=5, costs=costs) for rank in range(2)]
    for sampler in rest:
        sampler.load_state_dict(state)
    seen = [sample for sampler in rest for row in sampler for sample in row]
    first = [sample for each in lists for sample in each[0]]
    assert sorted(seen + first) == list(range(500))


def test_a_state_of_other_costs_is_refused() -> None:
    one = PlanSampler(50, batch_size=4, num_replicas=1, rank=0, costs=lengths(50))
    other = PlanSampler(50, batch_size=4, num_replicas=1, rank=0, costs=lengths(50, seed=1))
    with pytest.raises(InputError, match="another order of samples"):
        other.load_state_dict(one.state_dict())
