"""The board of pairs: members see each other's tables, and a reader from outside sees those that do not fit."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from paceline.guard.observe.pair_reader import unequal_tables
from paceline.guard.shared_memory.board import pack_size
from paceline.guard.shared_memory.pair_board import (
    MAX_PAIR_MEMBERS,
    PAIR_HEAD_WORDS,
    UNKNOWN_AMOUNT,
    PairBoard,
    num_pair_rows,
    pair_row_words,
)
from paceline.guard.verdict.rank_facts.count_table import Amount
from paceline.guard.verdict.snapshot import Position

F4, F8 = 12, 13
NAME = "pairs.job.0.mpi-world"


def boards(folder: Path, num: int) -> list[PairBoard]:
    return [PairBoard(folder / NAME, member, num) for member in range(num)]


def words(*counts: int) -> list[int]:
    return [pack_size(F8, 8 * count) for count in counts]


def test_the_later_of_two_sees_a_pair_that_does_not_fit(tmp_path: Path) -> None:
    first, second = boards(tmp_path, 2)
    assert first.meet(1, (words(1, 1), words(1, 1))) == -1
    assert second.meet(1, (words(2, 1), words(1, 1))) == 0


def test_what_is_sent_is_compared_with_what_is_expected_and_not_with_what_is_sent(tmp_path: Path) -> None:
    first, second, third = boards(tmp_path, 3)
    assert first.meet(1, (words(0, 1, 2), words(0, 3, 4))) == -1
    assert second.meet(1, (words(3, 0, 5), words(1, 0, 6))) == -1
    assert third.meet(1, (words(4, 6, 0), words(2, 5, 0))) == -1
    assert unequal_tables(tmp_path, ["job.0"]) == {}


def test_unknown_amounts_and_types_fit_and_a_member_may_not_fit_itself(tmp_path: Path) -> None:
    first, second = boards(tmp_path, 2)
    assert first.meet(1, ([8, UNKNOWN_AMOUNT], [pack_size(F4, 8), 16])) == -1
    assert second.meet(1, (words(2, 1), words(7, 1))) == -1
    assert first.meet(2, (words(2, 0), words(1, 0))) == 0


def test_a_position_that_others_have_passed_or_not_reached_is_not_compared(tmp_path: Path) -> None:
    first, second = boards(tmp_path, 2)
    assert first.meet(1, (words(1, 1), words(1, 1))) == -1
    assert second.meet(1 + num_pair_rows(2), (words(9, 9), words(9, 9))) == -1  # takes the place of position 1
    assert unequal_tables(tmp_path, ["job.0"]) == {}


def test_a_reader_gets_the_tables_of_the_position_and_of_those_worlds_only(tmp_path: Path) -> None:
    first, second = boards(tmp_path, 2)
    first.meet(5, (words(1, 1), words(1, 1)))
    second.meet(5, ([pack_size(F8, 16), UNKNOWN_AMOUNT], words(1, 0)))
    found = unequal_tables(tmp_path, ["job.0"])
    assert list(found) == [Position("job.0.mpi-world", 5)]
    tables = found[Position("job.0.mpi-world", 5)]
    assert tables[1].sends == (Amount("f8", 16), Amount("any", -1))
    assert tables[0].expects == (Amount("f8", 8), Amount("f8", 8))
    assert unequal_tables(tmp_path, ["job.1"]) == {}


def test_a_table_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    first, second = boards(tmp_path, 2)
    first.meet(1, (words(1, 1), words(1, 1)))
    second.meet(1, (words(2, 1), words(1, 1)))
    assert unequal_tables(tmp_path, ["job.0"])
    with (tmp_path / NAME).open("r+b") as file:  # as if the second member had begun to write for another position
        row = PAIR_HEAD_WORDS + 1 * pair_row_words(2)
        file.seek((row + 1) * 8)
        file.write(struct.pack("<Q", 0))
    assert unequal_tables(tmp_path, ["job.0"]) == {}


@pytest.mark.parametrize("num", [2, 7, 64, MAX_PAIR_MEMBERS])
def test_a_board_takes_a_megabyte_at_most_or_little_more(num: int, tmp_path: Path) -> None:
    PairBoard(tmp_path / NAME, 0, num)
    assert (tmp_path / NAME).stat().st_size <= (1 << 20) + 8 * PAIR_HEAD_WORDS
