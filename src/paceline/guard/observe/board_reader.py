"""Reads the boards of communicators from outside: at which sequence numbers do members call differently?

Ranks compare on the board themselves; two that write at the very same moment can both miss the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import numpy

from paceline.guard.shared_memory.board import calls_differ, sizes_differ
from paceline.guard.shared_memory.layout import BOARD_ROWS, BRIDGE_PREFIX
from paceline.guard.shared_memory.record_fields import WORD
from paceline.process.private_files import names_in

_Words = numpy.ndarray[tuple[int], numpy.dtype[numpy.uint64]]
_SEQUENCE_SHIFT = numpy.uint64(32)


def differing_positions(
    folder: Path, worlds: Iterable[str], rename: Callable[[str], str] = str
) -> list[tuple[str, int]]:
    """Return each communicator of these worlds and sequence number at which its members differ.

    `rename` gives a communicator that two jobs share one name for both. Each has a board of its own for it, on which
    the words of the others' members stay empty: so the two are put together.
    """
    positions = []
    prefixes = tuple(f"board.{world}." for world in worlds)
    halves: dict[str, _Words] = {}
    for name in names_in(folder):
        if name.startswith(prefixes):
            identity = name.removeprefix("board.")
            with suppress(FileNotFoundError):  # its communicator has just been freed
                words = numpy.fromfile(folder / name, dtype=numpy.uint64)
                if BRIDGE_PREFIX in name:
                    before = halves.setdefault(rename(identity), words)
                    halves[rename(identity)] = before | words if before.size == words.size else words
                else:
                    positions += [(identity, sequence) for sequence in differing_rows(words)]
    return positions + [(name, sequence) for name, words in halves.items() for sequence in differing_rows(words)]


def differing_rows(words: _Words) -> list[int]:
    """Return the sequence numbers on a board at which members differ."""
    num_members = words.size * WORD // (2 * BOARD_ROWS * WORD)
    if num_members == 0:
        return []
    # calls, sizes: (row, member). A row is used again after BOARD_ROWS calls, so only the members that are at the
    # row's newest sequence number are compared.
    calls = words[: BOARD_ROWS * num_members].reshape(BOARD_ROWS, num_members)
    sizes = words[BOARD_ROWS * num_members :].reshape(BOARD_ROWS, num_members)
    sequences = calls >> _SEQUENCE_SHIFT
    newest = sequences.max(axis=1, keepdims=True)
    there = (sequences == newest) & (newest > 0)
    # a quick test that most rows pass: all that are there wrote the same words
    top = numpy.where(there, calls, 0).max(axis=1, keepdims=True)
    large = numpy.where(there, sizes, 0).max(axis=1, keepdims=True)
    suspects = numpy.flatnonzero((there & ((calls != top) | (sizes != large))).any(axis=1))
    rows = []
    for row in suspects.tolist():
        members = numpy.flatnonzero(there[row]).tolist()
        written = [(int(calls[row, member]), int(sizes[row, member])) for member in members]
        if any(calls_differ(written[0][0], call) or _differs_from_any(size, written) for call, size in written):
            rows.append(int(newest[row, 0]))
    return rows


def _differs_from_any(size: int, written: list[tuple[int, int]]) -> bool:
    return any(sizes_differ(size, other) for _, other in written)
