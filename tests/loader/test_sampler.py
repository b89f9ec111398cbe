"""The sampler hands out the lists of ids that the plan has for one rank, in one pass after another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loader.made_sampler import make

from paceline import LengthPlan, MixedPlan, PacelineError, Plan, PlanSampler, Tail
from paceline.loader.sampler_state import PlannedPass


@given(st.integers(1, 200), st.integers(1, 7), st.integers(1, 6), st.sampled_from(list(Tail)), st.integers(0, 3))
def test_the_lists_are_the_rows_of_the_plan_without_padding(
    num_samples: int, world_size: int, batch_size: int, tail: Tail, epoch: int
) -> None:
    try:
        plan = Plan(num_samples, world_size=world_size, batch_size=batch_size, tail=tail, seed=2)
    except PacelineError:
        return
    for rank in range(world_size):
        sampler = make(num_samples, ranks=world_size, rank=rank, batch=batch_size, tail=tail, seed=2)
        sampler.set_epoch(epoch)
        lists = list(sampler)
        assert lists == [[i for i in row if i >= 0] for row in plan.rows(rank, epoch).tolist()]
        assert len(lists) == len(sampler) == plan.num_steps
        assert [len(ids) for ids in lists] == [sampler.num_real(step) for step in range(len(sampler))]


def test_a_dataset_gives_its_length() -> None:
    assert list(PlanSampler(["a", "b", "c"], batch_size=2, shuffle=False)) == [[0, 1], [2]]


def test_a_rank_without_a_sample_in_the_last_step_gets_an_empty_list() -> None:
    assert list(make(8, ranks=7, rank=1, batch=1, shuffle=False)) == [[1], []]


def test_a_stand_in_fills_every_list() -> None:
    lists = [list(make(8, ranks=7, rank=rank, batch=2, stand_in=5, shuffle=False)) for rank in range(7)]
    assert lists[0] == [[0, 7]]
    assert lists[6] == [[6, 5]]
    sampler = make(8, ranks=7, rank=6, batch=2, stand_in=5)
    assert sampler.num_real(0) == 1


def test_iterating_changes_nothing() -> None:
    sampler = make()
    first = iter(sampler)
    iter(sampler)
    ahead = iter(sampler)
    next(ahead)
    next(ahead)
    assert list(first) == list(sampler) == list(sampler)


def test_a_stand_in_fills_batches_of_several_sizes() -> None:
    lengths = [1] * 13 + [9] * 5
    plan = LengthPlan(lengths, world_size=2, max_tokens=36, batch_size=6, shuffle=False)
    sizes = [plan.batch_size_of(step) for step in range(plan.num_steps)]
    assert sorted(set(sizes)) == [4, 6]
    for rank in range(2):
        sampler = PlanSampler.of(plan, rank=rank, stand_in=0)
        assert [len(ids) for ids in sampler] == sizes
        real = [sampler.num_real(step) for step in range(len(sampler))]
        assert sum(real) == sum(plan.num_real(step, rank=rank) for step in range(plan.num_steps))
    assert sum(plan.num_real(step) for step in range(plan.num_steps)) == 18 < 2 * sum(sizes)


def test_a_stand_in_of_a_mixture_may_be_any_sample_of_its_datasets() -> None:
    plan = MixedPlan([90, 30], weights=[1, 1], world_size=2, batch_size=7)
    assert PlanSampler.of(plan, rank=0, stand_in=119).stand_in == 119


def test_long_passes_are_handed_out_in_blocks_that_do_not_show() -> None:
    for num_samples, batch in ((20_000, 3), (300_000, 64), (5_000, 2_000)):
        sampler = make(num_samples, rank=3, batch=batch, seed=1)
        sampler.set_epoch(2)
        rows = sampler.plan.rows(3, 2)
        assert list(sampler) == [[i for i in row if i >= 0] for row in rows.tolist()]


def test_what_others_read_from_a_batch_sampler() -> None:
    assert [make(tail=tail).drop_last for tail in Tail] == [True, True, False, False]
    sampler = make(rank=2)
    assert (sampler.sampler, sampler.batch_size, sampler.num_replicas) == (sampler, 3, 7)


def test_the_plan_of_a_rest_is_refused() -> None:
    with pytest.raises(ValueError, match="after 42 samples: later epochs would miss those"):
        PlanSampler.of(Plan(100, world_size=7, batch_size=3).resume(42), rank=0)


def test_a_loop_that_never_asks_beyond_the_last_batch_ends_the_pass_too() -> None:
    sampler = make()
    whole = list(sampler)
    sampler.load_state_dict(sampler.state_dict(step=3))
    passes = []
    for _ in range(2):
        iterator = iter(sampler)
        passes.append([next(iterator) for _ in range(2)])
    assert passes == [whole[3:], whole[:2]]


def test_a_pass_keeps_its_epoch_while_the_next_is_being_set() -> None:
    sampler, other = make(20_000), make(20_000)  # more than one block of ids
    iterator = iter(sampler)
    first = [next(iterator)]
    sampler.set_epoch(1)
    assert first + list(iterator) == list(other), "what has begun goes on"


def count_begins(monkeypatch: pytest.MonkeyPatch) -> list[PlanSampler]:
    """Return a list to which each sampler that begins a pass is added."""
    begins: list[PlanSampler] = []
    begin = PlanSampler.begin

    def counted(sampler: PlanSampler) -> PlannedPass:
        begins.append(sampler)
        return begin(sampler)

    monkeypatch.setattr(PlanSampler, "begin", counted)
    return begins


def test_a_pass_begins_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begins = count_begins(monkeypatch)
    sampler = make()
    sampler.load_state_dict(sampler.state_dict(step=2))
    iter(sampler)
    assert sampler.state_dict()["consumed"] == 42
    assert begins == [], "making an iterator or a state begins nothing"
    for num_passes in (1, 2, 3):
        list(sampler)
        assert len(begins) == num_passes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make(0), "length of the dataset must be"),
        (lambda: PlanSampler([], batch_size=2), "the dataset is empty"),
        (lambda: PlanSampler(iter([1]), batch_size=2), "length of the dataset"),  # type: ignore[arg-type]
        (lambda: make(rank=7), "rank .* from 0 to 6, got 7"),
        (lambda: make(batch=True), "batch_size must be"),
        (lambda: make(stand_in=100), "stand_in must be a whole number from 0 to 99"),
        (lambda: PlanSampler.of(7), "expected a Plan"),  # type: ignore[arg-type]
        (lambda: make(tail="half"), "tail must be one of"),
        (lambda: make().set_epoch(-1), "epoch must be"),
        (lambda: make().set_epoch(2**64), "epoch must be"),
        (lambda: make().state_dict(step=6), "step must be a whole number from 0 to 5, got 6"),
        (lambda: make().num_real(5), "step must be"),
    ],
)
def test_wrong_input_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert isinstance(caught.value, PacelineError)
