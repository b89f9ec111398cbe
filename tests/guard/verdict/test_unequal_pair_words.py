"""The words of the rule of pairs: who sends whom another amount than is expected, and which rank is out of line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.guard.verdict.simulated import SPLIT, WORLD, collective, communicators, waits

from paceline.guard.verdict.diagnose import find_certain
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_facts.count_table import Amount, CountTable
from paceline.guard.verdict.snapshot import Call, Position, RankState, Snapshot, Waiting

UNKNOWN = Amount("any", -1)
Entry = int | Amount


def table(sends: list[Entry], expects: list[Entry]) -> CountTable:
    """Return a table of numbers of float64."""

    def amounts(entries: list[Entry]) -> tuple[Amount, ...]:
        return tuple(entry if isinstance(entry, Amount) else Amount("f8", 8 * entry) for entry in entries)

    return CountTable(sends=amounts(sends), expects=amounts(expects))


def judged(
    tables: Sequence[CountTable | None], operation: str = "Alltoallv", calls: dict[int, Call] | None = None, **more: Any
) -> Finding | None:
    """Return the finding about ranks that make one call each, all with a table but those that have not come."""
    ranks = [
        RankState(rank=rank)
        if one is None
        else waits(rank, (calls or {}).get(rank) or collective(operation, 7, sequence=1, **more))
        for rank, one in enumerate(tables)
    ]
    there = {rank: one for rank, one in enumerate(tables) if one is not None}
    snapshot = Snapshot(
        ranks=ranks, communicators=communicators(len(ranks)), tables={Position(WORLD, 1): there}
    )  # fmt: skip
    return find_certain(Inspection(snapshot))


def found(*tables: CountTable | None, operation: str = "Alltoallv", **more: Any) -> Finding:
    finding = judged(list(tables), operation, **more)
    assert finding is not None
    return finding


def test_one_pair_is_named_from_both_sides() -> None:
    finding = found(table([1, 1], [1, 1]), table([2, 1], [1, 1]))
    assert (finding.kind, finding.field, finding.cause) == (FindingKind.MISMATCH, FindingField.COUNT, Cause.SPLITS)
    assert finding.ranks == (0, 1)
    assert finding.summary == (
        "rank 1 sends 2 elements to rank 0 at train.py:7, rank 0 expects 1 at train.py:7 (Alltoallv, call 1 on WORLD)"
    )
    assert finding.advice == (
        "let the ranks tell each other the counts before the call at train.py:7: receive_counts = "
        "comm.alltoall(send_counts)"
    )


def test_a_rank_that_fits_nobody_is_the_odd_one() -> None:
    fits = table([2, 2, 2], [2, 2, 2])
    finding = found(fits, fits, table([3, 3, 3], [3, 3, 3]))
    assert finding.ranks == (2,)
    assert finding.summary == (
        "rank 0 sends 2 elements to rank 2 at train.py:7, rank 2 expects 3 at train.py:7; 3 more pairs do not fit "
        "(Alltoallv, call 1 on WORLD)"
    )


def test_a_rank_that_contradicts_itself_is_the_odd_one() -> None:
    finding = found(table([2, 1], [1, 1]), table([1, 1], [1, 1]))
    assert finding.ranks == (0,)
    assert finding.summary == (
        "rank 0 sends 2 elements to itself at train.py:7, but expects 1 (Alltoallv, call 1 on WORLD)"
    )


def test_two_pairs_without_a_rank_in_common_are_all_named() -> None:
    fits = table([1] * 4, [1] * 4)
    finding = found(fits, table([5, 1, 1, 1], [1] * 4), fits, table([1, 1, 4, 1], [1] * 4))
    assert finding.ranks == (0, 1, 2, 3)
    assert "rank 1 sends 5 elements to rank 0" in finding.summary
    assert "; 1 more pair does not fit (" in finding.summary


def test_another_type_of_one_pair() -> None:
    finding = found(table([1, 1], [1, 1]), table([Amount("f4", 8), 1], [1, 1]))
    assert (finding.field, finding.cause, finding.ranks) == (FindingField.DTYPE, Cause.DTYPE, (0, 1))
    assert finding.summary.startswith("rank 1 sends 2 x f4 to rank 0 at train.py:7, rank 0 expects 1 x f8 at")
    assert finding.advice == (
        "convert to one element type before the call at train.py:7: libraries read the bytes as they come"
    )


def test_amounts_of_unknown_type_are_named_in_bytes() -> None:
    finding = found(table([1, 1], [1, 1]), table([Amount("any", 20), 1], [1, 1]))
    assert finding.summary.startswith("rank 1 sends 20 bytes to rank 0 at train.py:7, rank 0 expects 8 at train.py:7")


@pytest.mark.parametrize("entry", [UNKNOWN, Amount("any", 8), Amount("f8", 8)])
def test_what_is_not_known_fits_everything(entry: Amount) -> None:
    assert judged([table([1, 1], [1, 1]), table([entry, 1], [1, 1])]) is None


def test_nothing_has_no_type_but_is_less_than_something() -> None:
    nothing = Amount("f4", 0)
    assert judged([table([1, 1], [1, 0]), table([nothing, 1], [1, 1])]) is None
    finding = found(table([1, 1], [1, 1]), table([nothing, 1], [1, 1]))
    assert finding.summary.startswith("rank 1 sends 0 elements to rank 0 at train.py:7, rank 0 expects 1")


def test_ranks_that_have_not_come_are_not_compared() -> None:
    assert judged([table([1, 5], [1, 1]), None]) is None


def test_a_rank_in_the_call_whose_table_is_not_there_yet_is_waited_for_if_it_decides() -> None:
    """A rank writes its call down, and then its table: a look may come in between."""
    fits, odd, call = table([1, 1, 1], [1, 1, 1]), table([2, 2, 2], [1, 1, 1]), collective("Alltoallv", 7, sequence=1)

    def finding_with(*tables: CountTable | None) -> Finding | None:
        ranks = [waits(rank, call) for rank in range(len(tables))]
        there = {rank: one for rank, one in enumerate(tables) if one is not None}
        snapshot = Snapshot(ranks=ranks, communicators=communicators(len(ranks)), tables={Position(WORLD, 1): there})
        return find_certain(Inspection(snapshot))

    assert finding_with(None, fits, odd) is None
    decided = finding_with(fits, fits, odd)
    assert decided is not None
    assert decided.ranks == (2,)


def test_a_table_that_all_must_share_shows_who_has_another() -> None:
    # each rank sends 2; rank 1 expects 3 from rank 0, and so do no others
    tables = [table([2] * 4, [2] * 4) for _ in range(4)]
    tables[1] = table([2] * 4, [3, 2, 2, 2])
    finding = found(*tables, operation="Allgatherv")
    assert finding.ranks == (1,)
    assert finding.summary.startswith("rank 0 sends 2 elements to rank 1 at train.py:7, rank 1 expects 3 at")
    assert finding.advice == (
        "let all ranks use one list of counts in the call at train.py:7: counts = comm.allgather(len(data))"
    )


def test_a_rank_that_gathers_more_than_it_announced_is_named_alone() -> None:
    tables = [table([2, 2], [2, 2]), table([3, 3], [2, 2])]
    assert found(*tables, operation="Allgatherv").ranks == (1,)


def test_parts_of_a_reduction_are_brought_and_taken() -> None:
    right = [1, 2, 3]
    tables = [table(list(right), [right[rank]] * 3) for rank in range(2)] + [table([3, 2, 1], [1] * 3)]
    finding = found(*tables, operation="Reduce_scatter")
    assert finding.ranks == (2,)
    assert finding.summary.startswith("rank 0 brings 3 elements for rank 2 at train.py:7, rank 2 takes 1 at train.py:7")
    assert finding.advice == (
        "every rank must give the same counts in the call at train.py:7, and bring as much for each rank"
    )


@pytest.mark.parametrize(
    ("operation", "advice"),
    [
        ("Ialltoallv", "receive_counts = comm.alltoall(send_counts)"),
        ("Alltoallw_init", "receive_counts = comm.alltoall(send_counts)"),
        ("Igatherv", "counts = comm.gather(len(data), root=root)"),
        ("Scatterv", "count = comm.scatter(counts, root=root)"),
        ("Iallgatherv", "counts = comm.allgather(len(data))"),
        ("Ineighbor_alltoallv", "by the rule by which that one sends"),
        ("Ireduce_scatter", "every rank must give the same counts"),
        ("torch.all_to_all_single", "use what comes as output_split_sizes"),
        ("torch.all_to_all", "make the output tensors by them"),
        ("torch.all_gather", "make the output tensors by them"),
        ("torch.gather", "let the rank that gathers learn the sizes"),
        ("torch.scatter", "as large as the part that the source has"),
        ("torch.reduce_scatter", "every rank must bring tensors of the same sizes"),
    ],
)
def test_every_operation_with_a_table_has_its_advice(operation: str, advice: str) -> None:
    finding = found(table([1, 1], [1, 1]), table([2, 1], [1, 1]), operation=operation, root=0)
    assert advice in finding.advice


def test_a_root_at_a_line_of_its_own_is_not_another_way() -> None:
    calls = {0: collective("Gatherv", 5, root=0, sequence=1), 1: collective("Gatherv", 7, root=0, sequence=1)}
    finding = judged([table([1, 0], [1, 1]), table([2, 0], [0, 0])], calls=calls)
    assert finding is not None
    assert finding.summary.startswith("rank 1 sends 2 elements to rank 0 at train.py:7, rank 0 expects 1 at train.py:5")
    assert finding.explanations == ()


def test_different_lines_alone_do_not_explain_it() -> None:
    calls = {rank: collective("Alltoallv", 7 if rank < 2 else 9, sequence=1) for rank in range(3)}
    finding = judged([table([1] * 3, [1] * 3)] * 2 + [table([2] * 3, [2] * 3)], calls=calls)
    assert finding is not None
    assert (finding.ranks, finding.cause, finding.explanations) == ((2,), Cause.SPLITS, ())
    assert finding.summary.startswith("rank 0 sends 1 element to rank 2 at train.py:7, rank 2 expects 2 at train.py:9")


def test_a_rank_that_left_out_an_exchange_is_told_so_first() -> None:
    lines = [5, 9, 5, 9, 5, 9]  # out to the experts, and back

    def state(rank: int, made: list[int]) -> RankState:
        past = [
            collective("Alltoallv", line, sequence=number + 1, number=number, left_ns=1)
            for number, line in enumerate(made)
        ]
        return RankState(
            rank=rank, threads=(Waiting(call=past[-1]),), positions={WORLD: len(past)}, history=tuple(past)
        )

    ranks = [state(0, lines[:5]), state(1, lines[:5]), state(2, [*lines[:4], 9])]
    tables = dict.fromkeys(range(2), table([1] * 3, [1] * 3)) | {2: table([2] * 3, [2] * 3)}
    finding = find_certain(
        Inspection(Snapshot(ranks=ranks, communicators=communicators(3), tables={Position(WORLD, 5): tables}))
    )
    assert finding is not None
    assert (finding.ranks, finding.cause) == ((2,), Cause.SKIPPED_CALL)
    assert finding.explanations[-1].cause is Cause.SPLITS


def test_members_of_a_part_of_the_world_are_named_by_their_ranks_in_the_job() -> None:
    call = collective("Alltoallv", 7, SPLIT, sequence=4)
    ranks = [RankState(rank=0), RankState(rank=1), waits(2, call), waits(3, call)]
    tables = {Position(SPLIT, 4): {0: table([1, 2], [1, 1]), 1: table([1, 1], [1, 1])}}
    finding = find_certain(Inspection(Snapshot(ranks=ranks, communicators=communicators(4, (3, 2)), tables=tables)))
    assert finding is not None
    assert finding.ranks == (2, 3)
    assert finding.summary == (
        "rank 3 sends 2 elements to rank 2 at train.py:7, rank 2 expects 1 at train.py:7 (Alltoallv, call 4 on Split)"
    )


def test_calls_that_differ_are_not_compared_by_their_tables() -> None:
    calls = {0: collective("Alltoallv", 7, sequence=1), 1: collective("Allgatherv", 7, sequence=1)}
    finding = judged([table([1, 1], [1, 1]), table([2, 2], [2, 2])], calls=calls)
    assert finding is not None
    assert finding.field is FindingField.OPERATION


def test_a_call_that_is_not_remembered_tells_nothing() -> None:
    call = collective("Barrier", 9, sequence=70)
    snapshot = Snapshot(
        ranks=[waits(0, call), waits(1, call)], communicators=communicators(2),
        tables={Position(WORLD, 1): {0: table([1, 1], [1, 1]), 1: table([2, 1], [1, 1])}},
    )  # fmt: skip
    assert find_certain(Inspection(snapshot)) is None
