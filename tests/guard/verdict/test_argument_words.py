"""The words of the rule of arguments: the number that the user wrote, and what there is."""

from __future__ import annotations

import pytest
from tests.guard.verdict.simulated import SPLIT, STOP_ARGUMENT, WORLD, certain, collective, message, stopped, waits

from paceline.guard.shared_memory.nobody import FARTHEST, encode_outsider
from paceline.guard.verdict.finding import Cause, FindingField, FindingKind
from paceline.guard.verdict.member_numbers import LEFT_OUT
from paceline.guard.verdict.snapshot import Call, End, EndKind, RankState


def test_a_destination_that_does_not_exist() -> None:
    call = message("Send", 7, peer=3, tag=1)
    finding = certain(RankState(rank=0), stopped(1, call, reason=STOP_ARGUMENT), RankState(rank=2))
    assert (finding.kind, finding.field, finding.cause) == (
        FindingKind.ARGUMENT, FindingField.SOURCE, Cause.NO_SUCH_RANK,
    )  # fmt: skip
    assert finding.ranks == (1,)
    assert finding.summary == (
        "rank 1 named a rank that does not exist: 3 in Send at train.py:7; this communicator has ranks 0 to 2"
    )
    assert finding.advice == (
        "check the destination or source of the Send at train.py:7: this communicator has ranks 0 to 2"
    )


@pytest.mark.parametrize("written", [-7, 1, 5000])
def test_a_rank_outside_a_group_is_named_as_the_user_wrote_it(written: int) -> None:
    call = message("torch.send", 4, peer=encode_outsider(written), communicator=SPLIT)
    ranks = [RankState(rank=0), RankState(rank=1), stopped(2, call, reason=STOP_ARGUMENT), RankState(rank=3)]
    finding = certain(*ranks, split=(2, 3))
    assert finding.summary == (
        f"rank 2 named a rank that does not exist: {written} in send at train.py:4; Split has ranks 2-3"
    )


@pytest.mark.parametrize("field", ["root", "peer"])
def test_a_member_that_is_not_looked_at_exists(field: str) -> None:
    elsewhere = LEFT_OUT + 300
    call = collective("bcast", 9, root=elsewhere, sequence=1) if field == "root" else message("Recv", 9, peer=elsewhere)
    raised = End(kind=EndKind.RAISED, detail="ValueError: its own", site="train.py:9", failed_call=0)
    ended = RankState(rank=0, end=raised, history=(call,), positions={WORLD: 1})
    finding = certain(ended, waits(1, collective("Barrier", 12, sequence=2)))
    assert finding.kind is not FindingKind.ARGUMENT


def test_a_root_that_does_not_exist() -> None:
    call = collective("Bcast", 9, root=encode_outsider(10), sequence=1)
    finding = certain(stopped(0, call, reason=STOP_ARGUMENT), RankState(rank=1))
    assert finding.field is FindingField.ROOT
    assert finding.summary == (
        "rank 0 named a root that does not exist: 10 in Bcast at train.py:9; this communicator has ranks 0 to 1"
    )
    assert finding.advice == "check the root of the Bcast at train.py:9: this communicator has ranks 0 to 1"


def test_a_tag_that_does_not_exist() -> None:
    call = message("Send", 3, peer=1, tag=encode_outsider(-5))
    finding = certain(stopped(0, call, reason=STOP_ARGUMENT), RankState(rank=1))
    assert finding.field is FindingField.TAG
    assert finding.summary == ("rank 0 named a tag that does not exist: -5 in Send at train.py:3; tags are 0 or more")
    assert finding.advice == "check the tag of the Send at train.py:3"


@pytest.mark.parametrize(
    ("written", "words", "limit"),
    [(2**60, f"{FARTHEST} or more", "largest tag"), (-(2**60), f"-{FARTHEST} or less", "tags are 0 or more")],
)
def test_a_number_too_large_to_be_kept_is_not_named_as_another(written: int, words: str, limit: str) -> None:
    call = message("Send", 3, peer=1, tag=encode_outsider(written))
    finding = certain(stopped(0, call, reason=STOP_ARGUMENT), RankState(rank=1))
    assert f"a tag that does not exist: {words} in Send" in finding.summary
    assert limit in finding.summary


def test_the_wrong_side_of_an_exchange_is_named() -> None:
    call = Call(
        operation="Sendrecv", communicator="mpi-world", site="train.py:6", peer=0, tag=0, source=8, source_tag=0
    )  # fmt: skip
    finding = certain(RankState(rank=0), stopped(1, call, reason=STOP_ARGUMENT))
    assert "a rank that does not exist: 8 in Sendrecv at train.py:6" in finding.summary


def test_a_rank_that_died_of_it_is_named_and_so_is_one_whose_call_has_just_failed() -> None:
    failed = message("Send", 5, peer=2, number=4, flags=2)
    died = RankState(rank=0, end=End(kind=EndKind.RAISED, failed_call=4), history=(failed,))
    finding = certain(died, RankState(rank=1, history=(failed,)))
    assert finding.ranks == (0, 1)
    assert finding.summary.startswith("ranks 0-1 named a rank that does not exist: 2 in Send at train.py:5")
