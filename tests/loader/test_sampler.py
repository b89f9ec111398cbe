"""The sampler: lists of ids for one rank, and a state that leads any number of ranks on."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import LengthPlan, MixedPlan, PacelineError, Plan, PlanSampler, Tail
from paceline.loader.sampler_state import PlannedPass
from paceline.plan import EpochPlan


def make(num_samples: int = 100, *, ranks: int = 7, rank: int = 0, batch: int = 3, **options: Any) -> PlanSampler:
    return PlanSampler(num_samples, batch_size=batch, num_replicas=ranks, rank=rank, **options)


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
