"""The words of the rule of deadlocks: who waits for whom, in which call."""

from __future__ import annotations

from typing import Any

import pytest
from tests.guard.verdict.simulated import SPLIT, collective, judge, message

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind
from paceline.guard.verdict.snapshot import Call


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
        "ranks 0-2 wait for each other on different communicators: ranks 0, 2 in Barrier on WORLD at train.py:3, rank "
        "1 in Barrier on Split at train.py:4"
    )
    assert finding.advice == "use communicators in the same order on every rank"


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


def test_a_send_to_itself() -> None:
    finding = deadlock([[message("Ssend", 5, peer=0)]])
    assert finding.summary == "rank 0 waits for itself: rank 0 in Ssend at train.py:5 (to rank 0, tag 0)"


def test_a_message_that_nobody_receives() -> None:
    sends = [[message("Ssend", 16, peer=0), collective("Barrier", 18)] for _ in range(2)]
    finding = deadlock(
        [[message("Recv", 14, peer=ANY), collective("Barrier", 18)], *sends, [collective("Barrier", 18)]]
    )
    assert finding.cause is Cause.SEND_WITHOUT_RECEIVE
    assert "is sending to rank 0 at train.py:16, but rank 0 has stopped receiving: rank 0 in Barrier on WORLD at " in (
        finding.summary
    )
    assert finding.advice == (
        "post a receive for every message: a receive takes one, however large its buffer is; to collect from all ranks "
        "use Gather"
    )


def test_a_receive_that_nothing_will_satisfy() -> None:
    finding = deadlock([[message("Recv", 7, peer=1)], [collective("Barrier", 9)], [collective("Barrier", 9)]])
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_WITHOUT_SEND, (0,))
    assert finding.summary == (
        "rank 0 fell out of line: ranks 1-2 in Barrier on WORLD at train.py:9, rank 0 in Recv at train.py:7 (from rank "
        "1, tag 0)"
    )
    assert finding.advice == "let every receive have its send, and every rank make the collective, in the same order"


def test_a_long_ring_names_a_few_and_counts_the_others() -> None:
    finding = deadlock([[message("Recv", 5, peer=(rank + 1) % 7)] for rank in range(7)])
    assert finding.summary.count(" in Recv at train.py:5") == 4
    assert finding.summary.endswith(" and 3 more")


def test_any_rank_and_any_tag_are_said_in_words() -> None:
    finding = deadlock([[message("Recv", 5, peer=ANY, tag=ANY)], [message("Recv", 5, peer=ANY, tag=ANY)]])
    assert "(from any rank, any tag)" in finding.summary
