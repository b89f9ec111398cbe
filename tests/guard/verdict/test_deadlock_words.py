"""The words of the rule of deadlocks: who waits for whom, in which call."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from tests.guard.verdict.simulated import SPLIT, WORLD, collective, communicators, judge, message

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.verdict.diagnose import find_stuck
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, RankState, Snapshot, Waiting


def deadlock(programs: list[list[Call]], **more: Any) -> Finding:
    """Return the finding, which must be a deadlock."""
    finding = judge(programs, **more)
    assert finding.kind is FindingKind.DEADLOCK
    return finding


def test_ranks_on_different_communicators() -> None:
    world, split = collective("Barrier", 3), collective("Barrier", 4, communicator=SPLIT)
    finding = judge([[world, split], [split, world], [world, split]], split=(0, 1, 2))
    assert (finding.kind, finding.field, finding.cause) == (
        FindingKind.DEADLOCK, FindingField.COMMUNICATOR, Cause.CALL_ORDER,
    )  # fmt: skip
    assert finding.ranks == (1,)
    assert finding.summary == (
        "rank 1 is in Barrier on Split at train.py:4 without the Barrier on WORLD at train.py:3, which ranks 0, 2 make "
        "first"
    )
    assert finding.advice == (
        "let rank 1 make the Barrier on WORLD at train.py:3 before the Barrier on Split at train.py:4, as ranks 0, 2 "
        "do: communicators must be used in the same order on every rank"
    )


@pytest.mark.parametrize(
    ("calls", "cause", "summary", "advice"),
    [
        (
            ("Ssend", "Ssend"), Cause.SEND_SEND,
            "ranks 0-1 wait for each other: rank 0 in Ssend at train.py:5 (to rank 1, tag 0), rank 1 in Ssend at "
            "train.py:5 (to rank 0, tag 0)",
            "let one side receive first, or use Sendrecv, or post the receives (Irecv) before the sends",
        ),
        (
            ("Recv", "Recv"), Cause.RECEIVE_RECEIVE,
            "ranks 0-1 wait for each other: rank 0 in Recv at train.py:5 (from rank 1, tag 0), rank 1 in Recv at "
            "train.py:5 (from rank 0, tag 0)",
            "let one side send first, or use Sendrecv, or post receives (Irecv) and wait for them together",
        ),
        (
            ("Recv", "Probe"), Cause.MESSAGE_ORDER,
            "ranks 0-1 wait for each other: rank 0 in Recv at train.py:5 (from rank 1, tag 0), rank 1 in Probe at "
            "train.py:5 (from rank 0, tag 0)",
            "let one side send first, or use Sendrecv, or post receives (Irecv) and wait for them together",
        ),
    ],
)  # fmt: skip
def test_two_ranks_that_wait_for_a_message_of_the_other(
    calls: tuple[str, str], cause: Cause, summary: str, advice: str
) -> None:
    finding = deadlock([[message(name, 5, peer=1 - rank)] for rank, name in enumerate(calls)])
    assert (finding.cause, finding.ranks) == (cause, (0, 1))
    assert finding.summary == summary
    assert finding.advice == advice


def test_sends_of_several_ranks_to_themselves() -> None:
    finding = deadlock([[message("Ssend", 5, peer=0)], [message("Ssend", 5, peer=1)]])
    assert finding.summary.startswith("ranks 0-1 wait for themselves: rank 0 in Ssend at train.py:5 (to rank 0, tag 0)")


def test_a_send_to_itself() -> None:
    finding = deadlock([[message("Ssend", 5, peer=0)]])
    assert finding.summary == "rank 0 waits for itself: rank 0 in Ssend at train.py:5 (to rank 0, tag 0)"


def test_a_message_that_nobody_receives() -> None:
    sends = [[message("Ssend", 16, peer=0), collective("Barrier", 18)] for _ in range(2)]
    finding = deadlock(
        [[message("Recv", 14, peer=ANY), collective("Barrier", 18)], *sends, [collective("Barrier", 18)]]
    )
    assert finding.cause is Cause.SEND_WITHOUT_RECEIVE
    assert "is sending to rank 0 at train.py:16, but rank 0 does not receive: rank 0 in Barrier on WORLD at " in (
        finding.summary
    )
    assert finding.advice == (
        "post a receive for every message before the Barrier at train.py:18, or send after it: a receive takes one "
        "message, however large its buffer is; to collect from all ranks use Gather"
    )


def test_a_receive_that_nothing_will_satisfy() -> None:
    finding = deadlock([[message("Recv", 7, peer=1)], [collective("Barrier", 9)], [collective("Barrier", 9)]])
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_WITHOUT_SEND, (0,))
    assert finding.summary == (
        "rank 0 waits in Recv at train.py:7 for a message from rank 1 with tag 0, which nobody sends: ranks 1-2 in "
        "Barrier on WORLD at train.py:9"
    )
    assert finding.advice == (
        "let the Recv at train.py:7 have its send, or do without it: count the messages that are sent to rank 0, and "
        "those that it receives"
    )


def test_a_long_ring_names_a_few_and_counts_the_others() -> None:
    finding = deadlock([[message("Recv", 5, peer=(rank + 1) % 7)] for rank in range(7)])
    assert finding.summary.count(" in Recv at train.py:5") == 4
    assert finding.summary.endswith(" and 3 more")


def test_any_rank_and_any_tag_are_said_in_words() -> None:
    finding = deadlock([[message("Recv", 5, peer=ANY, tag=ANY)], [message("Recv", 5, peer=ANY, tag=ANY)]])
    assert "(from any rank, any tag)" in finding.summary


def test_a_rank_that_waits_for_a_circle_is_not_in_it() -> None:
    finding = deadlock([[message("Recv", 5, peer=1)], [message("Recv", 5, peer=0)], [message("Recv", 8, peer=1)]])
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_RECEIVE, (0, 1))
    assert finding.summary.endswith("; rank 2 waits for them: rank 2 in Recv at train.py:8 (from rank 1, tag 0)")


def exchange(line: int, peer: int, source: int, number: int) -> Call:
    """Return a Sendrecv with any tag, as mpi4py's is by default."""
    return message("Sendrecv", line, peer, source=source, source_tag=ANY, number=number)


def exchanging(programs: list[list[tuple[int, int]]], received: list[int]) -> Finding:
    """Return the finding about a ring of ranks in their last Sendrecv: to the right (1) or to the left (-1)."""
    size, states = len(programs), []
    for rank, program in enumerate(programs):
        calls = [
            exchange(line, (rank + step) % size, (rank - step) % size, number)
            for number, (line, step) in enumerate(program)
        ]
        sent = Counter((WORLD, call.peer, 0) for call in calls)
        states.append(
            RankState(
                rank=rank, threads=(Waiting(call=calls[-1]),), history=tuple(calls), sent=sent,
                received={(WORLD, (rank + step) % size, 0): received[rank] for step in (1, -1)},
            )
        )  # fmt: skip
    finding = find_stuck(Inspection(Snapshot(ranks=states, communicators=communicators(size))), cautious=False)
    assert finding is not None
    return finding


def test_an_exchange_that_one_rank_left_out_of_a_round() -> None:
    usual = [(12, -1), (14, 1)] * 3
    finding = exchanging([usual, usual, usual[:5], [*usual[:3], usual[4]]], [3, 3, 3, 3])
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_WITHOUT_SEND, (3,))
    assert finding.summary == (
        "rank 3 left out the Sendrecv at train.py:14 (to rank 0, tag 0, from rank 2, any tag), for which rank 0 waits "
        "in Sendrecv at train.py:14"
    )


def test_exchanges_in_a_circle_are_not_told_to_become_exchanges() -> None:
    finding = exchanging([[(12, -1)], [(14, -1)], [(16, -1)]], [1, 1, 1])
    assert (finding.cause, finding.ranks) == (Cause.MESSAGE_ORDER, (0, 1, 2))
    assert finding.advice == (
        "let every exchange meet the exchange of its partner: name each other, in the same order, equally often"
    )


def farm(last_results_of: list[int]) -> list[list[Call]]:
    """Return a master that answers whoever is first, and does not send the end to rank 3; and its three workers."""
    order = [1, 2, 3, *last_results_of]
    master = [message("Bsend", 12, peer=worker, tag=1) for worker in (1, 2, 3)]
    for worker in order[:-3]:
        master += [message("Recv", 15, peer=ANY, tag=3), message("Bsend", 17, peer=worker, tag=1)]
    master += [message("Recv", 15, peer=ANY, tag=3)] * 3
    master += [message("Bsend", 20, peer=worker, tag=2) for worker in (1, 2)]
    barrier = collective("Barrier", 34)

    def work_of(rank: int) -> list[Call]:
        work = [message("Recv", 25, peer=0, tag=ANY), message("Bsend", 28, peer=0, tag=3)]
        return work * (1 + order[:-3].count(rank)) + [work[0], barrier]

    return [[*master, barrier], work_of(1), work_of(2), work_of(3)]


@pytest.mark.parametrize("last_results_of", [[1, 2, 3], [1, 2, 3, 1, 2, 3, 1, 2], [2, 2, 1, 3]])
def test_an_end_marker_that_one_worker_does_not_get(last_results_of: list[int]) -> None:
    """The order of answers in a farm is no habit: nothing of it was left out."""
    finding = deadlock(farm(last_results_of))
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_WITHOUT_SEND, (0,))
    assert finding.summary == (
        "rank 0 made the Bsend at train.py:20 to ranks 1-2, but not to rank 3, which waits in Recv at train.py:25 for "
        "a message of rank 0"
    )


def test_a_probe_whose_message_went_to_another_rank() -> None:
    sends = [message("Bsend", 8, peer=2, tag=7)] * 2
    barrier, probe = collective("Barrier", 17), message("Probe", 12, peer=0, tag=7)
    finding = deadlock([[*sends, barrier], [probe, barrier], [probe, message("Recv", 15, peer=0, tag=7), barrier]])
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_WITHOUT_SEND, (0,))
    assert "rank 0 made the Bsend at train.py:8 to rank 2, but not to rank 1" in finding.summary


def test_nobody_is_called_out_of_line_for_a_probe_that_nobody_satisfies() -> None:
    barrier, probe = collective("Barrier", 17), message("Probe", 12, peer=0, tag=7)
    finding = deadlock([[barrier], [probe, barrier], [barrier]])
    assert finding.summary == (
        "rank 1 waits in Probe at train.py:12 for a message from rank 0 with tag 7, which nobody sends: ranks 0, 2 in "
        "Barrier on WORLD at train.py:17"
    )


def test_an_exchange_that_one_rank_does_not_make_and_others_do() -> None:
    """In the first round there is no habit; but what the others made there is what it should make."""
    sent = {rank: message("Sendrecv", 13, (rank + 1) % 4, 2, source=(rank - 1) % 4, source_tag=2) for rank in range(4)}
    barrier = collective("Barrier", 15, sequence=1, number=1)
    states = []
    for rank in (0, 1, 2, 3):
        past = [replace(sent[rank], left_ns=1)] if rank in (0, 1) else []
        call = sent[3] if rank == 3 else barrier
        counts = {(WORLD, (rank + 1) % 4, 2): 1} if rank != 2 else {}
        taken = {(WORLD, (rank - 1) % 4, 2): 1} if rank in (0, 1) else {}
        states.append(
            RankState(
                rank=rank, threads=(Waiting(call=call),), history=(*past, call), sent=counts, received=taken,
                positions={WORLD: int(rank != 3)},
            )
        )  # fmt: skip
    finding = find_stuck(Inspection(Snapshot(ranks=states, communicators=communicators(4))), cautious=False)
    assert finding is not None
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_WITHOUT_SEND, (2,))
    assert finding.summary.startswith("rank 2 did not make the Sendrecv at train.py:13, as rank 0 did: rank 3 waits")
