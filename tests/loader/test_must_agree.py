"""How ranks compare what must agree: the words, who is named, and how many messages it takes. No process is started."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.sample_batches import make_batch

from paceline import Batch, Jagged, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.loader import DisagreementError
from paceline.loader.agreement.alarm import PassAlarm
from paceline.loader.agreement.batch_form import BatchForm, agreed_form
from paceline.loader.agreement.first_message import AgreementHeader, gather_bytes, gather_json
from paceline.loader.agreement.must_agree import MustAgree, check_agreement
from paceline.loader.agreement.problem import Problem
from paceline.loader.epochs.step_report import StepReport, compare_steps


def error_of(*ranks: MustAgree) -> str:
    try:
        check_agreement(ranks)
    except DisagreementError as error:
        return str(error)
    return ""


def having(**chosen: str) -> MustAgree:
    return MustAgree(chosen=chosen)


def test_ranks_that_have_the_same_agree() -> None:
    assert error_of(having(seed="0", tail="pad"), having(tail="pad", seed="0")) == ""


def test_each_difference_names_the_ranks_of_each_value() -> None:
    ranks = [having(seed="0", tail="pad"), having(seed="7", tail="pad"), having(seed="0", tail="drop")]
    assert error_of(*ranks) == (
        "ranks disagree on seed: 0 on ranks 0, 2; 7 on rank 1 | tail: pad on ranks 0-1; drop on rank 2"
    )


def test_what_a_rank_does_not_have_is_named_nothing() -> None:
    assert error_of(having(a="x"), having()) == "ranks disagree on a: x on rank 0; nothing on rank 1"


def test_what_follows_from_others_is_named_only_if_they_agree() -> None:
    short, long = (MustAgree(chosen={"samples": num}, derived={"steps": num}) for num in ("3", "4"))
    assert error_of(short, long) == "ranks disagree on samples: 3 on rank 0; 4 on rank 1"
    other = MustAgree(chosen={"samples": "3"}, derived={"steps": "2"})
    assert error_of(short, other) == "ranks disagree on steps: 3 on rank 0; 2 on rank 1"


def test_a_problem_comes_after_what_may_have_caused_it_and_before_what_it_causes() -> None:
    failing = MustAgree(chosen={"batch_size": "3"}, derived={"groups": "none"}, problem="row 9 is lost")
    fine = MustAgree(chosen={"batch_size": "3"}, derived={"groups": "one"})
    assert error_of(fine, failing, failing) == "ranks 1-2 cannot continue: row 9 is lost"
    assert error_of(fine, failing, MustAgree(chosen=fine.chosen, problem="no memory")) == (
        "rank 1 cannot continue: row 9 is lost | rank 2 cannot continue: no memory"
    )
    larger = MustAgree(chosen={"batch_size": "4"})
    assert error_of(larger, failing) == "ranks disagree on batch_size: 4 on rank 0; 3 on rank 1"


def test_what_must_agree_travels_as_json() -> None:
    value = MustAgree(chosen={"tail": "pad"}, derived={"steps": "4"}, problem="no 数")
    assert MustAgree.from_json(json.loads(json.dumps(value.to_json()))) == value


# The header of a message with a payload.


class CountingComm(AloneComm):
    """Counts the collectives of one rank."""

    def __init__(self) -> None:
        self.num_calls = 0

    def all_gather(self, array: Any) -> Any:
        self.num_calls += 1
        return super().all_gather(array)


def header(number: int, text: str, problem: str = "") -> AgreementHeader:
    value = MustAgree(chosen={"colour": text}, problem=problem)
    return AgreementHeader(fingerprints=(7, number), has_problem=bool(problem), describe=lambda: value)


def test_headers_that_agree_cost_no_collective_and_are_not_described() -> None:
    def describe() -> MustAgree:
        raise AssertionError("nobody asks for it")

    comm, agreed = CountingComm(), AgreementHeader(fingerprints=(7, 1), describe=describe)
    agreed.check(comm, [[0, 7, 1, 99], [0, 7, 1, 100]], torch.device("cpu"))  # what follows is the caller's own
    assert comm.num_calls == 0


def checked(comm: Comm, kind: str) -> str:
    own = {
        "value": header(comm.rank // 2, f"{comm.rank // 2}"),
        "problem": header(1, "red", problem="no costs" if comm.rank == 1 else ""),
        "problem of all": header(1, "red", problem="no costs"),
        "alike": header(comm.rank, "red"),
        "same": header(1, "red"),
    }[kind]
    headers = comm.all_gather(np.array(own.numbers(), np.int64)).tolist()
    try:
        own.check(comm, headers, torch.device("cpu"))
    except DisagreementError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("same", ""),
        ("value", "ranks disagree on colour: 0 on ranks 0-1; 1 on rank 2"),
        ("problem", "rank 1 cannot continue: no costs"),
        ("problem of all", "ranks 0-2 cannot continue: no costs"),
        ("alike", "ranks disagree, though all of them describe what they have as {'chosen': {'colour': 'red'}"),
    ],
)
def test_headers_that_differ_raise_the_same_words_on_all_ranks(kind: str, text: str) -> None:
    texts = {outcome.value for outcome in run_ranks(checked, 3, args=(kind,), carrier="threads")}
    assert len(texts) == 1
    assert (texts == {""}) is (text == "")
    assert texts.pop().startswith(text)


# Messages of any size.


@pytest.mark.parametrize(("num_bytes", "num_calls"), [(0, 1), (8184, 1), (8185, 2), (100_000, 2)])
def test_a_message_takes_one_collective_if_it_is_small_otherwise_two(num_bytes: int, num_calls: int) -> None:
    comm, content = CountingComm(), bytes(range(256)) * 400
    assert gather_bytes(comm, content[:num_bytes]) == [content[:num_bytes]]
    assert comm.num_calls == num_calls


def of_different_sizes(comm: Comm) -> list[Any]:
    return gather_json(comm, {"rank": comm.rank, "text": "数" * 5000 * comm.rank})


def test_messages_of_different_sizes_arrive_whole() -> None:
    for outcome in run_ranks(of_different_sizes, 3, carrier="threads"):
        assert outcome.value == [{"rank": rank, "text": "数" * 5000 * rank} for rank in range(3)]


# The fields of batches.


def forms() -> list[Batch]:
    weighted = Jagged(
        keys=["a", "b"],
        values=torch.zeros(2, 5, dtype=torch.bfloat16),
        lengths=torch.tensor([1, 1], dtype=torch.int32),
        weights=torch.ones(2),
    )
    padded = {"y": torch.zeros(1, 2, 3, dtype=torch.bool), "a": torch.full((1,), np.nan), "w": weighted}
    return [make_batch(1, 3, 4), Batch(padded, batch_size=1, pad_values={"a": np.float64(7.5), "y": 1})]


def test_a_batch_of_padding_made_from_a_form_has_the_fields_of_its_batch() -> None:
    for batch in forms():
        form = BatchForm.from_json(json.loads(json.dumps(BatchForm.of(batch).to_json())))
        assert form == BatchForm.of(batch)
        assert form is not None
        padding = form.padding_rows(5)
        assert (padding.batch_size, padding.num_real) == (5, 0)
        assert padding.names() == batch.names()
        assert padding.schema() == batch.schema()
        assert padding.padding() == batch.padding()
        Batch(padding.to_dict(), batch_size=5, num_real=0, pad_values=padding.pad_values)  # checks every invariant
        assert Batch.concat([batch, padding]).num_real == batch.num_real


def test_ranks_without_a_batch_take_the_fields_of_the_others_and_a_difference_is_named() -> None:
    one, other = map(BatchForm.of, forms())
    assert agreed_form([None, None]) is None
    assert agreed_form([None, one, None, one]) == one
    with pytest.raises(DisagreementError) as raised:
        agreed_form([None, one, other])
    assert "field 'label': dense int64 [] on ranks 0-1; nothing on rank 2" in str(raised.value)
    assert "padding values: {} on ranks 0-1; {'a': '7.5', 'y': '1.0'} on rank 2" in str(raised.value)


# Announcements of the alarm.


class ListBoard:
    """A board for one rank."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def post(self, message: bytes) -> None:
        self.messages = [message]

    def read(self) -> list[bytes]:
        return self.messages

    def close(self) -> None:
        """Nothing to release."""


def compared(comm: Comm, problem: str) -> str:
    """Compare steps of which all ranks say the same."""
    form = BatchForm.of(Batch({"x": torch.zeros(2)}, batch_size=2))
    report = StepReport(must_agree=MustAgree(chosen={"seed": "0"}, problem=problem), form=form)
    try:
        return str(compare_steps(comm, report, torch.device("cpu")) is form)
    except DisagreementError as error:
        return f"{error}"


def test_steps_of_which_all_ranks_say_the_same_need_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(json, "loads", lambda _: pytest.fail("it was read"))
        said = [outcome.value for outcome in run_ranks(compared, 3, args=("",), carrier="threads")]
    assert said == ["True"] * 3
    said = [outcome.value for outcome in run_ranks(compared, 3, args=("no seed",), carrier="threads")]
    assert said == ["ranks 0-2 cannot continue: no seed"] * 3


@pytest.mark.parametrize("sample", [None, 0, 2**40])
def test_an_announcement_keeps_what_names_the_problem_and_cuts_long_texts(sample: int | None) -> None:
    board = ListBoard()
    alarm = PassAlarm(3, board, AloneComm(), grace=None)
    problem = Problem(text="数" * 9000, trace="x" * 9000 + "end", sample=sample, rank=2, epoch=2**64 - 1, step=5)
    alarm.announce(problem)
    assert len(board.messages[0]) < 8192 - 8
    assert alarm.problem_at(4) is None
    heard = alarm.problem_at(5)
    assert heard is not None
    assert (heard.sample, heard.rank, heard.epoch, heard.step) == (sample, 2, 2**64 - 1, 5)
    assert heard.text == "数" * (2048 // 3)
    assert heard.trace.endswith("xend")
    assert PassAlarm(4, board, AloneComm(), grace=None).problem_at(9) is None, "it is of another pass"
