"""The values of all ranks' samples, and what one rank does for all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.helpers.outcomes import values
from tests.helpers.sample_datasets import Histories, seen

from paceline import Loader, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.errors import InputError
from paceline.loader import DisagreementError, OneRankError, on_one_rank


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


def ended(comm: Comm, kind: str) -> str:
    errors: dict[str, type[BaseException]] = {"exit": SystemExit, "interrupt": KeyboardInterrupt}

    def function() -> None:
        raise errors[kind]

    try:
        on_one_rank(comm, function, rank=1)
    except BaseException as error:
        return f"{type(error).__name__} {error}"
    return ""


@pytest.mark.parametrize(("kind", "name"), [("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt")])
def test_whatever_ends_the_function_of_one_rank_comes_to_all(kind: str, name: str) -> None:
    first, second, third = values(run_ranks(ended, 3, args=(kind,), carrier="threads", deadline=30))
    assert second.split() == [name], "it stays what it is where it was raised"
    assert first == third
    assert first.startswith(f"OneRankError rank 1 failed: {name}")


def ids_only(samples: list[Any]) -> dict[str, torch.Tensor]:
    return {"id": torch.tensor([sample["id"] for sample in samples])}


def test_a_batch_of_padding_is_put_where_others_are() -> None:
    loader = Loader(Histories(5, bad=(2, 3)), batch_size=2, shuffle=False, device="meta", comm=AloneComm(),
                    collate=ids_only, on_error="skip")  # fmt: skip
    assert [(batch.num_real, batch.device.type) for batch in loader] == [(2, "meta"), (0, "meta"), (1, "meta")]


def test_rows_that_are_of_no_batch_are_refused_on_all_ranks() -> None:
    for outcome in run_ranks(gathering, 3, args=("wrong",), carrier="threads"):
        assert isinstance(outcome.error, DisagreementError)
        assert "batches of the rows: all batches on rank 0; the last batch on ranks 1-2" in str(outcome.error)
    for outcome in run_ranks(gathering, 3, args=("nothing",), carrier="threads"):
        assert isinstance(outcome.error, InputError)
        assert "rank 1 cannot gather: 0 rows are neither the last batch" in str(outcome.error)
