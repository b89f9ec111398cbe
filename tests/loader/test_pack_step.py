"""Packs of one step, decided once the samples are there: the same number on every rank, whatever ranks have."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.outcomes import values

from paceline import Batch, Jagged, pack_step, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.errors import InputError
from paceline.loader import DisagreementError, StepPacker
from paceline.plan.packs.step_packing import pack_ranks


def squares(lengths: Any) -> Any:
    return lengths + lengths.astype(np.float64) ** 2 / 8


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=80), st.integers(50, 90))
def test_each_sample_is_in_one_pack_within_the_budget(samples: list[tuple[int, int]], max_tokens: int) -> None:
    lengths, rank_of = np.ascontiguousarray(np.array(samples, dtype=np.int64).reshape(-1, 2).T)
    packs = pack_ranks(lengths, lengths**2, rank_of, world_size=5, max_tokens=max_tokens)
    assert len({len(of_rank) for of_rank in packs}) == 1
    assert Counter(sample for of_rank in packs for pack in of_rank for sample in pack.tolist()) == Counter(
        range(len(samples))
    )
    assert all(lengths[pack].sum() <= max_tokens for of_rank in packs for pack in of_rank)
    # no rank makes a step more than needed, by what a good packing needs at the most
    assert len(packs[0]) <= max(1, -(-(2 * lengths.sum() // max_tokens + 1) // 5))


def test_work_is_even_where_lengths_allow_it() -> None:
    lengths = np.clip(np.random.default_rng(1).lognormal(6, 1, 2000), 1, 8192).astype(np.int64)
    costs = lengths + lengths**2 // 512
    packs = pack_ranks(lengths, costs, np.arange(2000) % 8, world_size=8, max_tokens=8192)
    loads = np.array([[costs[pack].sum() for pack in of_rank] for of_rank in packs])
    assert loads.sum(1).max() / loads.sum(1).mean() <= 1.02


def test_samples_stay_where_they_are_if_that_is_even() -> None:
    packs = pack_ranks(np.array([8, 8, 8]), np.array([8, 8, 8]), np.array([2, 0, 1]), world_size=3, max_tokens=8)
    assert [[pack.tolist() for pack in of_rank] for of_rank in packs] == [[[1]], [[2]], [[0]]]


OWN = [[9, 1, 4, 4, 12], [], [3]]


def trained(comm: Comm) -> Any:
    lengths = OWN[comm.rank]
    words = [comm.rank * 1000 + row * 100 + word for row, length in enumerate(lengths) for word in range(length)]
    field = Jagged(
        keys=["words"],
        values=torch.tensor(words, dtype=torch.int64),
        lengths=torch.tensor(lengths or [0], dtype=torch.int64),
    )
    batch = Batch({"words": field}, batch_size=max(1, len(lengths)), num_real=len(lengths))
    step = pack_step(comm, lengths, max_tokens=12, cost=squares)
    packs = step.exchange(comm, batch)
    assert len(packs) == step.num_packs
    assert step.num_moved == len(step.moves)
    found = [pack["words"].values.tolist() for pack in packs]  # type: ignore[union-attr]
    return found, [pack.num_real for pack in packs], step.moves, step.max_over_mean


def test_a_rank_without_a_sample_gets_its_share_or_padding() -> None:
    ranks = values(run_ranks(trained, 3, carrier="threads"))
    words = Counter(word for found, *_ in ranks for pack in found for word in pack)
    assert words == Counter(
        rank * 1000 + row * 100 + word
        for rank, lengths in enumerate(OWN)
        for row, length in enumerate(lengths)
        for word in range(length)
    )
    assert len({len(found) for found, *_ in ranks}) == 1
    assert all(len(pack) <= 12 for found, *_ in ranks for pack in found)
    assert len({moves for _, _, moves, _ in ranks}) == 1
    assert any(source == 0 and target == 1 for source, _, target, _ in ranks[0][2])


def packed_with(comm: Comm, lengths: list[Any], budgets: list[int], cost: Any) -> str:
    try:
        pack_step(comm, lengths[comm.rank], max_tokens=budgets[comm.rank], cost=cost)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "packed"


def raising(lengths: Any) -> Any:
    raise KeyError("lengths")


@pytest.mark.parametrize(
    ("lengths", "budgets", "cost", "sentence"),
    [
        ([[1], [99]], [8, 8], None, "rank 1 cannot continue: sample 0 is longer than the budget"),
        ([[1], [1]], [8, 9], None, "ranks disagree on max_tokens: 8 on rank 0; 9 on rank 1"),
        ([[1], [0.5]], [8, 8], None, "rank 1 cannot continue: lengths must be whole numbers"),
        ([[1], []], [8, 8], raising, "rank 0 cannot continue: the function for lengths or costs raised KeyError"),
        ([[1, 2], []], [8, 8], lambda lengths: lengths[:1], "cost must return one number for each of 2 lengths, got 1"),
    ],
)
def test_what_is_wrong_on_one_rank_is_raised_on_all(
    lengths: list[Any], budgets: list[int], cost: Any, sentence: str
) -> None:
    found = values(run_ranks(packed_with, 2, args=(lengths, budgets, cost), carrier="threads"))
    assert all("DisagreementError" in each and sentence in each for each in found), found


def test_ranks_without_any_sample_make_one_pack_of_padding() -> None:
    def nothing(comm: Comm) -> list[int]:
        step = pack_step(comm, [], max_tokens=8)
        return [pack.size for pack in step.packs[comm.rank]]

    assert values(run_ranks(nothing, 2, carrier="threads")) == [[0], [0]]


def over_steps(comm: Comm, ahead: int) -> Any:
    """Pack several steps ahead, with collectives of the loop between; return the words of packs, and of batches."""
    batches = []
    for step in range(4):
        lengths = [(rank_row * 5 + step) % 12 + 1 for rank_row in range(step * comm.rank)]
        words = torch.arange(sum(lengths)) + 1000 * comm.rank + 100_000 * step
        field = Jagged(keys=["words"], values=words, lengths=torch.tensor(lengths or [0]))
        batches.append(Batch({"words": field}, batch_size=max(1, len(lengths)), num_real=len(lengths)))
    found = []
    with StepPacker(comm, lambda batch: batch["words"].lengths, max_tokens=12, cost=squares) as packer:  # type: ignore[union-attr]
        for packs in packer.over(batches, ahead=ahead):
            assert comm.all_reduce(np.array([1]))[0] == comm.world_size
            found.append([pack["words"].values.tolist() for pack in packs])  # type: ignore[union-attr]
    whole = [batch["words"].values.tolist() if batch.num_real else [] for batch in batches]  # type: ignore[union-attr]
    return found, whole


@pytest.mark.parametrize("ahead", [0, 2])
def test_packs_that_are_made_ahead_have_every_sample(ahead: int) -> None:
    ranks = values(run_ranks(over_steps, 3, args=(ahead,), carrier="threads"))
    for step in range(4):
        packed = [word for found, _ in ranks for pack in found[step] for word in pack]
        assert sorted(packed) == sorted(word for _, whole in ranks for word in whole[step])
        assert len({len(found[step]) for found, _ in ranks}) == 1
        assert all(len(pack) <= 12 for found, _ in ranks for pack in found[step])


def fails_once(comm: Comm) -> list[str]:
    """One rank has a bad batch; the next one is packed all the same."""

    def lengths(batch: Batch) -> Any:
        ids: Any = batch["id"]
        if comm.rank == 1 and int(ids[0]) == 0:
            raise RuntimeError("no lengths")
        return [2, 3]

    found = []
    with StepPacker(comm, lengths, max_tokens=6) as packer:
        started = [packer.start(Batch({"id": torch.tensor([step, step])}, batch_size=2)) for step in range(2)]
        for packing in started:
            try:
                found.append(f"{len(packing.finish())} packs, {packing.step.num_packs}, {packing.is_done}")
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}")
        assert started[1].seconds_waited >= 0.0
    return found


def test_a_batch_that_cannot_be_packed_fails_on_all_ranks_and_the_next_does_not() -> None:
    ranks = values(run_ranks(fails_once, 2, carrier="threads"))
    for first, second in ranks:
        assert first.startswith("DisagreementError")
        assert "rank 1 cannot continue: the function for lengths or costs raised RuntimeError: no lengths" in first
        assert second == "1 packs, 1, True"


def gives_too_few_lengths(comm: Comm) -> str:
    with StepPacker(comm, lambda batch: [2, 3][: 2 - comm.rank], max_tokens=6) as packer:
        with pytest.raises(DisagreementError) as raised:
            packer.start(Batch({"id": torch.tensor([1, 2])}, batch_size=2)).finish()
        return str(raised.value)


def test_a_rank_with_too_few_lengths_is_told_to_all() -> None:
    for said in values(run_ranks(gives_too_few_lengths, 2, carrier="threads")):
        assert "rank 1 cannot continue" in said
        assert "one number for each of the batch's 2 rows, or its 2 real ones, got 1" in said


def gives_lengths_of_two_keys(comm: Comm) -> str:
    lists = Jagged(keys=["word", "tag"], values=torch.arange(20), lengths=torch.tensor([5, 5, 5, 5]))
    with StepPacker(comm, lambda batch: batch["lists"].lengths, max_tokens=6) as packer:  # type: ignore[union-attr]
        with pytest.raises(DisagreementError) as raised:
            packer.start(Batch({"lists": lists}, batch_size=2)).finish()
        return str(raised.value)


def test_lengths_of_more_than_the_rows_are_not_cut_off() -> None:
    for said in values(run_ranks(gives_lengths_of_two_keys, 2, carrier="threads")):
        assert "one number for each of the batch's 2 rows, or its 2 real ones, got 4" in said


def test_what_is_no_batch_does_not_end_a_loop_early() -> None:
    batch, nothing = Batch({"id": torch.tensor([1, 2])}, batch_size=2), cast("Batch", None)
    packer = StepPacker(AloneComm(), lambda batch: [2, 3], max_tokens=6)
    with packer, pytest.raises(InputError, match="batches must be of type Batch, got NoneType"):
        list(packer.over([batch, nothing, batch]))


def test_samples_without_tokens_are_spread_over_packs() -> None:
    lengths = np.array([8, 8, 8, 8, *[0] * 40])
    packs = pack_ranks(lengths, lengths**2, np.zeros(44, dtype=np.int64), world_size=4, max_tokens=8)
    assert [len(pack) for of_rank in packs for pack in of_rank] == [11] * 4
