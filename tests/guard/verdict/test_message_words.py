"""The words of the rules of messages: what does not fit its receive, and what is there instead of what is wanted."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import pytest
from tests.guard.verdict.simulated import SPLIT, WORLD, certain, collective, communicators, judge, message, stopped

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, RankState, Snapshot, Waiting

BARRIER = collective("Barrier", 12, sequence=1)
SENT = message("Send", 4, peer=1, tag=3, dtype="f8", num_bytes=64, count=8, message_number=1)


def received(**fields: Any) -> Call:
    """Return the receive of that message."""
    values: dict[str, Any] = {"dtype": "f8", "num_bytes": 64, "count": 8, "message_number": 1, **fields}
    return message("Recv", 9, peer=0, tag=3, **values)


def test_a_type_of_the_users_own_is_named_by_its_bytes() -> None:
    column = message("Send", 4, peer=1, tag=3, num_bytes=40, count=1, message_number=1)
    finding = certain(RankState(rank=0, history=(column,)), stopped(1, received(num_bytes=32, count=4), peer=0))
    assert finding.summary.startswith("rank 0 sends 40 bytes at train.py:4, rank 1 receives 4 x f8 at ")


def test_another_element_type() -> None:
    finding = certain(RankState(rank=0, history=(SENT,)), stopped(1, received(dtype="f4", num_bytes=32), peer=0))
    assert (finding.kind, finding.field, finding.cause) == (FindingKind.MESSAGE, FindingField.DTYPE, Cause.DTYPE)
    assert finding.ranks == (0, 1)
    assert finding.summary == (
        "rank 0 sends 8 x f8 at train.py:4, rank 1 receives 8 x f4 at train.py:9: the element types differ"
    )
    assert finding.advice == ("give the receive at train.py:9 the element type and the size of the send at train.py:4")


def test_more_than_there_is_room_for_as_the_sender_sees_it() -> None:
    receiver = RankState(rank=1, history=(received(num_bytes=32, count=4),))
    finding = certain(stopped(0, SENT, peer=1), receiver)
    assert (finding.field, finding.cause) == (FindingField.COUNT, Cause.TRUNCATED)
    assert finding.summary == (
        "rank 0 sends 8 x f8 at train.py:4, rank 1 receives 4 x f8 at train.py:9: more than there is room for"
    )
    assert finding.advice == ("make the buffer at train.py:9 at least as large as the message sent at train.py:4")


def test_the_receiving_half_of_an_exchange() -> None:
    exchange = Call(
        operation="Sendrecv", communicator="mpi-world", site="train.py:9", peer=0, tag=0, dtype="f8", num_bytes=8,
        count=1, source=0, source_tag=ANY, source_dtype="f8", source_bytes=16, source_number=1,
    )  # fmt: skip
    finding = certain(stopped(0, SENT, peer=1), RankState(rank=1, history=(exchange,)))
    assert "rank 1 receives 2 x f8 at train.py:9: more than there is room for" in finding.summary


def from_any(**fields: Any) -> Call:
    """Return a receive of four values from whoever sends: which message it takes is not known before it returns."""
    return message("Recv", 9, peer=ANY, tag=ANY, dtype="f8", num_bytes=32, count=4, **fields)


def truncated(call: Call, *history: Call) -> RankState:
    """Return a rank that a receive has ended by the library's error."""
    detail = "Exception: Message truncated"
    end = End(kind=EndKind.RAISED, detail=detail, site="train.py:9", failed_call=call.number, may_be_truncated=True)
    return RankState(rank=1, end=end, threads=(None,), history=(call, *history))


def test_a_receive_from_any_rank_that_fails_names_the_message_it_has_no_room_for() -> None:
    small = message("Send", 4, peer=1, tag=3, dtype="f8", num_bytes=32, count=4, message_number=2)
    receiver = replace(truncated(from_any(number=3)), received={(WORLD, 0, 3): 1})
    finding = certain(RankState(rank=0, history=(SENT, small)), receiver, RankState(rank=2, history=(SENT,)))
    assert (finding.kind, finding.field, finding.cause) == (FindingKind.MESSAGE, FindingField.COUNT, Cause.TRUNCATED)
    assert finding.ranks == (1, 2)  # what rank 0 sent last fits, and the large one before it was received
    assert finding.summary == (
        "rank 2 sends 8 x f8 at train.py:4, rank 1 receives 4 x f8 at train.py:9: more than there is room for"
    )


def test_a_wait_that_fails_names_the_posted_receive_that_has_no_room() -> None:
    wait = Call(operation="Waitall", site="train.py:12", number=5)
    posted = from_any(number=3, request=1)
    finding = certain(RankState(rank=0, history=(SENT,)), truncated(wait, posted))
    assert (finding.cause, finding.ranks) == (Cause.TRUNCATED, (0, 1))
    assert "rank 1 receives 4 x f8 at train.py:9" in finding.summary


def test_a_large_message_that_was_received_is_not_what_a_receiver_died_of() -> None:
    end = End(kind=EndKind.KILLED, detail="by SIGABRT", signal=signal.SIGABRT)
    call = from_any(number=3)
    receiver = RankState(
        rank=1, end=end, threads=(Waiting(call=call),), history=(call,), received={(WORLD, 0, 3): 1}
    )  # fmt: skip
    waiting = RankState(rank=0, threads=(Waiting(call=BARRIER),), positions={WORLD: 1}, history=(SENT, BARRIER))
    found = find_certain(Inspection(Snapshot(ranks=(waiting, receiver), communicators=communicators(2))))
    assert found is None or found.cause is not Cause.TRUNCATED


def test_a_receive_that_was_complete_is_not_what_a_waiting_rank_died_of() -> None:
    wait = Call(operation="Waitall", site="train.py:12", number=5)
    small, large = from_any(number=3, request=1), replace(from_any(number=4, request=2), num_bytes=640, count=80)
    end = End(kind=EndKind.KILLED, detail="by SIGABRT", signal=signal.SIGABRT)
    dead = RankState(rank=1, end=end, threads=(Waiting(call=wait),), posted=(large,), history=(small, large, wait))
    waiting = RankState(rank=0, threads=(Waiting(call=SENT),), history=(SENT,))
    found = find_certain(Inspection(Snapshot(ranks=(waiting, dead), communicators=communicators(2))))
    assert found is None or found.cause is not Cause.TRUNCATED
    assert certain(waiting, replace(dead, posted=(small, large))).cause is Cause.TRUNCATED


def test_a_library_that_aborts_in_a_receive_with_room_enough_is_not_said_to_be_truncated() -> None:
    end = End(kind=EndKind.KILLED, detail="by SIGABRT", signal=signal.SIGABRT)
    call = received()
    receiver = RankState(rank=1, end=end, threads=(Waiting(call=call),), history=(call,))
    waiting = RankState(rank=0, threads=(Waiting(call=SENT),), history=(SENT,))
    found = find_certain(Inspection(Snapshot(ranks=(waiting, receiver), communicators=communicators(2))))
    assert found is None or found.cause is not Cause.TRUNCATED
    short = received(num_bytes=32, count=4)
    receiver = RankState(rank=1, end=end, threads=(Waiting(call=short),), history=(short,))
    assert certain(waiting, receiver).cause is Cause.TRUNCATED


def test_the_second_message_is_not_compared_with_the_first_receive() -> None:
    second = message("Send", 5, peer=1, tag=3, dtype="f4", num_bytes=32, count=8, message_number=2)
    receives = (received(), message("Recv", 10, peer=0, tag=3, dtype="i8", num_bytes=64, count=8, message_number=2))
    finding = certain(stopped(0, second, peer=1), RankState(rank=1, history=receives))
    assert "at train.py:10: the element types differ" in finding.summary


@pytest.mark.parametrize(
    ("sender", "line", "tag", "field", "cause", "rest"),
    [
        (1, 4, 2, FindingField.TAG, Cause.WRONG_TAG, "rank 1 has sent it one with tag 2 at train.py:4"),
        (2, 4, 1, FindingField.SOURCE, Cause.WRONG_SOURCE, "rank 2 has sent it one with tag 1 at train.py:4"),
    ],
)
def test_a_message_that_no_receive_wants(
    sender: int, line: int, tag: int, field: FindingField, cause: Cause, rest: str
) -> None:
    programs: list[list[Call]] = [[message("Recv", 8, peer=1, tag=1)], [], []]
    programs[sender].append(message("Send", line, peer=0, tag=tag))
    for rank in (1, 2):  # they stay, in a receive from each other that nothing comes for
        programs[rank].append(message("Recv", 12, peer=3 - rank, tag=9))
    finding = judge(programs, buffers=True)
    assert (finding.kind, finding.field, finding.cause) == (FindingKind.MESSAGE, field, cause)
    assert finding.ranks == (0, sender)
    assert finding.summary == (
        f"rank 0 waits in Recv at train.py:8 for a message from rank 1 with tag 1, which nobody sends; {rest}"
    )
    assert finding.advice == f"make the {field} of the receive at train.py:8 and of the send at train.py:4 the same"


def test_a_message_on_another_communicator() -> None:
    programs = [
        [message("Recv", 8, peer=1, tag=ANY, communicator=SPLIT)],
        [message("Send", 4, peer=0, tag=1), message("Recv", 12, peer=2, tag=9)],
        [message("Recv", 12, peer=1, tag=9)],
    ]
    finding = judge(programs, split=(0, 1, 2), buffers=True)
    assert (finding.field, finding.cause) == (FindingField.COMMUNICATOR, Cause.WRONG_COMMUNICATOR)
    assert finding.summary == (
        "rank 0 waits in Recv at train.py:8 for a message from rank 1 with any tag, which nobody sends; rank 1 has "
        "sent it one with tag 1 on WORLD at train.py:4"
    )


def test_a_later_message_that_fits_tells_that_a_receive_is_missing() -> None:
    body = message("Send", 5, peer=1, tag=3, dtype="f4", num_bytes=32, count=8, message_number=2, number=1)
    sender = RankState(rank=0, history=(SENT, body))
    finding = certain(sender, stopped(1, received(dtype="f4", num_bytes=32), peer=0))
    assert (finding.field, finding.cause) == (FindingField.DTYPE, Cause.MESSAGE_ORDER)
    assert finding.summary == (
        "rank 0 sends 8 x f8 at train.py:4 and then 8 x f4 at train.py:5; rank 1 receives 8 x f4 at train.py:9 where "
        "the first of them comes: the element types differ"
    )
    assert finding.advice == (
        "receive the message that is sent at train.py:4 before the one that the receive at train.py:9 is for: there "
        "must be a receive for each send, in the same order"
    )


def exchanging(rank: int, *steps: tuple[int, int], done: int, received: dict[tuple[str, int, int], int]) -> RankState:
    """Return a rank that exchanges with a partner and a tag in each step, and is in the one after those it has done."""
    calls = [
        message("Sendrecv", 12, partner, tag, source=partner, source_tag=tag, number=at, left_ns=at < done)
        for at, (partner, tag) in enumerate(steps)
    ]
    sent = {("mpi-world", partner, tag): 1 for partner, tag in steps}
    return RankState(rank=rank, threads=(Waiting(call=calls[-1]),), history=tuple(calls), sent=sent, received=received)


def stuck(*ranks: RankState) -> Finding:
    """Return the finding about ranks that can never move."""
    job = Snapshot(ranks=ranks, communicators=communicators(len(ranks)))
    finding = find_stuck(Inspection(job), cautious=False)
    assert finding is not None
    return finding


@pytest.mark.parametrize(("behind", "ahead"), [(0, 1), (1, 0)])
def test_a_message_of_a_step_that_another_has_been_through_has_no_wrong_tag(behind: int, ahead: int) -> None:
    """One takes part in a step that is not its own: tags count the steps, and none of them is wrong."""
    late = exchanging(behind, (ahead, 0), (ahead, 1), done=1, received={("mpi-world", ahead, 0): 1})
    got = {("mpi-world", behind, 0): 1, ("mpi-world", 2, 1): 1}
    early = exchanging(ahead, (behind, 0), (2, 1), (behind, 2), done=2, received=got)
    third = RankState(rank=2, end=End(kind=EndKind.EXITED), threads=(), sent={("mpi-world", ahead, 1): 1})
    finding = stuck(*((late, early) if ahead else (early, late)), third)
    assert (finding.kind, finding.cause, finding.ranks) == (FindingKind.MESSAGE, Cause.MESSAGE_ORDER, (0, 1))
    assert finding.advice == (
        f"find out whether ranks 0-1 are in the same step: rank {ahead} has used tag 1 at train.py:12 before"
    )


def test_a_message_that_another_rank_waits_for_went_to_the_wrong_one() -> None:
    """Rank 1 takes the wrong axis of a grid: its first message goes to rank 0 instead of rank 3."""

    def receiver(rank: int, source: int, tag: int, *past: Call, **more: Any) -> RankState:
        call = message("Recv", 10, source, tag, number=len(past))
        return RankState(rank=rank, threads=(Waiting(call=call),), history=(*past, call), **more)

    done = message("Recv", 10, peer=2, tag=0, number=0, left_ns=1)
    first = receiver(0, 1, 1, done, received={("mpi-world", 2, 0): 1})
    second = receiver(1, 0, 0, message("Send", 11, peer=0, tag=0), sent={("mpi-world", 0, 0): 1})
    third = RankState(rank=2, end=End(kind=EndKind.EXITED), threads=(), sent={("mpi-world", 0, 0): 1})
    finding = stuck(first, second, third, receiver(3, 1, 0))
    assert (finding.kind, finding.cause, finding.ranks) == (FindingKind.MESSAGE, Cause.SEND_WITHOUT_RECEIVE, (0, 1))
    assert finding.summary == (
        "rank 1 sends to rank 0 (Send at train.py:11, tag 0), which does not receive it, while rank 3 waits for a "
        "message of rank 1 (Recv at train.py:10)"
    )
