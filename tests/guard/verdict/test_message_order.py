"""Messages that ranks send and receive in different orders are not told as buffers that are too small."""

from __future__ import annotations

import pytest
from tests.guard.verdict.simulated import certain, message, stopped

from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.snapshot import Call, RankState


def _posted(operation: str, line: int, *counts: int, is_waited: bool = False) -> tuple[Call, ...]:
    """Return messages of these sizes, one after the other."""
    calls: list[Call] = []
    for number, count in enumerate(counts, start=1):
        calls.append(
            message(
                operation,
                line,
                peer=1 if "send" in operation else 0,
                dtype="f4",
                num_bytes=4 * count,
                count=count,
                request=number,
                message_number=number,
                number=len(calls),
            )
        )
        if is_waited:
            calls.append(Call(operation="torch.wait", site=f"train.py:{line}", number=len(calls)))
    return tuple(calls)


@pytest.mark.parametrize("stops_at", [0, 1])
def test_two_messages_in_another_order_are_told_as_an_order(stops_at: int) -> None:
    sends, receives = _posted("torch.isend", 4, 2, 8), _posted("torch.irecv", 7, 8, 2)
    if stops_at == 0:
        finding = certain(stopped(0, sends[1], peer=1, history=sends), RankState(rank=1, history=receives))
    else:
        finding = certain(RankState(rank=0, history=sends), stopped(1, receives[1], peer=0, history=receives))
    assert (finding.cause, finding.ranks) == (Cause.MESSAGE_ORDER, (0, 1))
    assert finding.summary == (
        "rank 0 sends 2 x f4 at train.py:4 and then 8 x f4 at train.py:4 to rank 1, which receives 8 x f4 at "
        "train.py:7 and then 2 x f4 at train.py:7: in another order"
    )
    assert "let rank 0 send in the order in which rank 1 receives" in finding.advice
    assert finding.explanations == ()


def test_a_message_that_was_left_out_may_look_like_another_order() -> None:
    sends = _posted("torch.isend", 4, 8, 2, 2, 8, is_waited=True)
    receives = _posted("torch.irecv", 7, 8, 2, 8, 2, is_waited=True)
    finding = certain(RankState(rank=0, history=sends), stopped(1, receives[-2], peer=0, history=receives[:-1]))
    assert [one.cause for one in finding.explanations] == [Cause.MESSAGE_ORDER, Cause.RECEIVE_WITHOUT_SEND]
    assert "left out the message of 8 x f4" in finding.explanations[1].summary


def test_a_receive_of_the_next_message_may_be_posted_too_early() -> None:
    """Of the sender only the first message is known yet, or of the receiver only the first receive."""
    sends, receives = _posted("torch.isend", 4, 8, 2), _posted("torch.irecv", 7, 2, 8)
    by_sender = certain(stopped(0, sends[0], peer=1, history=sends[:1]), RankState(rank=1, history=receives))
    by_receiver = certain(RankState(rank=0, history=sends), stopped(1, receives[0], peer=0, history=receives[:1]))
    for finding in (by_sender, by_receiver):
        assert [one.cause for one in finding.explanations] == [Cause.MESSAGE_ORDER, Cause.TRUNCATED]
    assert "posts a receive of 2 x f4 at train.py:7 and then one of 8 x f4" in by_sender.summary


def test_a_message_that_is_larger_than_all_receives_is_told_as_such() -> None:
    sends, receives = _posted("torch.isend", 4, 8, 8), _posted("torch.irecv", 7, 2, 2)
    finding = certain(stopped(0, sends[0], peer=1, history=sends[:1]), RankState(rank=1, history=receives))
    assert (finding.cause, finding.explanations) == (Cause.TRUNCATED, ())
