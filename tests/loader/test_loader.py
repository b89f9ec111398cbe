"""The loader on real ranks: equal steps and shapes, every sample as the plan says, and ranks that fail together."""

from __future__ import annotations

import os
import pickle
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import get_worker_info

from paceline import Batch, LengthPlan, Loader, Plan, run_ranks
from paceline.comm import Comm
from paceline.comm.alone import AloneComm
from paceline.errors import InputError
from paceline.launch import Outcome
from paceline.loader import DisagreementError, LoadError, OneRankError, on_one_rank

CARRIERS = ["threads", "torch", "mpi"]


def values(outcomes: list[Outcome]) -> list[Any]:
    assert [outcome.traceback or outcome for outcome in outcomes if not outcome.ok] == []
    return [outcome.value for outcome in outcomes]


class Histories:
    """Samples of a label, a vector and a list of any length; some cannot be loaded."""

    def __init__(self, num: int, *, bad: tuple[int, ...] = (), dtype_changes_at: int | None = None) -> None:
        self._num, self._bad, self._changes_at = num, set(bad), dtype_changes_at

    def __len__(self) -> int:
        return self._num

    def __getitem__(self, sample: int) -> dict[str, Any]:
        if sample in self._bad:
            raise OSError(f"file {sample}.npz is corrupt")
        kind = np.float64 if sample == self._changes_at else np.float32
        return {"id": sample, "vector": np.full(3, sample, kind), "words": list(range(sample % 5))}


class AtOnce(Histories):
    """The same, asked for all of a batch at once."""

    num_calls = 0

    def __getitems__(self, ids: list[int]) -> list[dict[str, Any]]:
        self.num_calls += 1
        return [self[sample] for sample in ids]


def words_of(batch: Batch) -> Any:
    return batch["words"].lengths  # type: ignore[union-attr]


def seen(batch: Batch) -> tuple[int, int, list[int], list[Any]]:
    """What a batch has, after a look at all of it."""
    Batch(batch.to_dict(), batch_size=batch.batch_size, num_real=batch.num_real)  # checks every invariant
    ids = [int(number) for number in batch.real("id")]  # type: ignore[union-attr]
    for row, sample in zip(batch, ids, strict=True):
        assert row["vector"].tolist() == [sample] * 3
        assert row["words"]["words"].tolist() == list(range(sample % 5))
    return batch.batch_size, batch.num_real, ids, [str(field) for field in batch.schema()]


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
    [(carrier, 3, MOST_CASES) for carrier in CARRIERS]
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


# Ranks that differ, or fail.


def loaded_until_error(comm: Comm, kind: str, balanced: bool) -> Any:
    """Go through a pass in which rank 1 has something wrong; say what was raised, and at which step."""
    settings: dict[str, Any] = {"batch_size": 3, "seed": 0, "shuffle": False, "jagged": ["words"]}
    settings |= {"cost": words_of} if balanced else {}
    dataset = Histories(36)
    if kind.startswith("corrupt"):  # sample 18 + 1 is of rank 1 at step 3 of 3 ranks, sample 1 at step 0, 10 at step 1
        bad = {"corrupt at first": 1, "corrupt second": 10, "corrupt later": 19}[kind]
        dataset = Histories(36, bad=(bad,))
    elif kind == "changes":
        dataset = Histories(36, dtype_changes_at=19)
    elif comm.rank == 1:
        dataset = Histories(30) if kind == "length" else dataset
        other: dict[str, dict[str, Any]] = {"seed": {"seed": 1}, "batch": {"batch_size": 4}, "tail": {"tail": "drop"}}
        other |= {"cost": {"cost": words_of}, "pad values": {"pad_values": {"vector": 7}}}
        settings |= other.get(kind, {})
        settings["shuffle"] = kind == "shuffle"
    num_steps = 0
    with Loader(dataset, comm=comm, **settings) as loader:
        if kind == "epoch" and comm.rank == 1:
            loader.set_epoch(2)
        try:
            for _ in loader:
                num_steps += 1
                comm.all_reduce(np.ones(1))  # what training does in every step
        except (LoadError, DisagreementError) as error:
            return num_steps, type(error).__name__, str(error), getattr(error, "sample", None)
    return num_steps, "", "", None


def in_turn(comm: Comm, cases: list[tuple[str, bool]]) -> list[Any]:
    return [loaded_until_error(comm, *case) for case in cases]


FAILURES: dict[str, tuple[int, str, str]] = {
    "corrupt at first": (
        0,
        "LoadError",
        "rank 1 could not load sample 1 at step 0 of epoch 0: OSError: file 1.npz",
    ),
    "corrupt second": (1, "LoadError", "rank 1 could not load sample 10 at step 1 of epoch 0: OSError: file 10.npz is"),
    "corrupt later": (2, "LoadError", "rank 1 could not load sample 19 at step 2 of epoch 0: OSError: file 19.npz is"),
    "length": (0, "DisagreementError", "samples: 36 on ranks 0, 2; 30 on rank 1"),
    "batch": (0, "DisagreementError", "batch_size: 3 on ranks 0, 2; 4 on rank 1"),
    "tail": (0, "DisagreementError", "tail: pad on ranks 0, 2; drop on rank 1"),
    "seed": (0, "DisagreementError", "seed: 0 on ranks 0, 2; 1 on rank 1"),
    "shuffle": (0, "DisagreementError", "shuffle: False on ranks 0, 2; True on rank 1"),
    "epoch": (0, "DisagreementError", "epoch: 0 on ranks 0, 2; 2 on rank 1"),
    "cost": (0, "DisagreementError", "cost: none on ranks 0, 2; given on rank 1"),
    "pad values": (0, "DisagreementError", "padding values: {} on ranks 0, 2; {'vector': '7.0'} on rank 1"),
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_what_is_wrong_on_one_rank_is_raised_on_all_at_the_same_step(carrier: str) -> None:
    cases = [(kind, balanced) for kind in FAILURES for balanced in (False, True) if (kind, balanced) != ("cost", True)]
    told = values(run_ranks(in_turn, 3, args=(cases,), carrier=carrier, deadline=110))
    for case, found in enumerate(zip(*told, strict=True)):
        kind, balanced = cases[case]
        num_steps, error, text = FAILURES[kind]
        assert len(set(found)) == 1, (kind, balanced, found)
        assert found[0][:2] == (num_steps, error), (kind, balanced, found[0])
        assert text in found[0][2]


def test_fields_that_change_on_one_rank_are_an_error_on_all() -> None:
    told = values(run_ranks(loaded_until_error, 3, args=("changes", False), carrier="threads"))
    assert len(set(told)) == 1
    assert told[0][:2] == (2, "LoadError")
    assert "vector: dense float64 [3], at the first step it was vector: dense float32 [3]" in told[0][2]


def every_step(comm: Comm) -> str:
    dataset = Histories(36, dtype_changes_at=19)
    with Loader(dataset, batch_size=3, shuffle=False, comm=comm, jagged=["words"], check="every") as loader:
        try:
            for _ in loader:
                pass
        except DisagreementError as error:
            return str(error)
    return ""


def test_with_check_every_ranks_compare_at_each_step() -> None:
    told = set(values(run_ranks(every_step, 3, carrier="threads")))
    assert len(told) == 1
    assert "field 'vector': dense float32 [3] on ranks 0, 2; dense float64 [3] on rank 1" in told.pop()


def without_collectives(comm: Comm) -> str:
    """A loop in which ranks never meet: nobody knows where the others are, and still all of them raise."""
    with Loader(Histories(300, bad=(271,)), batch_size=1, shuffle=False, comm=comm, jagged=["words"]) as loader:
        try:
            for _ in loader:
                pass
        except LoadError as error:
            return str(error)
    return "went on"


def test_ranks_that_do_not_meet_in_a_step_hear_of_an_error_all_the_same() -> None:
    told = values(run_ranks(without_collectives, 3, carrier="threads"))
    assert told[0].startswith("rank 1 could not load sample 271")
    assert set(told) == {told[0]}


def skipping(comm: Comm, balanced: bool) -> Any:
    cost = words_of if balanced else None
    dataset = Histories(22, bad=(0, 3, 6, 11))  # samples 0, 3 and 6 are the whole first batch of rank 0
    with Loader(
        dataset, batch_size=3, shuffle=False, on_error="skip", cost=cost, comm=comm, jagged=["words"]
    ) as loader:
        found = [seen(batch) for batch in loader]
        gathered = loader.gather_real(torch.tensor([10 * number for *_, ids, _ in found for number in ids]))
        return found, gathered.tolist(), loader.summary


@pytest.mark.parametrize("balanced", [False, True])
def test_a_sample_that_cannot_be_loaded_may_become_padding(balanced: bool) -> None:
    told = values(run_ranks(skipping, 3, args=(balanced,), carrier="threads"))
    assert {(len(found), *[shape for shape, *_ in found]) for found, *_ in told} == {(3, 3, 3, 3)}
    left = [number for number in range(22) if number not in (0, 3, 6, 11)]
    assert sorted(number for found, *_ in told for *_, ids, _ in found for number in ids) == left
    assert {tuple(gathered) for _, gathered, _ in told} == {tuple(10 * number for number in left)}
    summary = told[0][2]
    assert (summary.num_used, summary.num_skipped, summary.num_padded) == (18, 4, 5)
    assert [sample for sample, _ in summary.skipped] == [0, 3, 6, 11]
    assert "4 skipped" in str(summary)


class Killing(Histories):
    """Its worker is killed at one sample."""

    def __getitem__(self, sample: int) -> dict[str, Any]:
        if sample == 19 and get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(sample)


def with_workers(comm: Comm, kind: str) -> Any:
    dataset = Killing(36) if kind == "killed" else Histories(36, bad=(19,))
    num_steps = 0
    with Loader(dataset, batch_size=3, shuffle=False, num_workers=2, comm=comm, jagged=["words"]) as loader:
        try:
            for _ in loader:
                num_steps += 1
                comm.all_reduce(np.ones(1))
        except LoadError as error:
            return num_steps, str(error), "".join(error.__notes__)
    return num_steps, "", ""


def with_each(comm: Comm) -> Any:
    return [with_workers(comm, kind) for kind in ("corrupt", "killed")]


def test_what_happens_in_a_worker_is_raised_on_all_ranks() -> None:
    told = values(run_ranks(with_each, 2, carrier="torch", deadline=100))
    corrupt, killed = (found[0] for found in told), (found[1] for found in told)
    assert {(num_steps, text) for num_steps, text, _ in corrupt} == {(3, told[0][0][1])}  # 19 is of step 3, on rank 1
    assert told[0][0][1].startswith(
        "rank 1 could not load sample 19 at step 3 of epoch 0: OSError: file 19.npz is corr"
    )
    assert "(test_loader.py:" in told[0][0][1]
    assert all("Traceback" in found[0][2] and "__getitem__" in found[0][2] for found in told)
    assert len({text for _, text, _ in killed}) == 1
    assert told[0][1][1].startswith("rank 1 could not make its batch at step")
    assert "killed by signal" in told[0][1][1] or "exited unexpectedly" in told[0][1][1]


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
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Loader(Histories(4), comm=AloneComm(), **settings)


def test_a_stream_is_refused_with_what_to_use_instead() -> None:
    def stream() -> Iterator[int]:
        yield 1

    with pytest.raises(InputError, match=r"iterate it by paceline\.in_step"):
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
        with pytest.raises(InputError, match="one pass at a time"):
            next(iter(loader))
        batches.close()  # type: ignore[attr-defined]
        assert len(list(loader)) == 5
        del batches


# Samples that are wrong in other ways.


class Odd(Histories):
    """One sample fails once, another cannot be collated, and only the last one has words."""

    def __init__(self, num: int) -> None:
        super().__init__(num)
        self._failed = False

    def __getitem__(self, sample: int) -> dict[str, Any]:
        if sample == 2 and not self._failed:
            self._failed = True
            raise OSError("busy")
        words = [1, 2] if sample == self._num - 1 else []
        return {"id": sample, "vector": None if sample == 5 else np.zeros(3), "words": words}


def test_a_sample_that_loads_in_the_end_is_used_and_one_that_cannot_be_collated_is_named() -> None:
    with Loader(Odd(8), batch_size=4, shuffle=False, comm=AloneComm(), jagged=["words"], on_error="skip") as loader:
        assert [batch.num_real for batch in loader] == [4, 3]
        assert loader.summary is not None
        assert [sample for sample, _ in loader.summary.skipped] == [5]
    with Loader(Odd(8), batch_size=4, shuffle=False, comm=AloneComm(), jagged=["words"]) as loader:
        with pytest.raises(LoadError, match="could not load sample 5 at step 1") as raised:
            list(loader)
        assert raised.value.sample == 5
        assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def repeating(comm: Comm) -> Any:
    with Loader(
        Histories(5, bad=(0,)), batch_size=2, tail="repeat", on_error="skip", shuffle=False, comm=comm, jagged=["words"]
    ) as loader:
        ids = [number for batch in loader for number in seen(batch)[2]]
        return ids, loader.summary


def test_repeated_samples_that_are_skipped_are_counted_once() -> None:
    told = values(run_ranks(repeating, 2, carrier="threads"))
    ids = [number for rank_ids, _ in told for number in rank_ids]
    summary = told[0][1]
    assert (summary.num_used, summary.num_repeated, summary.num_skipped) == (4, len(ids) - 4, 1)
    assert [sample for sample, _ in summary.skipped] == [0]


def several_passes(comm: Comm, balanced: bool) -> Any:
    """An error, then passes that are not disturbed by it, also two at a time."""
    cost = words_of if balanced else None
    dataset = Histories(24, bad=(13,))
    found = []
    with Loader(dataset, batch_size=2, shuffle=False, cost=cost, comm=comm, jagged=["words"]) as loader:
        for bad in (13, None, 17, None):
            dataset._bad = set() if bad is None else {bad}
            try:
                found.append(len([comm.all_reduce(np.ones(1)) for _ in loader]))
            except LoadError as error:
                found.append(str(error).split(":")[0])  # type: ignore[arg-type]
        if not balanced:
            found.append(sum(1 for _ in zip(loader, loader, strict=True)))
    return found


@pytest.mark.parametrize("balanced", [False, True])
def test_after_an_error_the_next_pass_is_whole(balanced: bool) -> None:
    for told in values(run_ranks(several_passes, 3, args=(balanced,), carrier="threads")):
        expected = ["rank 1 could not load sample 13 at step 2 of epoch 0", 4]
        expected += ["rank 2 could not load sample 17 at step 2 of epoch 0", 4]
        assert told == expected + ([] if balanced else [4])


class LongWinded(Histories):
    """Its error is long, and in letters of several bytes."""

    def __getitem__(self, sample: int) -> dict[str, Any]:
        if sample in self._bad:
            raise OSError("数" * 9000)
        return super().__getitem__(sample)


def long_error(comm: Comm) -> str:
    with Loader(LongWinded(24, bad=(14,)), batch_size=2, shuffle=False, comm=comm, jagged=["words"]) as loader:
        try:
            for _ in loader:
                comm.barrier()
        except LoadError as error:
            return str(error)
    return ""


def test_a_long_error_is_cut_and_reaches_all_ranks() -> None:
    told = values(run_ranks(long_error, 3, carrier="threads"))
    assert all(text.startswith("rank 2 could not load sample 14 at step 2 of epoch 0: OSError: 数数") for text in told)


# Values of all samples.


def gathering(comm: Comm, kind: str) -> Any:
    with Loader(Histories(11), batch_size=2, seed=4, comm=comm, jagged=["words"]) as loader:
        rows: list[Any] = []
        for batch in loader:
            ids = batch["id"]
            assert isinstance(ids, torch.Tensor)
            if kind == "step":
                rows.append(loader.gather_real(ids.double()).tolist())  # with padding
            elif kind == "shapes":  # as wide as the longest of this rank
                rows += [torch.full((comm.rank + 1,), float(number)) for number in ids[: batch.num_real]]
            else:
                rows.append(ids[: batch.num_real])
        if kind == "step":
            return rows
        if kind == "shapes":
            gathered = loader.gather_real(torch.stack(rows) if rows else torch.empty(0, comm.rank + 1))
            return [(int(row[0]), len(row)) for row in gathered]
        if kind in ("wrong", "nothing"):
            rows = rows if comm.rank == 0 else rows[:-1] if kind == "wrong" else [rows[0][:0]]
        gathered = loader.gather_real(
            {"id": torch.cat(rows), "text": [f"{number}" for row in rows for number in row.tolist()]}
        )
        return gathered["id"].tolist(), gathered["text"]


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_values_of_all_samples_come_once_in_the_order_of_samples(num_ranks: int) -> None:
    for ids, texts in values(run_ranks(gathering, num_ranks, args=("pass",), carrier="threads")):
        assert ids == list(range(11))
        assert texts == [f"{number}" for number in range(11)]
    for row in values(run_ranks(gathering, num_ranks, args=("shapes",), carrier="threads")):
        assert [number for number, _ in row] == list(range(11))
        assert {width for _, width in row} == set(range(1, num_ranks + 1))
    by_step = values(run_ranks(gathering, num_ranks, args=("step",), carrier="threads"))
    assert all(rows == by_step[0] for rows in by_step)
    assert all(row == sorted(row) for row in by_step[0])
    assert sorted(number for row in by_step[0] for number in row) == list(range(11))


def small_evaluation(comm: Comm, num: int, batch_size: int) -> Any:
    with Loader(Histories(num), batch_size=batch_size, shuffle=False, comm=comm, jagged=["words"]) as loader:
        rows, in_loop = [], []
        for batch in loader:
            in_loop += loader.gather_real(batch["id"]).tolist()
            rows.append(batch.real("id"))
        return loader.gather_real(torch.cat(rows)).tolist(), sorted(in_loop)  # type: ignore[arg-type]


@pytest.mark.parametrize(("num", "num_ranks", "batch_size"), [(5, 2, 2), (4, 3, 1), (7, 3, 2), (2, 3, 2), (9, 2, 1)])
def test_batches_that_are_all_padding_confuse_nobody(num: int, num_ranks: int, batch_size: int) -> None:
    for told in values(run_ranks(small_evaluation, num_ranks, args=(num, batch_size), carrier="threads")):
        assert told == (list(range(num)), list(range(num)))


def wrong_values(comm: Comm, kind: str) -> str:
    with Loader(Histories(6), batch_size=2, shuffle=False, comm=comm, jagged=["words"]) as loader:
        ids = [number for batch in loader for number in seen(batch)[2]]
        given: Any = {"names": {"a": ids} | ({"b": ids} if comm.rank else {}), "pickle": [lambda: 1 for _ in ids]}[kind]
        given = ids if kind == "pickle" and comm.rank else given
        try:
            loader.gather_real(given)
        except (InputError, DisagreementError) as error:
            return str(error)
    return ""


@pytest.mark.parametrize(
    ("kind", "message"),
    [("names", "values 'b': nothing on rank 0; list on ranks 1-2"), ("pickle", "rank 0 cannot gather: ")],
)
def test_values_that_cannot_be_gathered_are_refused_on_all_ranks(kind: str, message: str) -> None:
    told = set(values(run_ranks(wrong_values, 3, args=(kind,), carrier="threads")))
    assert len(told) == 1
    assert message in told.pop()


def saved(comm: Comm, kind: str) -> str:
    functions = {"raises": lambda: 1 // 0, "unpicklable": lambda: lambda: 1}
    try:
        return str(on_one_rank(comm, functions.get(kind, lambda: comm.rank), rank=1))
    except OneRankError as error:
        return str(error)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("fine", "1"), ("raises", "rank 1 failed: ZeroDivisionError"), ("unpicklable", "rank 1 failed: ")],
)
def test_what_one_rank_does_for_all_comes_to_all(kind: str, text: str) -> None:
    told = set(values(run_ranks(saved, 3, args=(kind,), carrier="threads")))
    assert len(told) == 1
    assert told.pop().startswith(text)


def ids_only(samples: list[Any]) -> dict[str, torch.Tensor]:
    return {"id": torch.tensor([sample["id"] for sample in samples])}


def test_a_batch_of_padding_is_put_where_others_are() -> None:
    loader = Loader(Histories(5, bad=(2, 3)), batch_size=2, shuffle=False, device="meta", comm=AloneComm(),
                    collate=ids_only, on_error="skip")  # fmt: skip
    assert [(batch.num_real, batch.device.type) for batch in loader] == [(2, "meta"), (0, "meta"), (1, "meta")]


def test_rows_that_are_of_no_batch_are_refused_on_all_ranks() -> None:
    for outcome in run_ranks(gathering, 3, args=("wrong",), carrier="threads"):
        assert isinstance(outcome.error, DisagreementError)
        assert "what the rows are of: all batches on rank 0; the last batch on ranks 1-2" in str(outcome.error)
    for outcome in run_ranks(gathering, 3, args=("nothing",), carrier="threads"):
        assert isinstance(outcome.error, InputError)
        assert "rank 1 cannot gather: 0 rows are neither the last batch" in str(outcome.error)


# The alarm.


def without_shared_memory(comm: Comm) -> Any:
    """As on several hosts: the board is torch's store, or messages of MPI."""
    from paceline.loader import alarm

    alarm._make_file = lambda name, num_bytes: None
    found = [loaded_until_error(comm, kind, False) for kind in ("corrupt later", "corrupt second")]
    board = alarm.make_board(comm)
    return type(board).__name__, found


@pytest.mark.parametrize(("carrier", "board"), [("torch", "StoreBoard"), ("mpi", "MessageBoard")])
def test_errors_reach_ranks_that_share_no_memory(carrier: str, board: str) -> None:
    for name, found in values(run_ranks(without_shared_memory, 3, carrier=carrier, deadline=100)):
        assert name == board
        for (num_steps, error, text, _), kind in zip(found, ("corrupt later", "corrupt second"), strict=True):
            assert (num_steps, error) == FAILURES[kind][:2]
            assert FAILURES[kind][2] in text


class Slow(Histories):
    """Rank 1 needs its time for a sample that it cannot load."""

    def __getitem__(self, sample: int) -> dict[str, Any]:
        if sample in self._bad:
            time.sleep(1.0)  # so that the other rank has gone on; what is tested holds also if it has not
        return super().__getitem__(sample)


def meeting_rarely(comm: Comm) -> int:
    """A loop that meets in every eighth step only, as with gradient accumulation."""
    num_steps = 0
    with Loader(Slow(32, bad=(9,)), batch_size=1, shuffle=False, comm=comm, jagged=["words"], grace=0.5) as loader:
        for _ in loader:
            num_steps += 1
            if num_steps % 8 == 0:
                comm.barrier()
    return num_steps


def test_a_rank_that_waits_for_one_that_has_left_is_ended_with_the_reason() -> None:
    waiting, failing = run_ranks(meeting_rarely, 2, carrier="threads", deadline=60)
    assert isinstance(failing.error, LoadError)
    assert "rank 1 could not load sample 9 at step 4 of epoch 0" in str(failing.error)
    assert "rank 1 could not load sample 9 at step 4 of epoch 0" in str(waiting.error)
    assert "has not come back to its loader within 0 s, and is ended" in str(waiting.error)
