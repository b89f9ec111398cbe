"""Plans by length: equal steps, each sample once, within the budget."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import LengthPlan, PacelineError, Tail
from paceline.errors import EmptyPlanError, InputError

LENGTHS = st.lists(st.integers(0, 60), min_size=1, max_size=200)
RANKS = st.integers(1, 7)


def batches(plan: LengthPlan, epoch: int = 0) -> list[list[list[int]]]:
    """Every rank's batches without padding: [rank][step]."""
    return [
        [[sample for sample in row if sample >= 0] for row in plan.rows(rank, epoch).tolist()]
        for rank in range(plan.world_size)
    ]


def count(plan: LengthPlan, epoch: int = 0, num_steps: int | None = None) -> Counter[int]:
    return Counter(sample for rank in batches(plan, epoch) for batch in rank[:num_steps] for sample in batch)


@given(LENGTHS, RANKS, st.integers(60, 200), st.integers(1, 20), st.booleans(), st.integers(0, 3))
def test_each_sample_comes_once_in_equal_steps_within_the_budget(
    lengths: list[int], world_size: int, max_tokens: int, batch_size: int, shuffle: bool, epoch: int
) -> None:
    plan = LengthPlan(
        lengths, world_size=world_size, max_tokens=max_tokens, batch_size=batch_size, shuffle=shuffle, seed=5
    )
    assert count(plan, epoch) == Counter(range(len(lengths)))
    for rank, steps in enumerate(batches(plan, epoch)):
        assert len(steps) == plan.num_steps
        for step, batch in enumerate(steps):
            assert plan.num_real(step, rank=rank) == len(batch) <= plan.batch_size_of(step) <= batch_size
            assert max((lengths[sample] for sample in batch), default=0) <= plan.longest_of(step)
            assert plan.batch_size_of(step) * plan.longest_of(step) <= max_tokens
    summary = plan.summary()
    assert (summary.num_used, summary.num_dropped, summary.num_repeated) == (len(lengths), 0, 0)
    slots = sum(plan.batch_size_of(step) for step in range(plan.num_steps)) * world_size
    assert summary.num_padded == slots - len(lengths)


@given(LENGTHS, RANKS, st.sampled_from(list(Tail)), st.integers(1, 6))
def test_the_tails_count_what_they_do(lengths: list[int], world_size: int, tail: Tail, batch_size: int) -> None:
    # a single bucket needs a full step under drop, and a row for each rank under even; so do several
    least = {Tail.DROP: world_size * batch_size, Tail.EVEN: world_size}.get(tail, 1)
    if len(lengths) < least:
        with pytest.raises(EmptyPlanError, match="no step can be made"):
            LengthPlan(lengths, world_size=world_size, batch_size=batch_size, tail=tail)
        return
    plan = LengthPlan(lengths, world_size=world_size, batch_size=batch_size, tail=tail)
    counts, summary = count(plan, 1), plan.summary()
    assert summary.num_used == len(counts)
    assert summary.num_dropped == len(lengths) - len(counts)
    assert summary.num_repeated == sum(counts.values()) - len(counts)
    sizes = [[len(batch) for batch in rank] for rank in batches(plan, 1)]
    if tail in (Tail.DROP, Tail.EVEN):
        assert summary.num_dropped < world_size * (batch_size if tail is Tail.DROP else 1)
    if tail in (Tail.EVEN, Tail.REPEAT, Tail.DROP):
        assert all(rank == sizes[0] for rank in sizes)


@given(LENGTHS, RANKS, st.integers(60, 120), st.integers(0, 2), st.data())
def test_where_is_the_inverse_of_rows(
    lengths: list[int], world_size: int, max_tokens: int, epoch: int, data: st.DataObject
) -> None:
    plan = LengthPlan(lengths, world_size=world_size, max_tokens=max_tokens)
    step = data.draw(st.integers(0, plan.num_steps - 1))
    dealt = sum(plan.num_real(before) for before in range(step))
    rest = plan.resume(dealt, world_size=data.draw(RANKS))
    rows = np.stack([rest.rows(rank, epoch) for rank in range(rest.world_size)])
    for sample in range(len(lengths)):
        rank_step_slot = rest.where(sample, epoch)
        assert (rows == sample).sum() == (rank_step_slot is not None)
        if rank_step_slot is not None:
            assert rows[rank_step_slot] == sample


@given(LENGTHS, st.lists(st.tuples(st.integers(0, 3), RANKS), min_size=1, max_size=4), st.booleans())
def test_an_epoch_resumed_on_other_ranks_sees_each_sample_once(
    lengths: list[int], changes: list[tuple[int, int]], shuffle: bool
) -> None:
    whole = LengthPlan(lengths, world_size=3, max_tokens=80, shuffle=shuffle)
    plan, total = whole, Counter[int]()
    for wanted, world_size in changes:
        steps = min(wanted, plan.num_steps - 1)
        total += count(plan, 2, steps)
        progress = plan.progress(steps)
        plan = plan.resume(sum(plan.num_real(step) for step in range(steps)), world_size)
        # what a checkpoint holds leads to the same plan
        fresh = LengthPlan(lengths, world_size=world_size, max_tokens=80, shuffle=shuffle)
        assert batches(fresh.at(progress), 2) == batches(plan, 2)
    assert total + count(plan, 2) == Counter(range(len(lengths)))


@given(LENGTHS, RANKS, st.data())
def test_resume_on_the_same_ranks_goes_on_as_if_nothing_had_happened(
    lengths: list[int], world_size: int, data: st.DataObject
) -> None:
    plan = LengthPlan(lengths, world_size=world_size, max_tokens=90)
    step = data.draw(st.integers(0, plan.num_steps - 1))
    rest = plan.resume(sum(plan.num_real(before) for before in range(step)))
    assert batches(rest, 1) == [rank[step:] for rank in batches(plan, 1)]
    assert rest.summary().num_used == sum(rest.num_real(later) for later in range(rest.num_steps))


def test_epochs_mix_samples_anew_and_buckets_keep_their_sequence() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 5000)
    plan = LengthPlan(lengths, world_size=4, max_tokens=1000)
    first, second = batches(plan, 0), batches(plan, 1)
    assert first != second
    assert [len(batch) for batch in first[0]] == [len(batch) for batch in second[0]]
    together = [{frozenset(batch) for rank in epoch for batch in rank} for epoch in (first, second)]
    assert not together[0] & together[1], "no batch of one epoch comes again in the next"
    longest = [plan.longest_of(step) for step in range(plan.num_steps)]
    assert longest != sorted(longest), "buckets are mixed over the epoch"


def test_padding_to_the_bucket_wastes_little() -> None:
    lengths = np.clip(np.random.default_rng(0).lognormal(5, 1, 200_000).astype(int), 1, 4096)
    assert LengthPlan(lengths, world_size=8, max_tokens=16_384).fill > 0.9


def test_explicit_boundaries_make_those_buckets() -> None:
    plan = LengthPlan([1, 2, 3, 4, 5, 6, 7, 8], world_size=2, batch_size=2, boundaries=[4, 8], shuffle=False)
    assert [plan.longest_of(step) for step in range(plan.num_steps)] == [4, 8]
    assert batches(plan) == [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]


def test_a_million_lengths_lose_nothing() -> None:
    lengths = np.random.default_rng(1).zipf(1.5, 1_000_000).clip(0, 70_000)
    plan = LengthPlan(lengths, world_size=3, max_tokens=140_000, batch_size=256)
    ids = np.concatenate([plan.rows(rank).ravel() for rank in range(3)])
    assert (np.sort(ids[ids >= 0]) == np.arange(lengths.size)).all()


@pytest.mark.parametrize(
    ("lengths", "options", "message"),
    [
        ([3, 11, 4, 12], {"max_tokens": 10}, r"sample 1 \(and 1 more samples\) is longer .* length 11, max_tokens 10"),
        ([3, -1], {"max_tokens": 10}, "sample 1 has -1"),
        ([1.5], {"max_tokens": 10}, "whole numbers, got dtype float64"),
        ([], {"max_tokens": 10}, r"shape \(0,\)"),
        ([[1]], {"max_tokens": 10}, r"shape \(1, 1\)"),
        ([1], {}, "max_tokens, batch_size or both"),
        ([1], {"max_tokens": 0}, "max_tokens must be a whole number"),
        ([1], {"max_tokens": True}, "max_tokens must be a whole number"),
        ([1], {"batch_size": 2.0}, "batch_size must be a whole number"),
        ([1], {"batch_size": 2, "spread": -1}, "spread must be"),
        ([3, [], 4], {"batch_size": 2}, "one number per sample"),
        ([5], {"batch_size": 2, "spread": None}, "spread must be"),
        ([5], {"batch_size": 2, "boundaries": 5}, "boundaries must be rising"),
        ([5], {"batch_size": 2, "boundaries": [4]}, "the longest sample has 5"),
        ([5], {"batch_size": 2, "boundaries": [6, 6]}, "rising"),
        ([5], {"batch_size": 2, "tail": "drop"}, "no step can be made"),
        ([5], {"batch_size": 2, "shuffle": 1}, "shuffle must be True or False"),
        ([5], {"batch_size": 2, "tail": "wag"}, "tail must be one of"),
    ],
)
def test_wrong_input_is_named(lengths: object, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        LengthPlan(lengths, world_size=2, **options)  # type: ignore[arg-type]
    assert isinstance(caught.value, PacelineError)


def test_consumed_must_end_a_step() -> None:
    plan = LengthPlan([4] * 12, world_size=2, batch_size=2)
    with pytest.raises(ValueError, match="steps end at 4 and at 8 samples"):
        plan.resume(5)


def test_an_epoch_that_is_consumed_says_so() -> None:
    with pytest.raises(EmptyPlanError, match="all 4 samples are consumed; continue with the next epoch"):
        LengthPlan([3, 4, 5, 6], world_size=2, max_tokens=10).resume(4)


def test_a_budget_far_beyond_the_data_makes_no_wider_rows_than_needed() -> None:
    plan = LengthPlan([0, 0, 0], world_size=2, max_tokens=10**9)
    assert plan.row_width == 2
    assert plan.fill == 1.0


@pytest.mark.parametrize("history", [None, [], [1], [[1]], [[0, 3]], [[2, -1]], [[2, 4.0]]])
def test_a_broken_history_is_refused(history: object) -> None:
    with pytest.raises(InputError, match=r"history|samples must be"):
        LengthPlan([4] * 12, world_size=2, batch_size=2).at({"consumed": 4, "history": history})


def test_a_sum_that_does_not_fit_its_history_is_refused() -> None:
    with pytest.raises(InputError, match="is not the sum"):
        LengthPlan([4] * 12, world_size=2, batch_size=2).at({"consumed": 5, "history": [[2, 4]]})


def test_orders_are_the_same_on_every_machine_and_with_every_version() -> None:
    plan = LengthPlan([(7 * i) % 31 for i in range(60)], world_size=2, max_tokens=90, seed=5)
    assert [row[row >= 0].tolist() for row in plan.rows(1, epoch=2, num_steps=3)] == [
        [34, 21, 30],
        [52, 8, 26],
        [51, 38, 7, 56],
    ]
    rest = plan.resume(plan.num_real(0) + plan.num_real(1), world_size=3)
    assert [row[row >= 0].tolist() for row in rest.rows(2, epoch=2, num_steps=2)] == [[48, 4, 53], [20, 38, 16]]


def test_seeds_give_orders_of_their_own_and_fingerprints_tell_settings_apart() -> None:
    lengths = [(7 * i) % 31 for i in range(300)]

    def make(of: list[int] = lengths, **options: object) -> LengthPlan:
        return LengthPlan(of, world_size=2, **({"max_tokens": 90} | options))  # type: ignore[arg-type]

    assert batches(make(seed=1)) != batches(make(seed=2))
    longest = [[plan.longest_of(step) for step in range(plan.num_steps)] for plan in (make(seed=1), make(seed=2))]
    assert longest[0] != longest[1], "the sequence of buckets depends on the seed too"
    plans = [make(), make(seed=1), make(shuffle=False), make(max_tokens=80), make(batch_size=2), make(spread=0.5)]
    prints = [plan.fingerprint for plan in (*plans, make([length + 1 for length in lengths]))]
    assert len(set(prints)) == len(prints)
    assert make(max_tokens=np.int64(90)).fingerprint == make().fingerprint


def test_equal_lengths_in_different_buckets_are_shuffled_differently() -> None:
    plan = LengthPlan([1] * 64 + [9] * 64, world_size=1, batch_size=64, seed=4)
    first, second = sorted(batches(plan)[0])
    assert first != [sample - 64 for sample in second]


def test_progress_at_the_same_ranks_and_at_the_end() -> None:
    plan = LengthPlan([(7 * i) % 31 for i in range(60)], world_size=2, max_tokens=90)
    assert batches(plan.at(plan.progress(3))) == [rank[3:] for rank in batches(plan)]
    assert batches(plan.at(plan.at(plan.progress(2)).progress(1))) == [rank[3:] for rank in batches(plan)]
    assert plan.progress(plan.num_steps)["consumed"] == 60
    with pytest.raises(EmptyPlanError, match="all 60 samples are consumed"):
        plan.at(plan.progress(plan.num_steps))
    assert plan.at(plan.progress(3)).start == sum(plan.num_real(step) for step in range(3))


def test_the_rest_that_fills_no_step_is_refused() -> None:
    plan = LengthPlan([5] * 10, world_size=2, batch_size=2, tail="drop")
    with pytest.raises(EmptyPlanError, match="does not fill one step of 2 ranks"):
        plan.resume(8)


def test_a_resumed_plan_that_repeats_knows_where() -> None:
    plan = LengthPlan([4] * 5, world_size=1, batch_size=2, tail="repeat", shuffle=False).resume(4)
    assert plan.rows(0).tolist() == [[4, 0]]
    assert (plan.where(4), plan.where(0), plan.where(1)) == ((0, 0, 0), (0, 0, 1), None)


@pytest.mark.parametrize(("tail", "fill"), [("pad", 0.875), ("repeat", 0.875), ("drop", 1.0), ("even", 1.0)])
def test_fill_counts_only_rows_that_are_there(tail: Tail, fill: float) -> None:
    assert LengthPlan([8] * 7, world_size=2, batch_size=2, tail=tail).fill == fill


def test_no_spread_makes_a_bucket_of_each_length_however_long() -> None:
    plan = LengthPlan([5, 10**9, 5, 10**9], world_size=1, batch_size=2, spread=0)
    assert sorted(plan.longest_of(step) for step in range(plan.num_steps)) == [5, 10**9]


def test_a_plan_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        LengthPlan([1], world_size=1, batch_size=1).seed = 3  # type: ignore[misc]
    with pytest.raises(InputError, match="world_size"):
        LengthPlan([1, 1], world_size=1, batch_size=1).resume(0, world_size=True)
