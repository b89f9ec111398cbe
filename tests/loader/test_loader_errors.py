"""Loaders whose ranks differ, or of which one fails: all of them hear of it, at the same step."""

from __future__ import annotations

import os
import pickle
import signal
import time
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.outcomes import values
from tests.helpers.sample_datasets import Histories, seen, words_of
from torch.utils.data import get_worker_info

from paceline import Loader, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.errors import InputError
from paceline.loader import DisagreementError, LoadError

CARRIERS = ["threads", "torch", "mpi"]


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
    elif kind == "no samples at all":
        dataset = Histories(0)
    elif comm.rank == 1:
        dataset = Histories({"length": 30, "no samples": 0}.get(kind, 36))
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
    "no samples": (0, "DisagreementError", "samples: 36 on ranks 0, 2; 0 on rank 1"),
    "no samples at all": (
        0,
        "LoadError",
        "rank 0 could not load sample 0 at step 0 of epoch 0: InputError: the dataset",
    ),
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
    assert "(sample_datasets.py:" in told[0][0][1]
    assert all("Traceback" in found[0][2] and "__getitem__" in found[0][2] for found in told)
    assert len({text for _, text, _ in killed}) == 1
    assert told[0][1][1].startswith("rank 1 could not make its batch at step")
    assert "killed by signal" in told[0][1][1] or "exited unexpectedly" in told[0][1][1]


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


# The alarm.


def without_shared_memory(comm: Comm) -> Any:
    """As on several hosts: the board is torch's store, or messages of MPI."""
    from paceline.loader.agreement import alarm_boards

    alarm_boards._make_memory = lambda token, num_bytes: None
    found = [loaded_until_error(comm, kind, False) for kind in ("corrupt later", "corrupt second")]
    board = alarm_boards.make_board(comm)
    return type(board).__name__, found


@pytest.mark.parametrize(("carrier", "board"), [("torch", "StoreAlarmBoard"), ("mpi", "MpiAlarmBoard")])
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
    assert "did not return to its loader within 0 s and was terminated" in str(waiting.error)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (lambda batch: 1 // 0, "the cost function raised ZeroDivisionError"),
        (lambda batch: [1.0, float("nan")], "nan"),
        (lambda batch: [1], "costs must be one for each of"),
    ],
)
def test_a_wrong_cost_function_is_an_error_on_one_rank_too(cost: Any, message: str) -> None:
    with pytest.raises(DisagreementError, match=message):
        list(Loader(Histories(6), batch_size=2, jagged=["words"], cost=cost, comm=AloneComm()))


def test_cost_and_costs_together_are_refused() -> None:
    with pytest.raises(InputError, match="not both"):
        Loader(Histories(6), batch_size=2, cost=lambda batch: [1, 1], costs=[1] * 6, comm=AloneComm())
