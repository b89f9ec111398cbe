"""Where streams are: what a rank has enqueued behind a call that cannot complete has not been done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.guard.shared_memory.layout import ENQUEUED, NONBLOCKING
from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Waiting
from paceline.guard.verdict.waits.enqueued_calls import stream_snapshot
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks

WORLD, OTHER = "torch-world", "torch-other"
Step = tuple[str, str | int]


def rank_of(rank: int, *steps: Step) -> RankState:
    """Return a rank whose program has enqueued these, and goes on: an operation with its communicator or peer."""
    history: list[Call] = []
    positions: dict[str, int] = {}
    sent: dict[tuple[str, int, int], int] = {}
    received: dict[tuple[str, int, int], int] = {}
    for number, (name, target) in enumerate(steps):
        call = Call(operation=f"torch.{name}", number=number, site=f"train.py:{number + 1}", flags=ENQUEUED, left_ns=1)
        if isinstance(target, str):
            positions[target] = positions.get(target, 0) + 1
            call = replace(call, communicator=target, sequence=positions[target])
        else:
            counts = sent if name == "send" else received
            counts[WORLD, target, 0] = counts.get((WORLD, target, 0), 0) + 1
            call = replace(call, communicator=WORLD, peer=target, tag=0, message_number=counts[WORLD, target, 0])
        history.append(call)
    return RankState(rank=rank, history=tuple(history), positions=positions, sent=sent, received=received)


def job(*ranks: RankState) -> Snapshot:
    members = tuple(range(len(ranks)))
    known = {WORLD: Membership(name="WORLD", ranks=members), OTHER: Membership(name="other", ranks=members)}
    return Snapshot(ranks=list(ranks), communicators=known)


def stuck_in(snapshot: Snapshot) -> frozenset[int]:
    enqueued = stream_snapshot(snapshot)
    return frozenset() if enqueued is None else stuck_ranks(enqueued, cautious=True)


STEP, OTHER_STEP = ("all_reduce", WORLD), ("all_reduce", OTHER)


@pytest.mark.parametrize(
    "ranks",
    [
        (rank_of(0, STEP, STEP), rank_of(1, STEP, STEP)),
        (rank_of(0, STEP, STEP, STEP), rank_of(1, STEP)),  # rank 1 may still come
        (rank_of(0, ("recv", 1)), rank_of(1)),
        (rank_of(0, ("send", 1), ("recv", 1)), rank_of(1, ("recv", 0), ("send", 0))),
        (rank_of(0, ("send", 1), ("recv", 1)), rank_of(1, ("send", 0), ("recv", 0))),  # what is sent may be buffered
        (rank_of(0, STEP, OTHER_STEP), rank_of(1, STEP, OTHER_STEP)),
        (rank_of(0, STEP, OTHER_STEP), rank_of(1, STEP)),
    ],
)
def test_what_may_still_complete_makes_no_rank_stuck(ranks: tuple[RankState, ...]) -> None:
    assert stuck_in(job(*ranks)) == frozenset()


def test_receives_before_sends_hold_up_both_streams() -> None:
    snapshot = job(rank_of(0, ("recv", 1), ("send", 1)), rank_of(1, ("recv", 0), ("send", 0)))
    assert stuck_ranks(snapshot, cautious=True) == frozenset()  # for the programs both have gone through
    enqueued = stream_snapshot(snapshot)
    assert enqueued is not None
    finding = find_stuck(Inspection(enqueued), cautious=True)
    assert finding is not None
    assert finding.ranks == (0, 1)
    assert finding.cause is not None
    assert finding.cause.value == "receive-receive"
    assert {group.site for group in finding.groups} == {"train.py:1"}


def test_groups_in_opposite_order_hold_up_both_streams() -> None:
    assert stuck_in(job(rank_of(0, STEP, OTHER_STEP), rank_of(1, OTHER_STEP, STEP))) == {0, 1}


def test_calls_that_nobody_has_waited_for_hold_up_nothing() -> None:
    def started(state: RankState) -> RankState:
        first, second = state.history
        return replace(state, history=(replace(first, flags=ENQUEUED | NONBLOCKING, request=1), second))

    assert stuck_in(job(started(rank_of(0, STEP, OTHER_STEP)), started(rank_of(1, OTHER_STEP, STEP)))) == frozenset()


def test_a_wait_holds_up_the_stream_as_the_call_would() -> None:
    def waited(state: RankState) -> RankState:
        first, second = state.history
        wait = Call(operation="torch.wait", number=1, request=1, site="train.py:9", left_ns=1)
        return replace(
            state,
            history=(replace(first, flags=ENQUEUED | NONBLOCKING, request=1), wait, replace(second, number=2)),
        )

    assert stuck_in(job(waited(rank_of(0, STEP, OTHER_STEP)), waited(rank_of(1, OTHER_STEP, STEP)))) == {0, 1}


def test_a_message_from_a_rank_that_has_ended_never_comes() -> None:
    gone = replace(rank_of(1), end=End(kind=EndKind.EXITED, exit_code=0))
    assert stuck_in(job(rank_of(0, ("recv", 1)), gone)) == {0}


@pytest.mark.parametrize("exits", [False, True])
def test_a_collective_that_has_returned_still_needs_a_rank_that_has_ended(exits: bool) -> None:
    end = End(kind=EndKind.EXITED, exit_code=0)
    sized = [replace(call, num_bytes=16) for call in rank_of(0, STEP, STEP).history]
    ahead = replace(rank_of(0, STEP, STEP), history=tuple(sized), end=end if exits else None)
    behind = replace(rank_of(1, STEP), end=end)
    finding = find_certain(Inspection(job(ahead, behind)))
    assert finding is not None
    assert finding.ranks == (1,)
    over = tuple(replace(call, flags=0) for call in sized)  # a backend whose calls return when they are over
    assert find_certain(Inspection(job(replace(ahead, history=over), behind))) is None


def _enqueued(rank: int, *messages: tuple[str, int, int, int]) -> RankState:
    """Return a rank that has enqueued these messages (operation, line, peer, tag), and is in a barrier."""
    history: list[Call] = []
    sent: dict[tuple[str, int, int], int] = {}
    received: dict[tuple[str, int, int], int] = {}
    for number, (name, line, peer, tag) in enumerate(messages):
        counts = sent if name == "send" else received
        counts[WORLD, peer, tag] = counts.get((WORLD, peer, tag), 0) + 1
        call = Call(
            operation=f"torch.{name}", communicator=WORLD, number=number, site=f"train.py:{line}", peer=peer, tag=tag,
            message_number=counts[WORLD, peer, tag], flags=ENQUEUED, left_ns=1,
        )  # fmt: skip
        history.append(call)
    barrier = Call(
        operation="torch.barrier", communicator=WORLD, sequence=1, number=len(history), site="train.py:20",
        flags=ENQUEUED,
    )  # fmt: skip
    return RankState(
        rank=rank, threads=(Waiting(call=barrier),), history=(*history, barrier), positions={WORLD: 1}, sent=sent,
        received=received,
    )  # fmt: skip


def test_a_message_that_went_to_all_but_one_is_told_though_programs_have_gone_on() -> None:
    """What rank 0 sent to rank 1 last was for another line, so it does not count as the message that is missing."""
    snapshot = job(
        _enqueued(0, ("send", 4, 1, 0), ("send", 4, 2, 0), ("send", 6, 1, 7)),
        _enqueued(1, ("recv", 9, 0, 0), ("recv", 12, 0, 7)),
        _enqueued(2, ("recv", 9, 0, 0)),
        _enqueued(3, ("recv", 9, 0, 0)),
    )
    enqueued = stream_snapshot(snapshot)
    assert enqueued is not None
    finding = find_stuck(Inspection(enqueued), cautious=False)
    assert finding is not None
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_WITHOUT_SEND, (0,))
    assert finding.summary == (
        "rank 0 made the send at train.py:4 to rank 2, but not to rank 3, which waits in recv at train.py:9 for a "
        "message of rank 0"
    )
