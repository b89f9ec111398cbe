"""Communicators that ranks make in different orders are told as such, not by what then happens on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.guard.simulation import Job
from tests.guard.verdict.simulated import WORLD, collective, message, source_of

from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Cause, Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Membership

FIRST, SECOND = "mpi-first", "mpi-second"  # as they are made
IN_BRANCHES = """
if world.rank == 1:
    control = world.Dup()
    data = world.Dup()
else:
    data = world.Dup()
    control = world.Dup()
use(data)
use(control)
"""


def _judge(
    programs: Sequence[Sequence[Call]], source: str = "", made: Sequence[Any] = (), *, buffers: bool = False
) -> Finding:
    everybody = tuple(range(len(programs)))
    first, second = made or (everybody, everybody)
    communicators = {
        WORLD: Membership(name="WORLD", ranks=everybody),
        FIRST: Membership(name="Dup", ranks=first),
        SECOND: Membership(name="Dup 2", ranks=second),
    }
    job = Job(
        programs, communicators, buffers=buffers, ends={}, made_at={(WORLD, 1): [FIRST], (WORLD, 2): [SECOND]}
    )  # fmt: skip
    while ready := [rank for rank in everybody if job.can_move(rank)]:
        for rank in ready:
            job.move(rank)
        finding = find_certain(Inspection(job.snapshot(), source_of(source)))
        if finding is not None:
            return finding
    finding = find_stuck(Inspection(job.snapshot(), source_of(source)), cautious=False)
    assert finding is not None
    return finding


def _in_branches(operation: str, **fields: Any) -> list[list[Call]]:
    """Return three ranks that make `data` and `control`; rank 1 makes them the other way round."""
    programs = []
    for rank in range(3):
        lines, (data, control) = ((2, 3), (SECOND, FIRST)) if rank == 1 else ((5, 6), (FIRST, SECOND))
        dups = [collective("Dup", line) for line in lines]
        large, small = {"num_bytes": 64, "count": 8}, {"num_bytes": 8, "count": 1}
        uses = [
            collective(operation, 7, data, **fields, **large),
            collective(operation, 8, control, **fields, **small),
        ]
        programs.append([*dups, *uses])
    return programs


def test_ranks_that_wait_on_two_communicators_are_told_that_they_made_them_in_another_order() -> None:
    finding = _judge(_in_branches("Allreduce", reduction="SUM", dtype="f8"), IN_BRANCHES)
    assert (finding.cause, finding.ranks) == (Cause.CALL_ORDER, (1,))
    assert finding.summary == (
        "rank 1 makes `control` (Dup at train.py:2) before `data` (Dup at train.py:3), ranks 0, 2 the other way round: "
        "the communicator Dup is `control` (Dup at train.py:2) on rank 1, and `data` (Dup at train.py:5) on ranks 0, 2"
    )
    assert "in the same order: ranks get the same communicator by the order of their calls" in finding.advice


def test_sizes_that_do_not_fit_are_told_by_the_order_in_which_communicators_were_made() -> None:
    finding = _judge(_in_branches("Bcast", root=0, dtype="f8"), IN_BRANCHES)
    assert (finding.cause, finding.ranks) == (Cause.CALL_ORDER, (1,))
    assert "the communicator Dup 2 is `data` (Dup at train.py:3) on rank 1" in finding.summary


def test_a_message_on_another_communicator_is_told_by_the_order_in_which_they_were_made() -> None:
    dups = [[collective("Dup", line) for line in lines] for lines in ((5, 6), (2, 3))]
    send, receive = message("Send", 8, 1, communicator=FIRST), message("Recv", 9, 0, communicator=SECOND)
    finding = _judge([[*dups[0], send], [*dups[1], receive]], IN_BRANCHES, buffers=True)
    assert (finding.cause, finding.ranks) == (Cause.CALL_ORDER, (0, 1))
    assert "in the same order: ranks get the same communicator" in finding.advice
    assert finding.first_difference is not None
    assert finding.first_difference.communicator == "WORLD"


def test_functions_that_make_them_tell_the_order_without_a_variable() -> None:
    def rank(*, is_odd: bool) -> list[Call]:
        rows, columns = collective("Split", 3), collective("Split", 6)
        row, column = (SECOND, FIRST) if is_odd else (FIRST, SECOND)
        made = [columns, rows] if is_odd else [rows, columns]
        return [*made, collective("Barrier", 9, row), collective("Barrier", 10, column)]

    programs = [rank(is_odd=False), rank(is_odd=True), rank(is_odd=False), rank(is_odd=False)]
    programs[0] = [call for call in programs[0] if call.communicator != FIRST]
    programs[3] = [call for call in programs[3] if call.communicator != SECOND]
    finding = _judge(programs, made=((1, 2, 3), (0, 1, 2)))
    assert (finding.cause, finding.ranks) == (Cause.CALL_ORDER, (1,))
    assert "rank 1 makes the Split at train.py:6 before the Split at train.py:3" in finding.summary


def test_communicators_made_in_one_order_and_used_in_another_are_told_by_their_use() -> None:
    dups = [collective("Dup", 1), collective("Dup", 2)]
    uses = [collective("Barrier", 3, FIRST), collective("Barrier", 4, SECOND)]
    finding = _judge([[*dups, *uses], [*dups, *reversed(uses)], [*dups, *uses]], "a = world.Dup()\nb = world.Dup()\n")
    assert "the other way round: the communicator" not in finding.summary


def test_roles_that_make_one_communicator_from_lines_of_their_own_are_no_order() -> None:
    source = (
        "if rank == 1:\n    a = world.Dup()\n    b = world.Dup()\nelse:\n    a = world.Dup()\n    b = world.Dup()\n"
    )
    rank_1 = [collective("Dup", 2), collective("Dup", 3), collective("Barrier", 8, FIRST)]
    others = [collective("Dup", 5), collective("Dup", 6), collective("Barrier", 7, SECOND)]
    finding = _judge([others, rank_1, others], source)
    assert "the other way round: the communicator" not in finding.summary
