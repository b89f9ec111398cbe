"""Messages that are started together and waited for one by one: which of them can still be taken."""

from __future__ import annotations

from dataclasses import replace

from tests.guard.verdict.simulated import WORLD, communicators, message

from paceline.guard.verdict.causes.own_history import explain_missing_send
from paceline.guard.verdict.diagnose import find_stuck
from paceline.guard.verdict.finding import Cause, Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, RankState, Snapshot, Waiting
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks
from paceline.guard.verdict.waits.waited_for import first_unmet


def started(operation: str, line: int, peer: int, number: int) -> Call:
    """Return a message that was started, and is the n-th of its channel."""
    return message(operation, line, peer, message_number=number, request=number)


def waits_for(rank: int, request: Call, *others: Call, sent: dict[int, int], received: dict[int, int]) -> RankState:
    """Return a rank that waits for one of its requests, with what it has sent to and received from ranks."""
    wait = Call(operation="torch.wait", communicator=WORLD, site="ring.py:9")
    return RankState(
        rank=rank,
        threads=(Waiting(call=wait, requests=(request,)),),
        posted=(request, *others),
        sent={(WORLD, peer, 0): count for peer, count in sent.items()},
        received={(WORLD, peer, 0): count for peer, count in received.items()},
        history=(request, *others, wait),
    )


def ring_with_a_wrong_neighbour(received_by_last: int) -> Snapshot:
    """Return a ring of three in which the last rank sends to rank 1 instead of rank 0; rank 1 is in its 2nd round."""
    ranks = [
        waits_for(0, started("torch.irecv", 8, 2, 1), sent={1: 1}, received={}),
        waits_for(
            1, started("torch.isend", 7, 2, 2), started("torch.irecv", 8, 0, 2), sent={2: 2}, received={0: 1}
        ),
        waits_for(
            2, started("torch.isend", 7, 1, 1), started("torch.irecv", 8, 1, received_by_last + 1), sent={1: 1},
            received={1: received_by_last} if received_by_last else {},
        ),
    ]  # fmt: skip
    return Snapshot(ranks=ranks, communicators=communicators(3))


def finding_of(snapshot: Snapshot) -> Finding:
    finding = find_stuck(Inspection(snapshot), cautious=False)
    assert finding is not None
    return finding


def test_a_receive_takes_one_message_and_leaves_the_next_to_wait() -> None:
    assert stuck_ranks(ring_with_a_wrong_neighbour(0), cautious=False) == {0, 1, 2}


def test_a_message_whose_turn_it_is_can_be_taken() -> None:
    assert stuck_ranks(ring_with_a_wrong_neighbour(1), cautious=False) == frozenset()


def test_a_receive_that_may_be_free_takes_whatever_comes() -> None:
    snapshot = ring_with_a_wrong_neighbour(0)
    first, second, last = snapshot.ranks
    assert last is not None
    uncertain = replace(snapshot, ranks=[first, second, replace(last, num_uncertain=1)])
    assert stuck_ranks(uncertain, cautious=False) == frozenset()


def test_a_message_that_went_to_the_wrong_rank_is_told_with_the_one_that_waits_for_it() -> None:
    finding = finding_of(ring_with_a_wrong_neighbour(0))
    assert (finding.ranks, finding.cause) == ((2,), Cause.SEND_WITHOUT_RECEIVE)
    assert finding.summary == (
        "rank 2 sends to rank 1 (isend at train.py:7, tag 0), which never receives from it, while rank 0 waits for a "
        "message of rank 2 (irecv at train.py:8)"
    )


def test_requests_that_were_posted_before_the_wait_are_not_told_to_be_posted() -> None:
    """Two ranks wait for messages of each other, and neither has sent one."""
    ranks = [waits_for(rank, started("torch.irecv", 8, 1 - rank, 1), sent={}, received={}) for rank in (0, 1)]
    finding = finding_of(Snapshot(ranks=ranks, communicators=communicators(2)))
    assert finding.advice.startswith("post every send and receive before the first wait")


def test_a_rank_that_waits_again_and_again_has_left_no_message_out() -> None:
    """On a backend that only enqueues, the waits of a round may be more than those of the round before."""
    wait = Call(operation="torch.wait", communicator=WORLD, site="ring.py:9")
    messages = (message("torch.isend", 7, 2), message("torch.irecv", 8, 0))
    history = (*messages, wait, wait, *messages, wait, wait, wait, wait)
    receive = message("torch.irecv", 8, 1)
    ranks = [
        RankState(rank=0, history=()),
        RankState(rank=1, history=history),
        RankState(rank=2, history=(receive,)),
    ]
    inspection = Inspection(Snapshot(ranks=ranks, communicators=communicators(3)))
    assert explain_missing_send(inspection, {2: receive}) == []
    left_out = replace(ranks[1], history=(*messages, *messages, messages[1]))
    inspection = Inspection(Snapshot(ranks=[ranks[0], left_out, ranks[2]], communicators=communicators(3)))
    (explanation,) = explain_missing_send(inspection, {2: receive})
    assert explanation.ranks == (1,)


def ring_of_persistent_requests(*, received_by_first: int) -> Snapshot:
    """Return a ring of three by persistent requests, which have no numbers: rank 2 waits, rank 1 has not come yet."""
    send, receive = message("Send_init", 7, 0, request=1), message("Recv_init", 7, 1, request=2)
    wait = Call(operation="Waitall", communicator=WORLD, site="ring.py:9")
    barrier = Call(operation="Barrier", communicator=WORLD, sequence=1, site="ring.py:10")
    first = RankState(
        rank=0, threads=(Waiting(call=barrier),), positions={WORLD: 1}, history=(barrier,),
        received={(WORLD, 2, 0): received_by_first},
    )  # fmt: skip
    late = RankState(rank=1, threads=(None,), sent={(WORLD, 2, 0): 1})
    waiting = RankState(
        rank=2, threads=(Waiting(call=wait, requests=(send, receive)),), posted=(send, receive),
        sent={(WORLD, 0, 0): 2}, received={(WORLD, 1, 0): 1}, history=(send, receive, wait),
    )  # fmt: skip
    return Snapshot(ranks=[first, late, waiting], communicators=communicators(3))


def test_a_persistent_send_whose_messages_have_all_come_waits_for_nobody() -> None:
    assert not stuck_ranks(ring_of_persistent_requests(received_by_first=2), cautious=False)


def test_a_persistent_send_that_nobody_receives_waits() -> None:
    assert stuck_ranks(ring_of_persistent_requests(received_by_first=1), cautious=False) == {0, 2}


def test_of_several_requests_the_one_is_told_that_nothing_has_met() -> None:
    snapshot = ring_of_persistent_requests(received_by_first=2)
    state = snapshot.state(2)
    assert state is not None
    assert first_unmet(Inspection(snapshot), state, next(state.waiting)).operation == "Recv_init"
