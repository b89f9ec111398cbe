"""Reads the boards of pairs from outside: the tables of the positions at which two members do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy

from paceline.guard.shared_memory.board import sizes_differ
from paceline.guard.shared_memory.layout import UNKNOWN_BYTES
from paceline.guard.shared_memory.operations import DTYPES
from paceline.guard.shared_memory.pair_board import PAIR_HEAD_WORDS, pair_row_words
from paceline.guard.verdict.rank_facts.count_table import Amount, CountTable
from paceline.guard.verdict.snapshot import Position
from paceline.process.private_files import names_in

_Words = numpy.ndarray[tuple[int], numpy.dtype[numpy.uint64]]
_Tables = dict[int, CountTable]  # by member


def unequal_tables(folder: Path, worlds: Iterable[str]) -> dict[Position, _Tables]:
    """Return the tables of each position of these worlds' communicators at which a pair does not fit."""
    found = {}
    prefixes = tuple(f"pairs.{world}." for world in worlds)
    for name in names_in(folder):
        if name.startswith(prefixes):
            with suppress(FileNotFoundError):  # its communicator has just been freed
                for sequence, tables in _unequal_rows(folder / name):
                    found[Position(name.removeprefix("pairs."), sequence)] = tables
    return found


def _unequal_rows(path: Path) -> Iterator[tuple[int, _Tables]]:
    """Return sequence number and tables of the rows in which a pair does not fit."""
    words = numpy.fromfile(path, dtype=numpy.uint64)
    num = int(words[0]) if words.size else 0
    if num == 0:
        return
    rows = _suspects(_rows(words, num), num)
    if not rows:
        return
    # a member may have been writing: what both looks have seen was there in between
    before, after = _rows(words, num), _rows(numpy.fromfile(path, dtype=numpy.uint64), num)
    for row in rows:
        if numpy.array_equal(before[row], after[row]):
            sequence = int(after[row, :num].max())
            members = [member for member in range(num) if int(after[row, member]) == sequence]
            if _is_unequal(after[row], num, members):
                yield sequence, {member: _table(after[row], num, member) for member in members}


def _rows(words: _Words, num: int) -> numpy.ndarray[tuple[int, int], numpy.dtype[numpy.uint64]]:
    size = pair_row_words(num)
    num_rows = (words.size - PAIR_HEAD_WORDS) // size
    return words[PAIR_HEAD_WORDS : PAIR_HEAD_WORDS + num_rows * size].reshape(num_rows, size)


def _suspects(rows: numpy.ndarray[tuple[int, int], numpy.dtype[numpy.uint64]], num: int) -> list[int]:
    """Return the rows in which members at the newest position wrote different words; most have none."""
    sequences = rows[:, :num]
    newest = sequences.max(axis=1, keepdims=True)
    there = (sequences == newest) & (newest > 0)
    sends = rows[:, num : num + num * num].reshape(-1, num, num)
    expects = rows[:, num + num * num :].reshape(-1, num, num)
    both = there[:, :, None] & there[:, None, :]
    return numpy.flatnonzero((both & (sends != expects.transpose(0, 2, 1))).any(axis=(1, 2))).tolist()


def _is_unequal(row: _Words, num: int, members: list[int]) -> bool:
    all_sends, all_expects = row[num : num + num * num], row[num + num * num :]
    return any(
        sizes_differ(int(all_sends[sender * num + receiver]), int(all_expects[receiver * num + sender]))
        for sender in members
        for receiver in members
    )


def _table(row: _Words, num: int, member: int) -> CountTable:
    begin = num + member * num
    sends, expects = row[begin : begin + num], row[begin + num * num : begin + num * num + num]
    return CountTable(sends=tuple(map(_amount, sends.tolist())), expects=tuple(map(_amount, expects.tolist())))


def _amount(word: int) -> Amount:
    num_bytes = word & UNKNOWN_BYTES
    return Amount(DTYPES[word >> 56], -1 if num_bytes == UNKNOWN_BYTES else num_bytes)
