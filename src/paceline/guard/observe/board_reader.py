"""Reads the boards of communicators from outside: at which sequence numbers do members call differently?

Ranks compare on the board themselves; two that write at the very same moment can both miss the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy

from paceline.guard.shared_memory.board import (
    COLUMNS,
    NUM_TAKEN,
    OPERATION_BITS,
    PLACE_SHIFT,
    TAKEN_AT,
    calls_differ,
    sequence_at,
    sizes_differ,
)
from paceline.guard.shared_memory.layout import BOARD_ROWS
from paceline.process.private_files import names_in

_Words = numpy.ndarray[Any, numpy.dtype[numpy.uint64]]
_Halves = tuple[_Words, _Words]  # calls and sizes of a board: (row, column)
_PLACE_SHIFT = numpy.uint64(PLACE_SHIFT)
_OPERATION = numpy.uint64(OPERATION_BITS)


def differing_positions(
    folder: Path, worlds: Iterable[str], rename: Callable[[str], str] = str
) -> list[tuple[str, int]]:
    """Return each communicator of these worlds and sequence number at which its members differ.

    `rename` gives a communicator that two jobs share one name for both. Each has a board of its own for it: so the
    columns of the two are put side by side.
    """
    found: dict[str, _Halves] = {}
    prefixes = tuple(f"board.{world}." for world in worlds)
    for name in names_in(folder):
        if name.startswith(prefixes):
            with suppress(FileNotFoundError):  # its communicator has just been freed
                calls, sizes = _halves_of(numpy.fromfile(folder / name, dtype=numpy.uint64))
                identity = rename(name.removeprefix("board."))
                if identity in found:
                    calls, sizes = (
                        numpy.concatenate(pair, axis=1) for pair in zip(found[identity], (calls, sizes), strict=True)
                    )
                found[identity] = calls, sizes
    return [(identity, sequence) for identity, halves in found.items() for sequence in _differing_rows(*halves)]


def _halves_of(words: _Words) -> _Halves:
    """Return what is in the columns that are taken; nothing, if the board is not whole yet."""
    num_columns = int(words[COLUMNS]) if words.size > TAKEN_AT else 0
    begin = TAKEN_AT + num_columns
    if words.size != begin + 2 * BOARD_ROWS * num_columns:
        num_columns, words = 0, words[:0]
    halves = words[begin:].reshape(2, BOARD_ROWS, num_columns)
    num_taken = min(int(words[NUM_TAKEN]), num_columns) if num_columns else 0
    return halves[0, :, :num_taken], halves[1, :, :num_taken]


def _differing_rows(calls: _Words, sizes: _Words) -> list[int]:
    if calls.shape[1] == 0:
        return []
    # A row is used again after BOARD_ROWS calls, so only the members that are at the row's newest place are compared.
    places = calls >> _PLACE_SHIFT
    newest = places.max(axis=1, keepdims=True)
    there = (places == newest) & (newest > 0) & ((calls & _OPERATION) != 0)  # not those who have withdrawn theirs
    # a quick test that most rows pass: all that are there wrote the same words
    top = numpy.where(there, calls, 0).max(axis=1, keepdims=True)
    large = numpy.where(there, sizes, 0).max(axis=1, keepdims=True)
    suspects = numpy.flatnonzero((there & ((calls != top) | (sizes != large))).any(axis=1))
    rows = []
    for row in suspects.tolist():
        columns = numpy.flatnonzero(there[row]).tolist()
        written = [(int(calls[row, column]), int(sizes[row, column])) for column in columns]
        if any(calls_differ(written[0][0], call) or _differs_from_any(size, written) for call, size in written):
            rows.append(sequence_at(row, int(newest[row, 0])))
    return rows


def _differs_from_any(size: int, written: list[tuple[int, int]]) -> bool:
    return any(sizes_differ(size, other) for _, other in written)
