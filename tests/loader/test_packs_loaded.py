"""Packs through the sampler and the loader: each sample once, the same number of batches, states that resume."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from tests.helpers.outcomes import values
from torch.utils.data import DataLoader

from paceline import Jagged, Loader, PackPlan, PlanSampler, packed, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.errors import InputError

LENGTHS = [3, 9, 1, 12, 5, 5, 7, 2, 12, 4, 6, 1, 8, 3, 10, 2, 2, 11, 0]


class Texts:
    """Samples of known lengths; the words of sample s are s * 100, s * 100 + 1 and so on."""

    def __len__(self) -> int:
        return len(LENGTHS)

    def __getitem__(self, sample: int) -> dict[str, Any]:
        return {"id": sample, "words": list(range(sample * 100, sample * 100 + LENGTHS[sample]))}


def words_of(batch: Any) -> list[int]:
    words = batch.real("words")
    assert isinstance(words, Jagged)
    return [int(word) for word in words.values]


def packs_of_rank(comm: Comm, packs_per_step: int, too_long: Any, num_workers: int) -> list[list[list[int]]]:
    max_tokens = 12 if too_long == "raise" else 8
    plan = PackPlan(
        LENGTHS, world_size=comm.world_size, max_tokens=max_tokens, packs_per_step=packs_per_step, too_long=too_long
    )
    found = []
    with Loader(Texts(), plan=plan, comm=comm, jagged=["words"], num_workers=num_workers) as loader:
        for epoch in range(2):
            loader.set_epoch(epoch)
            assert len(loader) == plan.num_steps * packs_per_step
            batches = list(loader)
            assert len(batches) == len(loader)
            assert {batch.batch_size for batch in batches} == {plan.most_samples}
            assert all(packed(batch["words"], pad_to=max_tokens).tokens.numel() == max_tokens for batch in batches)  # type: ignore[arg-type]
            assert loader.summary is not None
            assert loader.summary.num_used == len(LENGTHS)
            found.append([words_of(batch) for batch in batches])
    return found


ALL_WORDS = Counter(word for sample in range(len(LENGTHS)) for word in Texts()[sample]["words"])


@pytest.mark.parametrize(("world_size", "packs_per_step", "too_long"), [(1, 1, "raise"), (3, 2, "split")])
def test_a_loader_hands_out_each_token_once_in_packs(world_size: int, packs_per_step: int, too_long: str) -> None:
    ranks = values(run_ranks(packs_of_rank, world_size, args=(packs_per_step, too_long, 0), carrier="threads"))
    for epoch in range(2):
        assert Counter(word for rank in ranks for batch in rank[epoch] for word in batch) == ALL_WORDS
        assert len({len(rank[epoch]) for rank in ranks}) == 1


def test_workers_load_the_same_packs() -> None:
    assert packs_of_rank(AloneComm(), 1, "cut", 2) == packs_of_rank(AloneComm(), 1, "cut", 0)


def test_a_loader_goes_on_after_a_whole_step_only() -> None:
    plan = PackPlan(LENGTHS, world_size=1, max_tokens=12, packs_per_step=2)
    with Loader(Texts(), plan=plan, comm=AloneComm(), jagged=["words"]) as loader:
        batches = iter(loader)
        first = [words_of(next(batches)) for _ in range(4)]
        state = loader.state_dict()
        next(batches)
        with pytest.raises(InputError, match="at the end of a step, which has 2 packs: 1 of it were consumed"):
            loader.state_dict()
        batches.close()  # type: ignore[attr-defined]
    other = PackPlan(LENGTHS, world_size=1, max_tokens=12, packs_per_step=3)
    with Loader(Texts(), plan=other, comm=AloneComm(), jagged=["words"]) as loader:
        loader.load_state_dict(state)
        rest = [words_of(batch) for batch in loader]
        assert loader.summary is not None
        assert loader.summary.num_used < len(LENGTHS)
    assert Counter(word for batch in [*first, *rest] for word in batch) == ALL_WORDS


def test_a_sampler_hands_out_lists_of_packs() -> None:
    plan = PackPlan(LENGTHS, world_size=2, max_tokens=12, packs_per_step=2)

    class RowsOfPacks:
        def __getitem__(self, pack: list[int]) -> torch.Tensor:
            words = [word for sample in pack for word in Texts()[sample]["words"]]
            return torch.tensor(words + [-1] * (12 - len(words)))

    seen: Counter[int] = Counter()
    for rank in range(2):
        sampler = PlanSampler.of(plan, rank=rank)
        assert list(sampler) == [[pack.tolist() for pack in packs] for packs in plan.packs(rank)]
        rows = list(DataLoader(RowsOfPacks(), batch_sampler=PlanSampler.of(plan, rank=rank)))  # type: ignore[arg-type]
        assert {row.shape for row in rows} == {(2, 12)}
        seen.update(int(word) for row in rows for word in row.reshape(-1) if word >= 0)
    assert seen == ALL_WORDS


def test_a_sampler_resumes_packs_on_other_ranks() -> None:
    plan = PackPlan(LENGTHS, world_size=2, max_tokens=12)
    samplers = [PlanSampler.of(plan, rank=rank) for rank in range(2)]
    consumed: list[Any] = [packs for sampler in samplers for packs in list(sampler)[:2]]
    first = [sample for packs in consumed for pack in packs for sample in pack]
    state = samplers[0].state_dict(step=2)
    rest = []
    for rank in range(3):
        sampler = PlanSampler.of(PackPlan(LENGTHS, world_size=3, max_tokens=12), rank=rank)
        sampler.load_state_dict(state)
        steps: list[Any] = list(sampler)
        rest += [sample for packs in steps for pack in packs for sample in pack]
    assert sorted(first + rest) == list(range(len(LENGTHS)))


@pytest.mark.parametrize("epoch", [0, 3])
def test_the_state_of_packs_counts_samples_as_that_of_other_plans_does(epoch: int) -> None:
    plan = PackPlan(LENGTHS, world_size=2, max_tokens=12)
    samplers = [PlanSampler.of(plan, rank=rank) for rank in range(2)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    lists: list[list[Any]] = [list(sampler) for sampler in samplers]
    for step in range(plan.num_steps + 1):
        seen = [sample for of_rank in lists for packs in of_rank[:step] for pack in packs for sample in pack]
        assert samplers[0].state_dict(step=step)["consumed"] == len(seen)


def test_what_does_not_go_with_packs_is_refused() -> None:
    plan = PackPlan(LENGTHS, world_size=1, max_tokens=8, too_long="cut")
    with pytest.raises(InputError, match="pass the names of the fields that hold their tokens as jagged"):
        Loader(Texts(), plan=plan, comm=AloneComm(), collate=lambda samples: samples)
    with pytest.raises(InputError, match="the plan has packs of even cost already"):
        Loader(Texts(), plan=plan, comm=AloneComm(), jagged=["words"], cost=lambda batch: batch["id"])
    with pytest.raises(InputError, match="the plan is of 20 samples, but the dataset has 19"):
        Loader(Texts(), plan=PackPlan([1] * 20, world_size=1, max_tokens=8), comm=AloneComm(), jagged=["words"])
    with pytest.raises(InputError, match="a pack needs no stand-in"):
        PlanSampler.of(plan, rank=0, stand_in=1)
