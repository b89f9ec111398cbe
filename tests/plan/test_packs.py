"""Plans of packs: equal steps, within the budget, each sample once, even work, and a shuffle that does not sort."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import plain_kernels as plain

from paceline import PackPlan
from paceline.balance import quadratic
from paceline.errors import EmptyPlanError, InputError
from paceline.plan.packs.pack_forms import best_fit
from paceline.plan.packs.pack_layout import spread

LENGTHS = st.lists(st.integers(0, 60), min_size=1, max_size=150)
RANKS = st.integers(1, 7)
PACKS = st.integers(1, 3)


def squares(lengths: Any) -> Any:
    return lengths + lengths.astype(np.float64) ** 2 / 16


COSTS = st.sampled_from([None, squares, lambda lengths: quadratic(lengths, width=8)])


def steps_of(plan: PackPlan, epoch: int = 0) -> list[list[list[list[int]]]]:
    """The packs of every rank, as lists: [step][rank][pack]."""
    of_ranks = [plan.packs(rank, epoch) for rank in range(plan.world_size)]
    assert all(len(of_rank) == plan.num_steps for of_rank in of_ranks)
    return [[[pack.tolist() for pack in packs] for packs in step] for step in zip(*of_ranks, strict=True)]


def samples_of(steps: list[list[list[list[int]]]]) -> Counter[int]:
    return Counter(sample for step in steps for packs in step for pack in packs for sample in pack)


@given(st.lists(st.integers(1, 300), max_size=120), st.integers(300, 5000))
def test_best_fit_is_that_of_plain_python(lengths: list[int], room: int) -> None:
    """Of lengths from 1 on; `test_spreading` has those of pieces without tokens."""
    pack_of, num_packs = best_fit(np.array(lengths, dtype=np.int64), room)
    assert (pack_of.tolist(), num_packs) == plain.best_fit(lengths, room)


@given(st.lists(st.integers(0, 1 << 35), min_size=1, max_size=60))
def test_a_budget_of_very_many_tokens_is_kept(lengths: list[int]) -> None:
    budget = max(1, *lengths)
    pack_of, num_packs = best_fit(np.array(lengths, dtype=np.int64), budget)
    tokens = [
        sum(length for length, at in zip(lengths, pack_of, strict=True) if at == pack) for pack in range(num_packs)
    ]
    assert max(tokens) <= budget


@given(LENGTHS, RANKS, PACKS, st.integers(60, 200), st.booleans(), COSTS, st.integers(0, 3))
def test_each_sample_comes_once_in_equal_steps_within_the_budget(
    lengths: list[int], world_size: int, packs_per_step: int, max_tokens: int, shuffle: bool, cost: Any, epoch: int
) -> None:
    plan = PackPlan(
        lengths, world_size=world_size, max_tokens=max_tokens, packs_per_step=packs_per_step, shuffle=shuffle,
        cost=cost, seed=5,
    )  # fmt: skip
    steps = steps_of(plan, epoch)
    packs = [pack for step in steps for packs in step for pack in packs]
    assert samples_of(steps) == Counter(range(len(lengths)))
    assert len(packs) == plan.num_steps * world_size * packs_per_step
    assert max(sum(lengths[sample] for sample in pack) for pack in packs) <= max_tokens
    assert max(map(len, packs)) <= plan.most_samples
    # only the last step can have packs of padding, and fewer than a step has packs
    summary = plan.summary(epoch)
    assert (summary.num_used, summary.num_dropped, summary.num_cut) == (len(lengths), 0, 0)
    assert summary.num_padded == packs.count([]) == sum(pack == [] for packs in steps[-1] for pack in packs)
    assert summary.num_padded < world_size * packs_per_step
    assert summary.fill == pytest.approx(sum(lengths) / (len(packs) * max_tokens))
    assert summary == plan.summary(epoch + 1)


@given(LENGTHS, st.lists(st.tuples(st.integers(0, 3), RANKS, PACKS), min_size=1, max_size=4), st.booleans(), COSTS)
def test_an_epoch_resumed_on_other_ranks_sees_each_sample_once(
    lengths: list[int], changes: list[tuple[int, int, int]], shuffle: bool, cost: Any
) -> None:
    plan = PackPlan(lengths, world_size=3, max_tokens=70, shuffle=shuffle, cost=cost)
    seen = Counter[int]()
    for wanted, world_size, packs_per_step in changes:
        made = min(wanted, plan.num_steps - 1)
        seen += samples_of(steps_of(plan, 2)[:made])
        progress = plan.progress(made, epoch=2)
        plan = plan.resume(made, world_size, packs_per_step)
        # what a checkpoint holds leads to the same plan
        fresh = PackPlan(
            lengths, world_size=world_size, max_tokens=70, packs_per_step=packs_per_step, shuffle=shuffle, cost=cost
        ).at(progress)
        assert steps_of(fresh, 2) == steps_of(plan, 2)
        assert fresh.num_consumed(epoch=2) == plan.num_consumed(epoch=2) == progress["consumed"] == seen.total()
        assert plan.summary(2).num_used == len(lengths) - seen.total()
    assert seen + samples_of(steps_of(plan, 2)) == Counter(range(len(lengths)))


@given(st.lists(st.integers(0, 90), min_size=1, max_size=40), RANKS, PACKS)
def test_a_sample_counts_as_consumed_once_its_last_piece_was_seen(
    lengths: list[int], world_size: int, packs_per_step: int
) -> None:
    plan = PackPlan(lengths, world_size=world_size, max_tokens=20, packs_per_step=packs_per_step, too_long="split")
    of_ranks = [plan.packs(rank, 1) for rank in range(world_size)]
    left = Counter(sample for packs in of_ranks for step in packs for pack in step for sample in pack.tolist())
    for step in range(plan.num_steps):
        assert plan.progress(step, epoch=1)["consumed"] == sum(count == 0 for count in left.values())
        left.subtract(sample for packs in of_ranks for pack in packs[step] for sample in pack.tolist())
    assert plan.progress(plan.num_steps, epoch=1)["consumed"] == len(lengths)


@given(LENGTHS, RANKS, PACKS, st.data())
def test_resume_on_the_same_ranks_goes_on_as_if_nothing_had_happened(
    lengths: list[int], world_size: int, packs_per_step: int, data: st.DataObject
) -> None:
    plan = PackPlan(lengths, world_size=world_size, max_tokens=60, packs_per_step=packs_per_step)
    step = data.draw(st.integers(0, plan.num_steps - 1))
    assert steps_of(plan.resume(step), 1) == steps_of(plan, 1)[step:]
    assert steps_of(plan.at(plan.progress(step)), 1) == steps_of(plan, 1)[step:]
    with pytest.raises(EmptyPlanError, match="nothing is left"):
        plan.at(plan.progress(plan.num_steps))


@given(LENGTHS, RANKS, PACKS, st.booleans(), st.data())
def test_where_is_the_inverse_of_packs(
    lengths: list[int], world_size: int, packs_per_step: int, shuffle: bool, data: st.DataObject
) -> None:
    plan = PackPlan(lengths, world_size=3, max_tokens=60, shuffle=shuffle)
    rest = plan.resume(data.draw(st.integers(0, plan.num_steps - 1)), world_size, packs_per_step)
    steps = steps_of(rest, 1)
    for sample in range(len(lengths)):
        found = rest.where(sample, 1)
        assert (found is not None) == (samples_of(steps)[sample] == 1)
        if found is not None:
            rank, step, pack = found
            assert sample in steps[step][rank][pack]


@given(st.lists(st.integers(0, 200), min_size=1, max_size=60), RANKS, st.integers(1, 50), st.booleans())
def test_samples_longer_than_a_pack_are_split_or_cut_and_counted(
    lengths: list[int], world_size: int, max_tokens: int, shuffle: bool
) -> None:
    num_long = sum(length > max_tokens for length in lengths)
    split = PackPlan(lengths, world_size=world_size, max_tokens=max_tokens, shuffle=shuffle, too_long="split")
    spans = [
        span for rank in range(world_size) for step in split.pieces(rank, 1) for pack in step for span in pack.tolist()
    ]
    tokens = Counter((sample, begin + token) for sample, begin, num in spans for token in range(num))
    assert tokens == Counter((sample, token) for sample, length in enumerate(lengths) for token in range(length))
    assert {sample for sample, _, _ in spans} == set(range(len(lengths)))
    assert (split.summary().num_used, split.summary().num_cut) == (len(lengths), num_long)

    cut = PackPlan(lengths, world_size=world_size, max_tokens=max_tokens, shuffle=shuffle, too_long="cut")
    spans = [
        span for rank in range(world_size) for step in cut.pieces(rank, 1) for pack in step for span in pack.tolist()
    ]
    assert sorted(spans) == [[sample, 0, min(length, max_tokens)] for sample, length in enumerate(lengths)]
    assert cut.summary().num_cut == num_long
    for plan in (split, cut):
        for rank in range(world_size):
            assert all(pack[:, 2].sum() <= max_tokens for step in plan.pieces(rank) for pack in step)


def test_a_sample_longer_than_a_pack_is_refused_unless_the_user_says_otherwise() -> None:
    with pytest.raises(InputError, match="sample 1 is longer than the budget: length 9, max_tokens 8"):
        PackPlan([3, 9], world_size=1, max_tokens=8)
    with pytest.raises(InputError, match="too_long must be one of 'raise', 'cut', 'split', got 'drop'"):
        PackPlan([3, 9], world_size=1, max_tokens=8, too_long="drop")  # type: ignore[arg-type]


def test_a_cost_function_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="cost must return one number for each length"):
        PackPlan([3, 9], world_size=1, max_tokens=9, cost=lambda lengths: 1)
    with pytest.raises(InputError, match="costs of lengths must be finite and not negative"):
        PackPlan([3, 9], world_size=1, max_tokens=9, cost=lambda lengths: lengths * -1.0)


def lognormal(size: int, longest: int = 8192) -> Any:
    return np.clip(np.random.default_rng(3).lognormal(6, 1, size), 1, longest).astype(np.int64)


def test_packs_are_full_and_work_is_even() -> None:
    lengths = lognormal(60_000)
    plan = PackPlan(lengths, world_size=16, max_tokens=8192, cost=squares)
    assert plan.summary().fill >= 0.995
    assert plan.num_steps <= 1.005 * -(-lengths.sum() // (8192 * 16))
    loads = np.array([plan.loads(step) for step in range(plan.num_steps)])
    assert np.median(loads.max(1) / loads.mean(1)) <= 1.02
    # in whatever order packs come, equally full ones differ by far more
    packs = np.random.default_rng(0).permutation(loads.reshape(-1)).reshape(loads.shape)
    assert np.median(packs.max(1) / packs.mean(1)) > 1.3


def test_packing_does_not_sort_the_epoch_by_length() -> None:
    lengths = lognormal(60_000)
    plan = PackPlan(lengths, world_size=4, max_tokens=8192, cost=squares)
    for epoch in range(3):
        of_rank = [np.concatenate(packs) for packs in plan.packs(0, epoch)]
        ranks = np.argsort(np.argsort(np.concatenate([lengths[samples] for samples in of_rank]), kind="stable"))
        assert abs(np.corrcoef(ranks, np.arange(ranks.size))[0, 1]) < 0.02


def test_epochs_bring_other_samples_together() -> None:
    lengths = lognormal(40_000)
    plan = PackPlan(lengths, world_size=8, max_tokens=8192, cost=squares)

    def company(epoch: int) -> set[tuple[int, int]]:
        """The pairs of long samples that share a step: of these lengths there are few, so they keep their packs."""
        steps = [[sample for packs in step for pack in packs for sample in pack] for step in steps_of(plan, epoch)]
        long = [[sample for sample in step if 1500 < lengths[sample] < 3000] for step in steps]
        return {(a, b) for step in long for a in step for b in step if a < b}

    first, second = company(0), company(1)
    assert len(first & second) < 0.5 * len(first)


@given(LENGTHS, RANKS)
def test_the_fingerprint_tells_packs_apart_and_not_ranks(lengths: list[int], world_size: int) -> None:
    plan = PackPlan(lengths, world_size=world_size, max_tokens=60)
    assert plan.fingerprint == PackPlan(lengths, world_size=1, max_tokens=60, packs_per_step=2).fingerprint
    others = [
        PackPlan([*lengths, 1], world_size=world_size, max_tokens=60),
        PackPlan(lengths, world_size=world_size, max_tokens=61),
        PackPlan(lengths, world_size=world_size, max_tokens=60, seed=1),
        PackPlan(lengths, world_size=world_size, max_tokens=60, shuffle=False),
    ]
    assert len({plan.fingerprint, *(other.fingerprint for other in others)}) == 5


@pytest.mark.parametrize("history", [[], [[2, 1]], "x", [[0, 1, 0]], [[1, 1, 99]], [[1, 1, -1]]])
def test_a_history_that_cannot_be_is_refused(history: Any) -> None:
    plan = PackPlan([3, 4, 5], world_size=1, max_tokens=6)
    with pytest.raises(InputError):
        plan.at({"consumed": 1, "history": history})


@settings(max_examples=50)
@given(LENGTHS, st.integers(1, 9), st.integers(60, 90))
def test_spreading_keeps_to_room_and_number_or_gives_up(lengths: list[int], num_packs: int, max_tokens: int) -> None:
    sizes = np.array(lengths)
    pack_of = spread(sizes, sizes**2, num_packs, max_tokens=max_tokens, most=20)
    if pack_of is None:
        assert sizes.sum() > max_tokens or sizes.size > 20  # one pack does not hold them all
        return
    assert np.bincount(pack_of, sizes, num_packs).max() <= max_tokens
    assert np.bincount(pack_of, minlength=num_packs).max() <= 20
