"""Mixed plans: exact proportions, equal steps, nobody left out for long."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import MixedPlan, PacelineError, Tail

DATASETS = st.lists(st.tuples(st.integers(5, 60), st.floats(1, 4)), min_size=1, max_size=4)


def seen(plan: MixedPlan, epoch: int = 0, num_steps: int | None = None) -> Counter[int]:
    ids = np.stack([plan.rows(rank, epoch)[:num_steps] for rank in range(plan.world_size)])
    return Counter(ids[ids >= 0].tolist())


@given(DATASETS, st.integers(20, 150), st.integers(1, 5), st.integers(0, 9), st.booleans())
def test_an_epoch_draws_each_dataset_in_proportion(
    datasets: list[tuple[int, float]], num_samples: int, world_size: int, epoch: int, shuffle: bool
) -> None:
    sizes, weights = zip(*datasets, strict=True)
    plan = MixedPlan(
        sizes, weights=weights, world_size=world_size, batch_size=3, num_samples=num_samples, shuffle=shuffle
    )
    drawn = Counter[int]()
    for sample, times in seen(plan, epoch).items():
        drawn[plan.dataset_of(sample)[0]] += times
    assert [drawn[dataset] for dataset in range(len(sizes))] == [share.num_draws for share in plan.shares]
    assert sum(share.num_draws for share in plan.shares) == num_samples
    for share, weight in zip(plan.shares, weights, strict=True):
        assert abs(share.num_draws - num_samples * weight / sum(weights)) <= 1 + 1e-9


@given(DATASETS, st.integers(20, 100), st.integers(1, 6))
def test_over_epochs_samples_of_a_dataset_come_equally_often(
    datasets: list[tuple[int, float]], num_samples: int, num_epochs: int
) -> None:
    sizes, weights = zip(*datasets, strict=True)
    plan = MixedPlan(sizes, weights=weights, world_size=2, batch_size=3, num_samples=num_samples)
    total = sum((seen(plan, epoch) for epoch in range(num_epochs)), Counter[int]())
    first = 0
    for share in plan.shares:
        times = [total[sample] for sample in range(first, first + share.size)]
        assert max(times) - min(times) <= 1
        first += share.size


@given(DATASETS)
def test_until_says_whether_samples_repeat_or_are_left_out(datasets: list[tuple[int, float]]) -> None:
    sizes, weights = zip(*datasets, strict=True)
    first = MixedPlan(sizes, weights=weights, world_size=1, batch_size=1, tail="repeat")
    assert all(share.num_draws <= share.size for share in first.shares)
    assert all(times == 1 for times in seen(first).values())
    if max(size / weight for size, weight in datasets) * sum(weights) < 5000:
        every = MixedPlan(sizes, weights=weights, world_size=1, batch_size=1, until="all_seen")
        assert set(seen(every)) == set(range(sum(sizes)))
        assert [share.num_repeated for share in every.shares] == [s.num_draws - s.size for s in every.shares]


@given(DATASETS, st.integers(20, 60), st.integers(0, 3), st.sampled_from(list(Tail)))
def test_where_is_the_first_slot_of_a_sample(
    datasets: list[tuple[int, float]], num_samples: int, epoch: int, tail: Tail
) -> None:
    sizes, weights = zip(*datasets, strict=True)
    plan = MixedPlan(sizes, weights=weights, world_size=2, batch_size=2, num_samples=num_samples + 4, tail=tail)
    rows = np.stack([plan.rows(rank, epoch) for rank in range(2)])
    for sample in range(sum(sizes)):
        found = [(step, slot, rank) for rank, step, slot in np.argwhere(rows == sample).tolist()]
        rank_step_slot = plan.where(sample, epoch)
        assert (rank_step_slot is None) == (not found)
        if rank_step_slot is not None:
            rank, step, slot = rank_step_slot
            assert min(found) == (step, slot, rank)


@given(DATASETS, st.integers(1, 8), st.integers(1, 8))
def test_resume_on_other_ranks_draws_the_rest_exactly_once(
    datasets: list[tuple[int, float]], world_size: int, batch_size: int
) -> None:
    sizes, weights = zip(*datasets, strict=True)
    plan = MixedPlan(sizes, weights=weights, world_size=3, batch_size=2, num_samples=50)
    rest = plan.resume(12, world_size, batch_size)
    assert seen(plan, 1, 2) + seen(rest, 1) == seen(plan, 1)
    assert rest.fingerprint == plan.fingerprint
    assert seen(plan.at(plan.progress(2)), 1) == seen(rest, 1)


def test_sizes_and_weights_may_be_arrays() -> None:
    plan = MixedPlan(np.array([30, 40]), weights=np.array([1.0, 2.0]), world_size=1, batch_size=5)  # type: ignore[arg-type]
    assert [share.num_draws for share in plan.shares] == [20, 40]


def test_without_weights_it_is_the_concatenation() -> None:
    plan = MixedPlan([5, 7], world_size=2, batch_size=3)
    assert seen(plan) == Counter(range(12))


def test_a_small_dataset_drawn_often_comes_around() -> None:
    plan = MixedPlan([1000, 2], weights=[1, 1], world_size=4, batch_size=5, num_samples=2000)
    assert [share.num_repeated for share in plan.shares] == [0, 998]
    assert seen(plan)[1000] == seen(plan)[1001] == 500


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ([], {}, "a mixture needs"),
        ([3, 0], {}, "the size of dataset 1"),
        ([3, 4], {"weights": [1]}, r"got \[1\] for 2 datasets"),
        ([3, 4], {"weights": [1, 0]}, "the weight of dataset 1 must be above 0, got 0"),
        ([3, 4], {"weights": [1, float("nan")]}, "the weight of dataset 1"),
        ([3, 4], {"weights": [1, float("inf")]}, "the weight of dataset 1"),
        ([3, 4], {"until": "noon"}, "until must be one of 'first_exhausted', 'all_seen'"),
        (5, {}, "sizes must be one number per dataset, got 5"),
        ([3, 4], {"weights": 5}, "weights must be one number per dataset, got 5"),
        ([3, 4], {"weights": [1, "3"]}, "the weight of dataset 1 must be above 0, got '3'"),
        ([50, 1000], {"weights": [100, 1]}, "dataset 1 would never be drawn: its share of 50 draws rounds to 0"),
        ([3, 4], {"num_samples": 5, "until": "all_seen"}, "both say when the epoch ends"),
        ([3, 4], {"num_samples": 0}, "num_samples must be"),
        ([3, 4], {"tail": "drop"}, "no step can be made"),
    ],
)
def test_wrong_input_is_named(sizes: list[int], options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        MixedPlan(sizes, world_size=4, batch_size=2, **options)  # type: ignore[arg-type]
    assert isinstance(caught.value, PacelineError)


def test_orders_are_the_same_on_every_machine_and_with_every_version() -> None:
    plan = MixedPlan([40, 9, 7], weights=[5, 2, 3], world_size=2, batch_size=4, seed=5, until="all_seen")
    assert plan.rows(1, epoch=2, num_steps=2).tolist() == [[19, 51, 48, 8], [54, 26, 46, 1]]


def test_the_largest_remainders_are_rounded_up() -> None:
    plan = MixedPlan([100, 100, 100], weights=[1, 3.4, 5.6], world_size=1, batch_size=1, num_samples=11)
    assert [share.num_draws for share in plan.shares] == [1, 4, 6]  # exactly 1.1, 3.74, 6.16


def test_all_seen_rounds_up() -> None:
    plan = MixedPlan([10, 10], weights=[1, 2], world_size=1, batch_size=1, until="all_seen")
    assert [share.num_draws for share in plan.shares] == [10, 20]
    plan = MixedPlan([7, 1], weights=[4, 1], world_size=1, batch_size=1, until="all_seen")
    assert [share.num_draws for share in plan.shares] == [7, 2]  # of 8.75 draws, 8 would not do


def test_the_summary_counts_samples_that_are_seen_unseen_and_repeated() -> None:
    often = MixedPlan([1000, 2], weights=[1, 1], world_size=4, batch_size=5, num_samples=2000)
    summary = often.summary()
    assert (summary.num_used, summary.num_dropped, summary.num_repeated) == (1002, 0, 998)
    rarely = MixedPlan([900, 50], weights=[3, 1], world_size=2, batch_size=4)
    summary = rarely.summary()
    assert (summary.num_used, summary.num_dropped) == (len(seen(rarely)), 950 - len(seen(rarely)))
    dropping = MixedPlan([20, 20], world_size=3, batch_size=4, tail="drop").summary()
    assert (dropping.num_used, dropping.num_dropped) == (36, 4)


def test_fingerprints_tell_mixtures_apart() -> None:
    def make(weights: object) -> str:
        return MixedPlan([50, 50], weights=weights, world_size=1, batch_size=1, num_samples=40).fingerprint  # type: ignore[arg-type]

    assert make([3, 1]) == make(np.array([3, 1])) == make([np.int64(3), np.int64(1)])
    assert make([3, 1]) != make([1, 1])


def test_datasets_of_one_size_have_orders_of_their_own() -> None:
    plan = MixedPlan([64, 64], world_size=1, batch_size=128, num_samples=64, seed=1)
    drawn = sorted(seen(plan))
    first, second = [i for i in drawn if i < 64], [i - 64 for i in drawn if i >= 64]
    assert first != second
    assert first != list(range(32)), "an epoch does not take the first ones"


def test_where_is_quick_for_a_sample_that_is_drawn_a_million_times() -> None:
    plan = MixedPlan([10**6, 1], weights=[1, 1], world_size=2, batch_size=8, num_samples=2 * 10**6)
    rank_step_slot = plan.where(10**6)
    assert rank_step_slot is not None
    rank, step, slot = rank_step_slot
    assert plan.rows(rank, 0, step, 1)[0, slot] == 10**6
    assert plan.rows(0, 0, 0, 3).tolist() != []


def test_a_plan_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        MixedPlan([1], world_size=1, batch_size=1).shares = ()  # type: ignore[misc]
