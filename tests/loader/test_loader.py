"""The loader on real ranks: equal steps and shapes, and every sample as the plan says."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.outcomes import values
from tests.helpers.sample_datasets import AtOnce, Histories, seen, words_of

from paceline import Batch, LengthPlan, Loader, Plan, PlanSampler, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.errors import InputError
from paceline.loader.sampler_state import PlannedPass


def pass_over(comm: Comm, num: int, batch_size: int, tail: Any, balanced: bool, num_workers: int) -> Any:
    """Return what a rank gets in two epochs, and the summaries."""
    cost = words_of if balanced else None
    found, summaries = [], []
    with Loader(
        Histories(num), batch_size=batch_size, tail=tail, seed=3, cost=cost, comm=comm, jagged=["words"],
        num_workers=num_workers,
    ) as loader:  # fmt: skip
        for epoch in range(2):
            loader.set_epoch(epoch)
            found.append([seen(batch) for batch in loader])
            assert len(found[-1]) == len(loader)
            gathered = loader.gather_real([number for *_, ids, _ in found[-1] for number in ids])
            summaries.append((loader.summary, gathered))
    return found, summaries


Case = tuple[int, int, str]  # samples, batch_size, tail


def passes_over(comm: Comm, cases: list[Case]) -> list[Any]:
    return [pass_over(comm, *case, balanced, 0) for case in cases for balanced in (False, True)]


# on real processes a few cases in one job; on threads all kinds of remainders
MOST_CASES: list[Case] = [(23, 4, "pad"), (2, 2, "pad"), (30, 4, "drop")]
CASES_OF_RANKS: dict[int, list[Case]] = {
    1: [(7, 3, "pad")], 2: [(23, 4, "pad")], 5: [(3, 2, "pad")], 7: [(100, 3, "repeat"), (100, 3, "even")]
}  # fmt: skip


@pytest.mark.parametrize(
    ("carrier", "num_ranks", "cases"),
    [(carrier, 3, MOST_CASES) for carrier in ("threads", "torch", "mpi")]
    + [("threads", num_ranks, cases) for num_ranks, cases in CASES_OF_RANKS.items()],
)
def test_every_rank_makes_the_same_steps_of_the_same_shape_and_no_sample_is_lost(
    carrier: str, num_ranks: int, cases: list[Case]
) -> None:
    told = values(run_ranks(passes_over, num_ranks, args=(cases,), carrier=carrier, deadline=110))
    for place, rank_told in enumerate(zip(*told, strict=True)):
        check_passes(cases[place // 2], rank_told, balanced=place % 2 == 1 and num_ranks > 1)


def check_passes(case: Case, told: Any, *, balanced: bool) -> None:
    num, batch_size, tail = case
    for epoch in range(2):
        batches = [rank_batches[epoch] for rank_batches, _ in told]
        assert len({len(rank_batches) for rank_batches in batches}) == 1
        assert {shape for rank_batches in batches for shape, *_ in rank_batches} == {batch_size}
        assert len({str(fields) for rank_batches in batches for *_, fields in rank_batches}) == 1
        ids = [number for rank_batches in batches for *_, ids, _ in rank_batches for number in ids]
        assert tail in ("drop", "even") or set(ids) == set(range(num))
        assert tail == "repeat" or len(set(ids)) == len(ids)
        summary, gathered = told[0][1][epoch]
        assert gathered == sorted(set(ids))
        assert summary.num_used == len(set(ids))
        assert summary.num_used + summary.num_dropped == num
        assert (summary.imbalance_before is not None) == balanced
        assert not balanced or summary.imbalance_after <= summary.imbalance_before
        assert all(rank_told[1][epoch][0].num_used == summary.num_used for rank_told in told)


def test_the_order_differs_between_epochs_and_not_between_passes() -> None:
    with Loader(Histories(40), batch_size=8, comm=AloneComm(), jagged=["words"]) as loader:
        first, again = ([seen(batch) for batch in loader] for _ in range(2))
        loader.set_epoch(1)
        assert first == again != [seen(batch) for batch in loader]


def test_workers_change_nothing() -> None:
    found = [pass_over(AloneComm(), 37, 5, "pad", False, num_workers)[0] for num_workers in (0, 1, 2)]
    assert found[0] == found[1] == found[2]


class Noisy(Histories):
    """Each sample is drawn at random, from all three sources of random numbers."""

    def __getitem__(self, sample: int) -> dict[str, Any]:
        return {"id": sample, "noise": [random.random(), float(np.random.rand()), float(torch.rand(()))]}


def test_what_is_drawn_at_random_depends_on_neither_workers_nor_on_what_was_drawn_before() -> None:
    def noise(num_workers: int) -> list[Any]:
        with Loader(Noisy(12), batch_size=4, num_workers=num_workers, comm=AloneComm(), reseed=True) as loader:
            return [batch["noise"].tolist() for batch in loader]  # type: ignore[union-attr]

    def of_the_job() -> Any:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    expected = of_the_job()
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    here = noise(0)
    assert of_the_job() == expected  # the job's own random numbers are as before
    assert here == noise(0) == noise(1) == noise(2)
    assert len({tuple(row) for batch in here for row in batch}) == 12


def test_a_dataset_is_asked_for_a_whole_batch_if_it_can_be() -> None:
    dataset = AtOnce(10)
    with Loader(dataset, batch_size=4, comm=AloneComm(), jagged=["words"]) as loader:
        assert sorted(number for batch in loader for number in seen(batch)[2]) == list(range(10))
    assert dataset.num_calls == 3


def test_samples_may_be_tuples_dataclasses_or_one_number() -> None:
    pairs = [(np.zeros(2, np.float32), number) for number in range(5)]
    with Loader(pairs, batch_size=5, shuffle=False, fields=["x", "y"], comm=AloneComm()) as loader:
        assert next(iter(loader))["y"].tolist() == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    with Loader(pairs, batch_size=5, shuffle=False, comm=AloneComm()) as loader:
        assert next(iter(loader)).names() == ["0", "1"]
    with Loader([3, 4], batch_size=2, shuffle=False, comm=AloneComm()) as loader:
        assert next(iter(loader))["0"].tolist() == [3, 4]  # type: ignore[union-attr]


def test_a_collate_function_of_the_user_is_padded() -> None:
    def collate(samples: list[Any]) -> dict[str, torch.Tensor]:
        return {"ids": torch.tensor([sample["id"] for sample in samples])}

    with Loader(Histories(5), batch_size=4, shuffle=False, collate=collate, comm=AloneComm()) as loader:
        assert [(batch.num_real, batch["ids"].tolist()) for batch in loader] == [(4, [0, 1, 2, 3]), (1, [4, 0, 0, 0])]  # type: ignore[union-attr]


def test_a_plan_by_length_gives_each_step_its_own_number_of_rows() -> None:
    lengths = [1, 9, 2, 8, 3, 7, 1, 2]
    plan = LengthPlan(lengths, world_size=1, max_tokens=10, shuffle=False)
    with Loader(Histories(8), plan=plan, comm=AloneComm(), jagged=["words"]) as loader:
        found = [seen(batch) for batch in loader]
    assert sorted(number for *_, ids, _ in found for number in ids) == list(range(8))
    assert len({shape for shape, *_ in found}) > 1


def test_a_batch_is_padded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, int]] = []
    pad_to = Batch.pad_to

    def counted(batch: Batch, num_rows: int) -> Batch:
        if num_rows != batch.batch_size:
            sizes.append((batch.batch_size, num_rows))
        return pad_to(batch, num_rows)

    monkeypatch.setattr(Batch, "pad_to", counted)
    plan = LengthPlan([1] * 13 + [9] * 5, world_size=1, max_tokens=36, batch_size=6, shuffle=False)
    with Loader(Histories(18), plan=plan, comm=AloneComm(), jagged=["words"]) as loader:
        short = [(batch.num_real, batch.batch_size) for batch in loader if batch.num_real < batch.batch_size]
    assert short
    assert sizes == short


def count_begins(monkeypatch: pytest.MonkeyPatch) -> list[PlanSampler]:
    """Return a list to which each sampler that begins a pass is added."""
    begins: list[PlanSampler] = []
    begin = PlanSampler.begin

    def counted(sampler: PlanSampler) -> PlannedPass:
        begins.append(sampler)
        return begin(sampler)

    monkeypatch.setattr(PlanSampler, "begin", counted)
    return begins


@pytest.mark.parametrize("settings", [{}, {"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}])
def test_a_pass_of_a_loader_begins_once(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    begins = count_begins(monkeypatch)
    with Loader(Histories(9), batch_size=2, comm=AloneComm(), jagged=["words"], **settings) as loader:
        loader.load_state_dict(loader.sampler.state_dict(step=2))
        assert [len(list(loader)) for _ in range(2)] == [3, 5], "what was left is left only once"
    assert len(begins) == 2


def test_two_passes_at_a_time_do_not_disturb_each_other() -> None:
    for num_workers in (0, 1):
        with Loader(Histories(9), batch_size=2, num_workers=num_workers, comm=AloneComm(), jagged=["words"]) as loader:
            first = iter(loader)
            begun = [seen(next(first))]
            loader.set_epoch(1)
            second = [seen(batch) for batch in loader]
            rest = [seen(batch) for batch in first]
            loader.set_epoch(0)
            assert begun + rest == [seen(batch) for batch in loader] != second


# Resume.


def resumed(comm: Comm, state: Any, batch_size: int) -> Any:
    with Loader(Histories(50), batch_size=batch_size, seed=9, comm=comm, jagged=["words"]) as loader:
        if state is not None:
            loader.load_state_dict(state)
        got: list[int] = []
        for step, batch in enumerate(loader, start=1):
            got += seen(batch)[2]
            if state is None and step == 3:
                return got, loader.state_dict()
        return got, loader.state_dict()


def test_a_pass_goes_on_with_other_ranks_batches_and_workers() -> None:
    first = values(run_ranks(resumed, 3, args=(None, 4), carrier="threads"))
    states = [state for _, state in first]
    assert states[0] == states[1] == states[2]
    rest = values(run_ranks(resumed, 2, args=(states[0], 5), carrier="threads"))
    assert sorted(number for got, _ in [*first, *rest] for number in got) == list(range(50))
    assert [len(rank_got) for rank_got, _ in rest] == [7, 7]
    then = values(run_ranks(resumed, 1, args=(rest[0][1], 5), carrier="threads"))
    assert sorted(then[0][0]) == list(range(50))  # the next epoch, whole


def test_the_state_is_of_what_the_loop_has_got_not_of_what_workers_have_loaded() -> None:
    with Loader(Histories(40), batch_size=4, num_workers=2, comm=AloneComm(), jagged=["words"]) as loader:
        assert loader.state_dict()["consumed"] == 0
        batches = iter(loader)
        next(batches), next(batches)
        assert loader.state_dict()["consumed"] == 8
        del batches


def test_a_state_after_set_epoch_is_of_the_new_epoch() -> None:
    with Loader(Histories(20), batch_size=4, comm=AloneComm(), jagged=["words"]) as loader:
        list(loader)
        at_end = loader.state_dict()
        loader.set_epoch(1)
        at_begin = loader.state_dict()
        next(iter(loader))
        loader.set_epoch(2)
        assert (loader.state_dict()["epoch"], loader.state_dict()["consumed"]) == (2, 0)
        for state in (at_end, at_begin):  # both lead to the whole of epoch 1
            loader.load_state_dict(state)
            assert loader.epoch == 1
            assert loader.state_dict()["consumed"] == 0
            assert len(list(loader)) == 5


def test_random_numbers_go_on_where_they_were() -> None:
    with Loader(Noisy(12), batch_size=4, comm=AloneComm(), reseed=True) as loader:
        whole = [batch["noise"].tolist() for batch in loader]  # type: ignore[union-attr]
        next(iter(loader))
        state = loader.state_dict()
        loader.load_state_dict(state)
        assert [batch["noise"].tolist() for batch in loader] == whole[1:]  # type: ignore[union-attr]


# What is refused.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "batch_size is missing"),
        ({"batch_size": 2, "on_error": "ignore"}, "on_error must be one of 'raise', 'skip', got 'ignore'"),
        ({"batch_size": 2, "check": "never"}, "check must be one of 'first', 'every'"),
        ({"batch_size": 2, "collate": list, "jagged": ["x"]}, "leave out jagged, fields and pad_values"),
        ({"batch_size": 2, "num_workers": -1}, "num_workers must be a whole number of at least 0"),
        ({"batch_size": 2, "tail": "trim"}, "tail must be one of"),
        ({"batch_size": 2, "chek": "first"}, "Loader has no setting 'chek': did you mean 'check'?"),
        (
            {"batch_size": 2, "prefetch_facto": 2},
            "Loader has no setting 'prefetch_facto': did you mean 'prefetch_factor'?",
        ),
        ({"batch_size": 2, "sampler": [1]}, "Loader has no setting 'sampler'"),
        ({"batch_size": 2, "plan": Plan(4, world_size=1, batch_size=2)}, "the plan already sets batch_size and costs"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Loader(Histories(4), comm=AloneComm(), **settings)


def started_in(worker: int) -> None:
    random.seed(worker)


def test_settings_of_the_loader_and_of_torch_are_taken_together() -> None:
    own: dict[str, Any] = {"check": "every", "reseed": False, "progress": False, "grace": 5.0, "example": None}
    own |= {"fields": ["id", "x"], "pad_values": {"x": 7.0}}
    of_torch: dict[str, Any] = {"pin_memory": False, "prefetch_factor": 3, "persistent_workers": True, "timeout": 30}
    of_torch |= {"worker_init_fn": started_in, "multiprocessing_context": "fork", "in_order": True}
    pairs = [(number, float(number)) for number in range(5)]
    with Loader(pairs, batch_size=2, shuffle=False, num_workers=1, comm=AloneComm(), **own, **of_torch) as loader:
        assert [batch["x"].tolist() for batch in loader] == [[0, 1], [2, 3], [4, 7]]  # type: ignore[union-attr]


def test_a_stream_is_refused_with_what_to_use_instead() -> None:
    def stream() -> Iterator[int]:
        yield 1

    with pytest.raises(InputError, match=r"use paceline\.in_step"):
        Loader(stream(), batch_size=2, comm=AloneComm())


def test_a_plan_for_other_ranks_is_refused() -> None:
    with pytest.raises(InputError, match="the plan is for 4 ranks, but there are 1"):
        Loader(Histories(9), plan=Plan(9, world_size=4, batch_size=2), comm=AloneComm())


def test_workers_that_stay_serve_one_pass_at_a_time() -> None:
    with Loader(
        Histories(9), batch_size=2, num_workers=1, persistent_workers=True, comm=AloneComm(), jagged=["words"]
    ) as loader:
        batches = iter(loader)
        next(batches)
        with pytest.raises(InputError, match="persistent workers serve one iterator at a time"):
            next(iter(loader))
        batches.close()  # type: ignore[attr-defined]
        assert len(list(loader)) == 5
        del batches
