"""The state of a sampler leads any number of ranks on, and a state that does not fit is refused."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loader.made_sampler import make

from paceline import LengthPlan, MixedPlan, PacelineError, PlanSampler, Tail
from paceline.plan import EpochPlan


@given(st.integers(0, 5), st.integers(1, 5), st.integers(1, 5), st.integers(0, 9))
def test_a_checkpoint_taken_anywhere_goes_on_exactly_once(step: int, ranks: int, batch: int, epoch: int) -> None:
    before = []
    for rank in range(7):
        sampler = make(rank=rank, seed=epoch)
        sampler.set_epoch(epoch)
        lists = list(sampler)  # fetched ahead: all of it
        before += [sample for ids in lists[:step] for sample in ids]
        state = sampler.state_dict(step=step)
    after = []
    for rank in range(ranks):
        sampler = make(rank=rank, ranks=ranks, batch=batch, seed=epoch)
        sampler.load_state_dict(json.loads(json.dumps(state)))
        sampler.set_epoch(epoch)
        steps = len(sampler)
        lists = list(sampler)
        assert len(lists) == steps
        after += [sample for ids in lists for sample in ids]
    assert Counter(before + after) == Counter(range(100))


@pytest.mark.parametrize("tail", list(Tail))
def test_on_the_same_ranks_it_goes_on_as_if_nothing_had_happened(tail: Tail) -> None:
    sampler = make(tail=tail)
    sampler.set_epoch(2)
    whole = list(sampler)
    for step in range(len(whole)):
        other = make(tail=tail)
        other.load_state_dict(sampler.state_dict(step=step))
        assert other.epoch == 2
        assert list(other) == whole[step:]
        third = make(tail=tail)
        other.load_state_dict(sampler.state_dict(step=step))
        third.load_state_dict(other.state_dict(step=1))
        if step + 1 < len(whole):
            assert list(third) == whole[step + 1 :]
        else:
            assert third.epoch == 3


def test_without_a_step_the_state_is_what_was_handed_out() -> None:
    sampler = make()
    whole = list(make())
    iterator = iter(sampler)
    for step in range(1, 4):
        next(iterator)
        other = make()
        other.load_state_dict(sampler.state_dict())
        assert list(other) == whole[step:]


def test_states_are_equal_on_all_ranks_and_small() -> None:
    states = [make(10**9, rank=rank, seed=3).state_dict(step=1000) for rank in range(7)]
    assert all(state == states[0] for state in states)
    assert len(json.dumps(states[0])) < 300


def test_what_was_left_is_left_only_once() -> None:
    """A resumed epoch is short; the ones after it are whole, also where nobody calls set_epoch."""
    sampler = make()
    whole = list(sampler)
    sampler.load_state_dict(sampler.state_dict(step=2))
    peek = next(iter(sampler))  # to look at one batch is not to go through it
    assert peek == whole[2]
    assert len(sampler) == 3
    iterator = iter(sampler)
    assert [next(iterator) for _ in range(3)] == whole[2:]
    assert next(iterator, None) is None
    assert len(sampler) == 3, "workers end the pass before the loop does: its length must not change under it"
    assert list(sampler) == whole
    assert len(sampler) == 5


def test_more_steps_than_were_handed_out_are_refused() -> None:
    """After a resume, a loop that goes on counting from the epoch's begin would skip samples."""
    sampler = make()
    sampler.load_state_dict(sampler.state_dict(step=2))
    next(iter(sampler))
    with pytest.raises(ValueError, match="cannot have consumed 3 batches: 1 were handed out"):
        sampler.state_dict(step=3)


def test_another_epoch_is_whole_after_a_resume() -> None:
    sampler = make()
    sampler.load_state_dict(sampler.state_dict(step=2))
    sampler.set_epoch(1)
    assert len(sampler) == 5


def test_a_state_from_the_end_of_an_epoch_leads_to_the_next() -> None:
    sampler = make()
    sampler.set_epoch(3)
    list(sampler)
    for state in (sampler.state_dict(), sampler.state_dict(step=5)):
        other = make(ranks=2, batch=1)
        other.load_state_dict(state)
        assert other.epoch == 4
        assert len(other) == 50
        other.set_epoch(3)  # a loop that begins with the epoch of the checkpoint
        assert list(other) == []
        other.set_epoch(4)
        assert len(list(other)) == 50


def test_what_a_tail_dropped_stays_dropped_after_the_last_step() -> None:
    sampler = make(tail="drop")
    other = make(tail="drop", ranks=1, batch=1)
    other.load_state_dict(sampler.state_dict(step=4))
    assert other.epoch == 1


def test_plans_by_length_and_of_mixtures_resume_too() -> None:
    lengths = [(7 * i) % 31 + 1 for i in range(200)]
    pairs: list[tuple[EpochPlan, EpochPlan]] = [
        (LengthPlan(lengths, world_size=4, max_tokens=100), LengthPlan(lengths, world_size=3, max_tokens=100)),
        (
            MixedPlan([90, 30], weights=[1, 1], world_size=4, batch_size=3, until="all_seen"),
            MixedPlan([90, 30], weights=[1, 1], world_size=3, batch_size=5, until="all_seen"),
        ),
    ]
    for whole, fewer in pairs:
        samplers = [PlanSampler.of(whole, rank=rank) for rank in range(4)]
        expected = Counter(i for sampler in samplers for ids in sampler for i in ids)
        done = Counter(i for sampler in samplers for ids in list(sampler)[:4] for i in ids)
        state = json.loads(json.dumps(samplers[0].state_dict(step=4)))
        for rank in range(3):
            other = PlanSampler.of(fewer, rank=rank)
            other.load_state_dict(state)
            done.update(i for ids in other for i in ids)
        assert done == expected


def test_an_iterator_knows_its_own_place() -> None:
    sampler = make()
    whole = list(sampler)
    used, fresh = iter(sampler), iter(sampler)
    assert [next(used) for _ in range(3)] == whole[:3]
    for iterator, step in ((used, 3), (fresh, 0)):
        other = make()
        resumed = iter(other)
        resumed.load_state_dict(iterator.state_dict())
        assert list(resumed) == whole[step:]


def test_of_two_iterators_the_one_that_handed_out_last_counts() -> None:
    sampler = make()
    first, second = iter(sampler), iter(sampler)
    next(first), next(first), next(second)
    assert sampler.state_dict()["consumed"] == 21
    next(first)
    assert sampler.state_dict()["consumed"] == 63


def test_setting_an_epoch_forgets_what_was_handed_out() -> None:
    sampler = make()
    next(iter(sampler))
    sampler.set_epoch(4)
    state = sampler.state_dict()
    assert (state["epoch"], state["consumed"]) == (4, 0)


def test_loading_forgets_what_was_handed_out_and_a_refused_state_changes_nothing() -> None:
    sampler = make()
    iterator = iter(sampler)
    next(iterator)
    next(iterator)
    with pytest.raises(ValueError, match="another seed"):
        sampler.load_state_dict(make(seed=5).state_dict(step=1))
    assert sampler.state_dict()["consumed"] == 42
    sampler.load_state_dict(make().state_dict(step=3))
    assert sampler.state_dict()["consumed"] == 63


def test_an_ended_epoch_is_over_only_until_another_one_is_asked_for() -> None:
    sampler = make()
    sampler.load_state_dict(make().state_dict(step=5))
    sampler.set_epoch(0)
    assert [list(sampler), list(sampler), len(sampler)] == [[], [], 0]
    over = make()
    over.load_state_dict(sampler.state_dict())  # a state of what is over is over too
    assert over.epoch == 1
    sampler.set_epoch(1)
    sampler.set_epoch(0)
    assert len(list(sampler)) == 5
    sampler.load_state_dict(make().state_dict(step=2))
    assert (sampler.epoch, len(sampler)) == (0, 3)


def test_the_end_of_a_length_plan_can_be_saved_and_loaded() -> None:
    plan = LengthPlan([3] * 20, world_size=2, batch_size=4)
    sampler = PlanSampler.of(plan, rank=0)
    list(sampler)
    other = PlanSampler.of(plan, rank=1)
    other.load_state_dict(sampler.state_dict())
    other.set_epoch(0)
    third = PlanSampler.of(plan, rank=1)
    third.load_state_dict(other.state_dict())
    assert (len(other), third.epoch) == (0, 1)


def test_a_rest_that_the_tail_drops_is_told() -> None:
    state = make(ranks=1, batch=10, tail="drop").state_dict(step=9)
    sampler = make(tail="drop")
    with pytest.warns(UserWarning, match="epoch 0 ends here: .*the 10 samples that are left do not fill one step"):
        sampler.load_state_dict(state)
    assert sampler.epoch == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_samples": 101}, "another dataset or mixture: num_samples was 100, here it is 101"),
        ({"seed": 4}, "another seed: seed was 0, here it is 4"),
        ({"shuffle": False}, "another shuffle: shuffle was True, here it is False"),
    ],
)
def test_a_state_of_another_dataset_or_seed_is_refused(changed: dict[str, Any], message: str) -> None:
    state = make().state_dict(step=1)
    with pytest.raises(ValueError, match=message) as caught:
        make(**changed).load_state_dict(state)
    assert isinstance(caught.value, PacelineError)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version was 2"),
        ({"consumed": 101}, "consumed must be"),
        ({"consumed": -3}, "consumed must be"),
        ({"epoch": 1.5}, "epoch of the state must be"),
        ({"fingerprint": "x"}, "another order of samples"),
    ],
)
def test_a_broken_state_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make().load_state_dict(make().state_dict(step=1) | change)
    with pytest.raises(ValueError, match="missing"):
        make().load_state_dict({"epoch": 1})
    with pytest.raises(ValueError, match="is a dict, got NoneType"):
        make().load_state_dict(None)  # type: ignore[arg-type]
