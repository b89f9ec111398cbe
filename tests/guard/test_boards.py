"""Boards show where the calls of two ranks differ, and where a message does not fit its receive."""

from __future__ import annotations

import fcntl
import multiprocessing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.guard.recorded_calls import ALLREDUCE, BARRIER

from paceline.guard.observe.board_reader import differing_positions
from paceline.guard.rank.mpi.mpi_buffers import dtype_code
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import (
    MOST_COLUMNS,
    PLACE_SHIFT,
    Board,
    MessageBoard,
    calls_differ,
    message_key,
    pack_call,
    pack_size,
    place_of,
    sequence_at,
    sizes_differ,
)
from paceline.guard.shared_memory.operations import BY_NAME, DTYPE_CODES, UNKNOWN_REDUCTION


def boards(folder: Path, num_members: int) -> list[Board]:
    return [Board(folder / "board.w.0.c", member, num_members) for member in range(num_members)]


@pytest.mark.parametrize("num_members", [2, 3, 7])
def test_the_later_of_two_sees_the_earlier(tmp_path: Path, num_members: int) -> None:
    members = boards(tmp_path, num_members)
    same = (1, pack_call(BARRIER, -1, 0), pack_size(0, -1))
    assert [board.meet(*same) for board in members[:-1]] == [-1] * (num_members - 1)
    other = pack_call(ALLREDUCE, -1, 1)
    assert members[-1].meet(1, other, pack_size(13, 8)) == 0
    assert differing_positions(tmp_path, ["w.0"]) == [("w.0.c", 1)]


@pytest.mark.parametrize("num_members", [2, 3])
@pytest.mark.parametrize("swapped", [False, True])
def test_sizes_are_compared_where_one_reduction_is_not_known(tmp_path: Path, num_members: int, swapped: bool) -> None:
    """The dispatcher of torch does not tell which reduction DDP asks for."""
    members = boards(tmp_path, num_members)
    calls = [pack_call(ALLREDUCE, -1, 1), pack_call(ALLREDUCE, -1, UNKNOWN_REDUCTION)]
    one, other = reversed(calls) if swapped else calls
    assert members[0].meet(1, one, pack_size(13, 8)) == -1
    assert members[1].meet(1, other, pack_size(13, 8)) == -1
    assert members[0].meet(2, one, pack_size(13, 8)) == -1
    assert members[1].meet(2, other, pack_size(13, 196)) == 0


def test_a_board_that_is_removed_while_boards_are_read_is_left_out(tmp_path: Path) -> None:
    members = boards(tmp_path, 2)
    members[0].meet(1, pack_call(BARRIER, -1, 0), pack_size(0, -1))
    members[1].meet(1, pack_call(ALLREDUCE, -1, 1), pack_size(13, 8))
    (tmp_path / "board.w.0.freed").symlink_to(tmp_path / "gone")  # listed, and then not there
    assert differing_positions(tmp_path, ["w.0"]) == [("w.0.c", 1)]


@pytest.mark.parametrize("num_members", [2, 5])
def test_members_at_other_positions_are_not_compared(tmp_path: Path, num_members: int) -> None:
    members = boards(tmp_path, num_members)
    for sequence in range(1, 200):
        for board in members:
            assert board.meet(sequence, pack_call(BARRIER, -1, 0), pack_size(0, -1)) == -1
    ahead = 199 + layout.BOARD_ROWS  # the same row as 199
    assert members[0].meet(ahead, pack_call(ALLREDUCE, -1, 1), pack_size(13, 8)) == -1
    assert differing_positions(tmp_path, ["w.0"]) == []


@pytest.mark.parametrize(
    ("mine", "theirs", "differ"),
    [
        ((BARRIER, -1, 0), (BARRIER, -1, 0), False),
        ((BARRIER, -1, 0), (ALLREDUCE, -1, 0), True),
        ((BY_NAME["Bcast"].code, 0, 0), (BY_NAME["Bcast"].code, 1, 0), True),
        ((ALLREDUCE, -1, 1), (ALLREDUCE, -1, 2), True),
        ((ALLREDUCE, -1, 1), (ALLREDUCE, -1, UNKNOWN_REDUCTION), False),
        ((ALLREDUCE, 0, 1), (ALLREDUCE, 1, UNKNOWN_REDUCTION), True),
    ],
)
def test_what_must_be_equal_is_compared(mine: tuple[int, int, int], theirs: tuple[int, int, int], differ: bool) -> None:
    places = [place << PLACE_SHIFT for place in (3, 4)]
    assert calls_differ(places[0] | pack_call(*mine), places[0] | pack_call(*theirs)) is differ
    assert not calls_differ(places[0] | pack_call(*mine), places[1] | pack_call(*theirs))


@pytest.mark.parametrize(
    ("mine", "theirs", "differ"),
    [
        ((12, 32), (13, 32), True),
        ((12, 32), (12, 64), True),
        ((0, 32), (12, 32), False),
        ((12, -1), (12, 64), False),
        ((12, 0), (13, 0), False),  # no elements have no type
        ((12, 0), (13, 32), True),
    ],
)
def test_types_and_sizes_differ_only_where_both_are_known(
    tmp_path: Path, mine: tuple[int, int], theirs: tuple[int, int], differ: bool
) -> None:
    assert sizes_differ(pack_size(*mine), pack_size(*theirs)) is differ
    for board, size in zip(boards(tmp_path, 2), (mine, theirs), strict=True):
        board.meet(64, pack_call(ALLREDUCE, -1, 1), pack_size(*size))
    assert differing_positions(tmp_path, ["w.0"]) == ([("w.0.c", 64)] if differ else [])


HUGE = 100_000  # members, of which some are on this machine


def test_only_members_of_this_machine_have_a_place_on_the_board(tmp_path: Path) -> None:
    path = tmp_path / "board.w.0.c"
    here = [Board(path, member, HUGE) for member in (99_992, 70_000, 5)]
    assert path.stat().st_size < 2 << 20
    same = pack_call(BARRIER, -1, 0)
    assert [board.meet(9, same, 0) for board in here[:2]] == [-1, -1]
    assert here[2].meet(9, pack_call(ALLREDUCE, -1, 1), 0) == 99_992
    assert differing_positions(tmp_path, ["w.0"]) == [("w.0.c", 9)]
    late = Board(path, 99_999, HUGE)  # who comes late sees what was written before
    assert late.meet(9, same, 0) == 5
    again = Board(path, 70_000, HUGE)
    assert (again.column, late.column) == (here[1].column, 3)


def test_a_board_without_a_column_left_is_an_error_and_the_rank_goes_on(tmp_path: Path) -> None:
    for member in range(MOST_COLUMNS):
        Board(tmp_path / "board.w.0.c", member, HUGE)
    with pytest.raises(OSError, match="no column left"):
        Board(tmp_path / "board.w.0.c", MOST_COLUMNS, HUGE)
    assert Board(tmp_path / "board.w.0.c", 7, HUGE).column == 7


def test_a_board_is_lost_if_somebody_holds_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.guard.shared_memory.board._LOCK_TRIES", 2)
    Board(tmp_path / "board", 0, 2)
    with (tmp_path / "board").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="lock"):
            Board(tmp_path / "board", 1, 2)
    assert Board(tmp_path / "board", 1, 2).column == 1


def test_processes_that_open_a_board_together_get_columns_of_their_own(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        columns = pool.map(partial(column_of, tmp_path / "board"), range(40), chunksize=1)
    assert sorted(columns) == list(range(40))


def column_of(path: Path, member: int) -> int:
    return Board(path, member, HUGE).column


ROOTS = st.integers(0, 8_000_000)


@given(ROOTS, ROOTS)
@example(40_000, 40_000 - (1 << 15))
def test_two_roots_never_look_alike(one: int, other: int) -> None:
    broadcast = BY_NAME["Bcast"].code
    assert calls_differ(pack_call(broadcast, one, 0), pack_call(broadcast, other, 0)) is (one != other)


@given(st.integers(1, 1 << 28))
def test_a_place_and_its_row_are_the_sequence_number(sequence: int) -> None:
    assert sequence_at(sequence % layout.BOARD_ROWS, place_of(sequence)) == sequence


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 20))
def test_a_member_that_is_some_rounds_behind_is_not_compared(sequence: int, rounds: int) -> None:
    assert place_of(sequence) != 0
    assert place_of(sequence) != place_of(sequence + rounds * layout.BOARD_ROWS)


def test_a_message_meets_its_receive_whoever_comes_first(tmp_path: Path) -> None:
    board = MessageBoard(tmp_path / "messages")
    small, large = pack_size(13, 32), pack_size(13, 64)
    key = message_key(0, 1, 5, 1, 0)
    assert board.meet(key, small, sends=False) == -1
    assert board.meet(key, large, sends=True) == small  # more than there is room for
    key = message_key(0, 1, 5, 2, 0)
    assert board.meet(key, small, sends=True) == -1
    assert board.meet(key, large, sends=False) == -1  # a shorter message fits
    key = message_key(0, 1, 5, 3, 0)
    assert board.meet(key, pack_size(12, 32), sends=True) == -1
    assert board.meet(key, small, sends=False) == pack_size(12, 32)  # another element type
    key = message_key(0, 1, 5, 4, 0)
    assert board.meet(key, pack_size(12, 0), sends=True) == -1
    assert board.meet(key, small, sends=False) == -1  # no elements have no type


def test_types_that_may_carry_anything_are_not_told_apart() -> None:
    assert dtype_code("S1") == dtype_code("V16") == 0
    assert dtype_code("f8") == DTYPE_CODES["f8"] != 0
