"""Reads the boards of communicators from outside: positions at which members call differently."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy

from paceline.guard.shared_memory.board import calls_differ, sizes_differ
from paceline.guard.shared_memory.layout import BOARD_ROWS
from paceline.guard.shared_memory.record_fields import WORD

_POSITION_SHIFT = numpy.uint64(32)


def differing_positions(folder: Path, world: str) -> list[tuple[str, int]]:
    """Return the communicators and positions at which the members of a world differ."""
    found = []
    prefix = f"board.{world}."
    for name in os.listdir(folder):
        if name.startswith(prefix):
            with suppress(FileNotFoundError):  # its communicator has just been freed
                words = numpy.fromfile(folder / name, dtype=numpy.uint64)
                found += [(name.removeprefix(prefix), sequence) for sequence in differing_rows(words)]
    return found


def differing_rows(words: numpy.ndarray[tuple[int], numpy.dtype[numpy.uint64]]) -> list[int]:
    """Return the positions of a board at which members differ."""
    num_members = words.size * WORD // (2 * BOARD_ROWS * WORD)
    if num_members == 0:
        return []
    calls = words[: BOARD_ROWS * num_members].reshape(BOARD_ROWS, num_members)
    sizes = words[BOARD_ROWS * num_members :].reshape(BOARD_ROWS, num_members)
    positions = calls >> _POSITION_SHIFT
    newest = positions.max(axis=1, keepdims=True)
    there = (positions == newest) & (newest > 0)
    top = numpy.where(there, calls, 0).max(axis=1, keepdims=True)
    large = numpy.where(there, sizes, 0).max(axis=1, keepdims=True)
    suspects = numpy.flatnonzero((there & ((calls != top) | (sizes != large))).any(axis=1))
    rows = []
    for row in suspects.tolist():
        members = numpy.flatnonzero(there[row]).tolist()
        mine = [(int(calls[row, member]), int(sizes[row, member])) for member in members]
        if any(calls_differ(mine[0][0], call) or _sizes_differ_from_any(mine, size) for call, size in mine):
            rows.append(int(newest[row, 0]))
    return rows


def _sizes_differ_from_any(members: list[tuple[int, int]], size: int) -> bool:
    return any(sizes_differ(size, other) for _, other in members)
