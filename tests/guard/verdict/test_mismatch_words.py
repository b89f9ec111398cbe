"""The words of the rule of mismatches, for each field that can differ, with and without a minority."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.guard.verdict.simulated import STOP_COLLECTIVE, WORLD, certain, collective, judge, stopped, waits

from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind
from paceline.guard.verdict.snapshot import Call, RankState, Waiting


def differing(*calls: Call, **more: Any) -> Finding:
    """Return the finding about ranks that make these calls, each its own, at the first position."""
    ranks = [waits(rank, call) for rank, call in enumerate(calls)]
    return certain(*ranks, **more)


def reduced(**fields: Any) -> Call:
    """Return an Allreduce at line 12."""
    values: dict[str, Any] = {"reduction": "SUM", "dtype": "f4", "num_bytes": 32, "count": 8, "sequence": 1, **fields}
    return collective("Allreduce", 12, **values)


SAME = reduced()


@pytest.mark.parametrize(
    ("other", "field", "cause", "summary", "advice"),
    [
        (
            reduced(reduction="PROD"), FindingField.REDUCTION, Cause.REDUCTION,
            "rank 2 calls Allreduce at train.py:12 with a different reduction: SUM on ranks 0-1; PROD on rank 2 "
            "(call 1 on WORLD)",
            "every rank must use the same reduction in the call at train.py:12",
        ),
        (
            reduced(dtype="f8", num_bytes=64), FindingField.DTYPE, Cause.DTYPE,
            "rank 2 calls Allreduce at train.py:12 with a different element type: 8 x f4 on ranks 0-1; 8 x f8 on "
            "rank 2 (call 1 on WORLD)",
            "convert to one element type before the call at train.py:12: libraries read the bytes as they come",
        ),
        (
            reduced(num_bytes=20, count=5), FindingField.COUNT, Cause.SHAPE,
            "rank 2 calls Allreduce at train.py:12 with a different size: 8 x f4 on ranks 0-1; 5 x f4 on rank 2 "
            "(call 1 on WORLD)",
            "give every rank the same number of elements in the call at train.py:12: pad the last batch, or use a "
            "call that takes a count per rank",
        ),
    ],
)  # fmt: skip
def test_one_rank_brings_another_argument(
    other: Call, field: FindingField, cause: Cause, summary: str, advice: str
) -> None:
    finding = differing(SAME, SAME, other)
    assert (finding.kind, finding.field, finding.cause) == (FindingKind.MISMATCH, field, cause)
    assert finding.ranks == (2,)
    assert finding.summary == summary
    assert finding.advice == advice


def test_another_root() -> None:
    finding = differing(*(collective("Bcast", 5, root=root, sequence=1) for root in (0, 0, 1)))
    assert (finding.field, finding.cause, finding.ranks) == (FindingField.ROOT, Cause.ROOT, (2,))
    assert finding.summary == (
        "rank 2 calls Bcast at train.py:5 with a different root: root 0 on ranks 0-1; root 1 on rank 2 "
        "(call 1 on WORLD)"
    )
    assert finding.advice == (
        "every rank must name the same root in the call at train.py:5; do not compute it from data of one rank"
    )


def test_another_list_of_ranks_for_a_new_group() -> None:
    calls = [collective("torch.new_group", 8, members_hash=number, sequence=2) for number in (11, 22, 11)]
    finding = differing(*calls, new_groups={11: (0, 1), 22: (0, 2)})
    assert (finding.field, finding.cause, finding.ranks) == (FindingField.COMMUNICATOR, Cause.GROUP, (1,))
    assert finding.summary == (
        "rank 1 calls new_group at train.py:8 with a different list of ranks: of ranks 0-1 on ranks 0, 2; of ranks "
        "0, 2 on rank 1 (call 2 on WORLD)"
    )
    assert finding.advice == (
        "every rank must make the same groups in the same order, with the same ranks, at train.py:8"
    )
    assert [group.detail for group in finding.groups] == ["of ranks 0-1", "of ranks 0, 2"]


def test_with_two_ranks_nobody_is_called_the_odd_one() -> None:
    finding = differing(SAME, reduced(count=5, num_bytes=20))
    assert finding.ranks == (0, 1)
    assert finding.summary.startswith("ranks call Allreduce at train.py:12 with different sizes: 8 x f4 on rank 0;")


def test_what_is_not_known_fits_everything() -> None:
    unknown = reduced(dtype="any", num_bytes=-1, count=-1, reduction="unknown")
    finding = differing(unknown, SAME, reduced(num_bytes=20, count=5), SAME)
    assert finding.ranks == (2,)
    assert "not known on rank 0" in finding.summary


def test_another_operation_under_an_unknown_condition() -> None:
    barrier, gather = collective("Barrier", 4), collective("Gather", 9, root=0)
    finding = judge([[barrier], [barrier], [gather]])
    assert (finding.field, finding.cause, finding.ranks) == (FindingField.OPERATION, Cause.DIFFERENT_COLLECTIVES, (2,))
    assert finding.summary == (
        "rank 2 fell out of line: ranks 0-1 call Barrier at train.py:4, rank 2 calls Gather at train.py:9"
    )
    assert finding.advice == (
        "find the condition or the loop that leads rank 2 to the Gather at train.py:9 while the others come to the "
        "Barrier at train.py:4: all must make the same calls"
    )


def test_two_ranks_that_differ_without_a_past_are_both_named() -> None:
    finding = judge([[collective("Barrier", 4)], [collective("Gather", 9, root=0)]])
    assert (finding.cause, finding.ranks) == (Cause.DIFFERENT_COLLECTIVES, (0, 1))
    assert finding.summary == "ranks 0-1 differ: rank 0 calls Barrier at train.py:4, rank 1 calls Gather at train.py:9"


def test_another_operation_from_the_same_line() -> None:
    finding = differing(collective("Barrier", 4, sequence=1), collective("Barrier", 4, sequence=1), Call(
        operation="Allreduce", communicator="mpi-world", site="train.py:4", sequence=1, reduction="SUM",
    ))  # fmt: skip
    assert finding.ranks == (2,)
    assert "ranks 0-1 call Barrier at train.py:4, rank 2 calls Allreduce at train.py:4" in finding.summary


def test_another_order() -> None:
    past = collective("Barrier", 4, sequence=1), collective("Allreduce", 5, sequence=2, reduction="SUM")
    swapped = collective("Allreduce", 5, sequence=1, reduction="SUM"), collective("Barrier", 4, sequence=2)
    ranks = [
        stopped(rank, calls[0], reason=STOP_COLLECTIVE, positions={"mpi-world": 2}, history=calls)
        for rank, calls in enumerate([past, past, swapped])
    ]
    finding = certain(*ranks)
    assert finding.cause is Cause.CALL_ORDER
    assert finding.advice == "let every rank make the same calls in the same order"
    assert finding.summary == (
        "rank 2 calls Allreduce at train.py:5 before Barrier at train.py:4; ranks 0-1 call them the other way round"
    )


LOOP = """
for batch in batches:
    comm.Allreduce(x, y)
comm.Gather(x, y)
"""


def test_ranks_that_left_a_loop_earlier_are_told_by_their_steps() -> None:
    step, after = collective("Allreduce", 2), collective("Gather", 3, root=0)
    finding = judge([[step] * 5 + [after], [step] * 5 + [after], [step] * 3 + [after]], source=LOOP)
    assert (finding.kind, finding.cause, finding.ranks) == (FindingKind.MISMATCH, Cause.UNEVEN_STEPS, (2,))
    assert finding.summary == (
        "rank 2 fell out of line: it left the loop `for batch in batches` at train.py:1 after 3 steps; ranks 0-1 are "
        "in step 4, at train.py:2"
    )
    assert finding.advice == (
        "give every rank the same number of steps: paceline.PlanSampler does, or stop all ranks at the smallest count "
        "(all_reduce with MIN before the loop)"
    )
    difference = finding.first_difference
    assert difference is not None
    assert (difference.sequence, difference.communicator) == (4, "WORLD")
    assert [(group.ranks, group.call, group.site) for group in difference.groups] == [
        ((0, 1), "Allreduce", "train.py:2"),
        ((2,), "Gather", "train.py:3"),
    ]


def test_one_step_is_singular_and_a_minority_that_stayed_is_the_odd_one() -> None:
    step, after = collective("Allreduce", 2), collective("Gather", 3, root=0)
    finding = judge([[step, step, after], [step, after], [step, after]], source=LOOP)
    assert finding.ranks == (0,)
    assert finding.summary == (
        "rank 0 fell out of line: ranks 1-2 left the loop `for batch in batches` at train.py:1 after 1 step; rank 0 is "
        "in step 2, at train.py:2"
    )


CONDITION = """
for step in range(9):
    if rank == 0:
        comm.Barrier()
    comm.Allreduce(x, y)
"""


def test_a_call_under_a_condition_is_told_with_the_condition() -> None:
    barrier, step = collective("Barrier", 3), collective("Allreduce", 4)
    finding = judge([[barrier, step], [step], [step]], source=CONDITION)
    assert (finding.cause, finding.ranks) == (Cause.RANK_CONDITIONAL_CALL, (0,))
    assert finding.summary == (
        "only rank 0 makes the Barrier at train.py:3, under `if rank == 0`; from there on its calls pair up with the "
        "wrong calls of the other ranks"
    )
    assert finding.advice == "take the Barrier at train.py:3 out of the `if rank == 0`: every rank must make it"


FAR_CONDITION = """
def save():
    comm.Barrier()
for step in range(9):
    if step % 2 == 0 and rank < 2:
        print("saving")
        log("saving")
        save()
    comm.Allreduce(x, y)
"""


def test_a_condition_further_up_is_told_with_its_line() -> None:
    barrier = Call(operation="Barrier", communicator="mpi-world", site="train.py:2", callers=("train.py:7",))
    step = collective("Allreduce", 8)
    finding = judge([[barrier, step], [barrier, step], [step], [step], [step]], source=FAR_CONDITION)
    assert finding.ranks == (0, 1)
    assert finding.summary == (
        "only ranks 0-1 make the Barrier at train.py:2, under `if step % 2 == 0 and rank < 2` at train.py:4; from "
        "there on their calls pair up with the wrong calls of the other ranks"
    )
    assert finding.advice.endswith("out of the `if step % 2 == 0 and rank < 2` at train.py:4: every rank must make it")


def test_a_third_line_is_not_taken_for_the_second() -> None:
    usual, second, third = collective("Allreduce", 4), collective("Barrier", 6), collective("Bcast", 8, root=0)
    finding = judge([[usual], [usual], [usual], [second], [second], [third]])
    assert finding.ranks == (3, 4, 5)
    assert "ranks 3-4 call Barrier at train.py:6" in finding.summary
    assert "rank 5 calls Bcast at train.py:8" in finding.summary


def sized(counts: list[int]) -> list[Call]:
    """Return broadcasts of these numbers of elements from one line, as a loop over tensors makes them."""
    return [
        collective(
            "Bcast", 11, root=0, dtype="f8", count=count, num_bytes=8 * count, sequence=at, number=at, left_ns=at
        )
        for at, count in enumerate(counts, 1)
    ]


def bringing(first: list[int], *others: list[int]) -> Finding:
    """Return the finding about a root that has gone on, and ranks that are in their last broadcast."""
    states = [RankState(rank=0, positions={WORLD: len(first)}, history=tuple(sized(first)))]
    for rank, counts in enumerate(others, 1):
        calls = sized(counts)
        calls[-1] = replace(calls[-1], left_ns=0)
        states.append(
            RankState(
                rank=rank, threads=(Waiting(call=calls[-1]),), positions={WORLD: len(counts)}, history=tuple(calls)
            )
        )  # fmt: skip
    return certain(*states)


def test_sizes_that_another_rank_brings_later_are_an_order_or_a_call_left_out() -> None:
    finding = bringing([12, 3, 5, 7], [12, 3], [12, 5])
    assert (finding.cause, finding.ranks) == (Cause.CALL_ORDER, (2,))
    assert [other.cause for other in finding.explanations[:2]] == [Cause.CALL_ORDER, Cause.SKIPPED_CALL]
    assert finding.summary == (
        "rank 2 brings 5 x f8 to the Bcast at train.py:11 where ranks 0-1 bring 3 x f8 (call 2 on WORLD); 5 x f8 came "
        "from rank 0 in call 3: ranks go through them in different orders"
    )


def test_a_size_that_nobody_else_brings_is_a_shape() -> None:
    finding = bringing([12, 3, 5, 7], [12, 3], [12, 4])
    assert (finding.cause, finding.ranks, finding.explanations) == (Cause.SHAPE, (2,), ())


def test_a_size_to_which_others_come_later_by_growing_is_a_shape() -> None:
    finding = bringing([8, 8, 8, 16], [8, 8], [8, 16])
    assert (finding.cause, finding.ranks, finding.explanations) == (Cause.SHAPE, (2,), ())
