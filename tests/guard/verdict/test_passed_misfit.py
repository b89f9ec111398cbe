"""Messages that did not fit are found although both ranks have gone on, and those that fit are not."""

from __future__ import annotations

import pytest
from tests.guard.verdict.simulated import WORLD

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.verdict.diagnose import find_any_passed_misfit
from paceline.guard.verdict.finding import Finding, FindingField, FindingKind
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Membership, RankState, Snapshot


def _message(operation: str, peer: int, number: int, dtype: str, *, num_bytes: int = 32, tag: int = 5) -> Call:
    return Call(
        operation=operation, communicator=WORLD, number=number, site=f"train.py:{number}", peer=peer, tag=tag,
        message_number=number, dtype=dtype, num_bytes=num_bytes, count=4, left_ns=1,
    )  # fmt: skip


def _find(*histories: tuple[Call, ...], num_first: int = 0, **state: object) -> Finding | None:
    ranks = [
        RankState(rank=rank, history=history, **state)  # type: ignore[arg-type]
        for rank, history in enumerate(histories)
    ]
    known = {WORLD: Membership(name="WORLD", ranks=tuple(range(len(ranks))), num_first=num_first)}
    return find_any_passed_misfit(Inspection(Snapshot(ranks=ranks, communicators=known)))


def test_the_one_message_that_does_not_fit_is_found() -> None:
    sent = (_message("Send", 2, 1, "f8"), _message("Send", 2, 2, "f8"))
    received = (_message("Recv", 0, 1, "f8"), _message("Recv", 0, 2, "f4"))
    finding = _find(sent, (), received)
    assert finding is not None
    assert (finding.kind, finding.field, finding.ranks) == (FindingKind.MESSAGE, FindingField.DTYPE, (0, 2))
    assert "rank 0 sends 4 x f8 at train.py:2, rank 2 receives 4 x f4 at train.py:2" in finding.summary


def test_a_message_that_is_too_large_is_found() -> None:
    finding = _find((_message("Send", 1, 1, "f8", num_bytes=64),), (_message("Recv", 0, 1, "f8"),))
    assert finding is not None
    assert finding.field is FindingField.COUNT


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (_message("Send", 1, 1, "f8"), _message("Recv", 0, 1, "f8", num_bytes=64)),  # there is room for more
        (_message("Send", 1, 1, "f8"), _message("Recv", 0, 1, "any")),
        (_message("Send", 1, 1, "f8"), _message("Recv", 0, 2, "f4")),  # another message
        (_message("Send", 1, 1, "f8"), _message("Recv", 0, 1, "f4", tag=6)),
        (_message("Send", 1, 1, "f8"), _message("Recv", ANY, 1, "f4")),  # it may have taken another
    ],
)
def test_what_fits_or_is_not_known_is_left_alone(sent: Call, received: Call) -> None:
    assert _find((sent,), (received,)) is None


def test_nothing_is_said_where_messages_are_not_counted_for_certain() -> None:
    sent, received = (_message("Send", 1, 1, "f8"),), (_message("Recv", 0, 1, "f4"),)
    assert _find(sent, received) is not None
    assert _find(sent, received, messages_known=False) is None
    assert _find(sent, received, num_uncertain=1) is None
    assert _find(sent, received, num_first=1) is None
