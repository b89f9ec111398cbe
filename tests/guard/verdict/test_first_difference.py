"""The first difference does not depend on the order of ranks, nor on who remembers how much."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.guard.verdict.simulated import WORLD, communicators

from paceline.guard.verdict.first_difference import DifferingCalls, find_first_difference, line_of, shown_difference
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Position, RankState, Snapshot


def find(lines_of_ranks: list[list[int]], *, first: int = 1, up_to: int = 99) -> DifferingCalls | None:
    """Look for the first difference of ranks that call Barrier from these lines."""
    ranks = [
        RankState(
            rank=rank, positions={WORLD: first + len(lines) - 1},
            history=tuple(
                Call(operation="Barrier", communicator=WORLD, sequence=first + number, site=f"train.py:{line}")
                for number, line in enumerate(lines)
            ),
        )
        for rank, lines in enumerate(lines_of_ranks)
    ]  # fmt: skip
    inspection = Inspection(Snapshot(ranks=ranks, communicators=communicators(len(ranks))))
    return find_first_difference(inspection, Position(WORLD, up_to))


def test_ranks_that_have_ended_early_stand_anywhere_in_the_order() -> None:
    short, one, other = [1, 2], [1, 2, 3, 4], [1, 2, 3, 5]
    for order in ([short, one, other, short], [one, short, short, other], [short, short, one, other]):
        differing = find(order)
        assert differing is not None
        assert differing.position == Position(WORLD, 4)


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=6), min_size=2, max_size=5), st.data())
def test_any_order_of_ranks_gives_the_same_position(lines: list[list[int]], data: st.DataObject) -> None:
    differing, shuffled = find(lines), find(data.draw(st.permutations(lines)))
    assert (differing is None) == (shuffled is None)
    if differing is not None and shuffled is not None:
        assert differing.position == shuffled.position
        assert sorted(map(line_of, differing.calls.values())) == sorted(map(line_of, shuffled.calls.values()))


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=6), min_size=2, max_size=5))
def test_it_is_the_first_position_at_which_lines_differ(lines: list[list[int]]) -> None:
    expected = next((at for at in range(6) if len({row[at] for row in lines if at < len(row)}) > 1), None)
    differing = find(lines)
    assert (None if differing is None else differing.position.sequence - 1) == expected


def test_what_comes_after_the_last_position_asked_for_does_not_count() -> None:
    assert find([[1, 2, 3], [1, 2, 4]], up_to=2) is None


def test_the_same_line_called_from_another_is_a_difference_that_is_not_shown() -> None:
    calls = {
        rank: Call(operation="Barrier", communicator=WORLD, sequence=1, site="train.py:4", callers=(caller,))
        for rank, caller in enumerate(["train.py:9", "train.py:12"])
    }
    ranks = [RankState(rank=rank, positions={WORLD: 1}, history=(call,)) for rank, call in calls.items()]
    inspection = Inspection(Snapshot(ranks=ranks, communicators=communicators(2)))
    differing = find_first_difference(inspection, Position(WORLD, 1))
    assert differing is not None
    assert shown_difference(inspection, differing) is None
