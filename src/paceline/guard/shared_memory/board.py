"""Boards in shared memory on which ranks see each other before a call runs. The later of two always sees the earlier.

A communicator has one board for collectives: a row per position, one pair of words per member. What a member is about
to call is packed into the pair without loss, so there are no chance collisions. Messages have a board too: a cell
for the n-th message between two ranks with one tag, written by both sides.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from paceline.guard.shared_memory.layout import BOARD_ROWS, NOTHING, UNKNOWN_BYTES
from paceline.guard.shared_memory.operations import UNKNOWN_REDUCTION
from paceline.guard.shared_memory.record_fields import WORD
from paceline.process.private_files import open_private

MESSAGE_CELLS = 4096  # a power of two
_CELL_WORDS = 2
_MASK = (1 << 64) - 1
_REDUCTION_MASK = 0xFF
_ROOT_MASK = 0x7FFF
_NO_ROOT = 0  # as it is packed: on the root's side of an intercommunicator others do not know it
_ROW_MASK = BOARD_ROWS - 1  # there is a power of two of them


def pack_call(operation: int, root: int, reduction: int) -> int:
    """Pack what must be equal on all members into 9, 15 and 8 bits; the board puts the position above them."""
    return operation << 23 | (root + 1 & _ROOT_MASK) << 8 | reduction


def pack_size(dtype: int, num_bytes: int) -> int:
    """Pack the element type and the size in bytes; an unknown one fits any other. Nothing at all has no type.

    >>> pack_size(12, 0) == pack_size(13, 0)
    True
    """
    if num_bytes == 0:
        return 0
    return dtype << 56 | (UNKNOWN_BYTES if num_bytes < 0 else min(num_bytes, UNKNOWN_BYTES - 1))


def calls_differ(mine: int, other: int) -> bool:
    """Say whether two members at the same position call differently; other positions do not count.

    >>> broadcasts = [pack_call(2, root, 0) for root in (0, 1, NOTHING)]
    >>> calls_differ(broadcasts[0], broadcasts[1]), calls_differ(broadcasts[0], broadcasts[2])
    (True, False)
    """
    if mine == other or mine >> 32 != other >> 32:
        return False
    if mine >> 23 != other >> 23:
        return True  # another operation
    roots = mine >> 8 & _ROOT_MASK, other >> 8 & _ROOT_MASK
    reductions = mine & _REDUCTION_MASK, other & _REDUCTION_MASK
    roots_differ = roots[0] != roots[1] and _NO_ROOT not in roots
    return roots_differ or (reductions[0] != reductions[1] and UNKNOWN_REDUCTION not in reductions)


def sizes_differ(mine: int, other: int) -> bool:
    """Say whether element type or size differ where both are known.

    >>> sizes_differ(pack_size(12, 32), pack_size(13, 32)), sizes_differ(pack_size(0, 32), pack_size(13, 32))
    (True, False)
    """
    if mine == other:
        return False
    if mine >> 56 and other >> 56 and mine >> 56 != other >> 56:
        return True
    mine &= UNKNOWN_BYTES
    other &= UNKNOWN_BYTES
    return mine != other and UNKNOWN_BYTES not in (mine, other)


def message_fits(sent: int, received: int) -> bool:
    """Say whether a message of this type and size goes into that receive; a shorter message does."""
    if sent >> 56 and received >> 56 and sent >> 56 != received >> 56:
        return False
    sent &= UNKNOWN_BYTES
    received &= UNKNOWN_BYTES
    return UNKNOWN_BYTES in (sent, received) or sent <= received


def open_words(path: Path, num_bytes: int) -> memoryview:
    """Map a shared file that all ranks of this machine write to, with its space reserved."""
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        os.posix_fallocate(descriptor, 0, num_bytes)  # a full disk is an error here, and a SIGBUS later
        return memoryview(mmap.mmap(descriptor, num_bytes)).cast("Q")
    finally:
        os.close(descriptor)


class Board:
    """The board of one communicator, as one member writes and reads it."""

    __slots__ = ("_calls", "_member", "_num_members", "_sizes", "words")

    def __init__(self, path: Path, member: int, num_members: int) -> None:
        self.words = open_words(path, board_bytes(num_members))
        half = BOARD_ROWS * num_members
        self._calls, self._sizes = self.words[:half], self.words[half:]
        self._member, self._num_members = member, num_members

    def meet(self, sequence: int, call: int, size: int) -> int:
        """Write what this member is about to call; return a member that calls differently, or -1."""
        calls, sizes, num, member = self._calls, self._sizes, self._num_members, self._member
        row = (sequence & _ROW_MASK) * num
        sizes[row + member] = size
        call |= (sequence & 0xFFFFFFFF) << 32
        calls[row + member] = call
        place = call >> 32
        if num == 2:
            other = 1 - member
            theirs = calls[row + other]
            if theirs >> 32 != place or not (calls_differ(call, theirs) or sizes_differ(size, sizes[row + other])):
                return -1
            return other
        for other, theirs in enumerate(calls[row : row + num].tolist()):
            if theirs >> 32 == place and (calls_differ(call, theirs) or sizes_differ(size, sizes[row + other])):
                return other
        return -1


def board_bytes(num_members: int) -> int:
    """Return the size of the board of a communicator."""
    return 2 * BOARD_ROWS * num_members * WORD


class MessageBoard:
    """Sizes and types of messages under way, by who sends to whom with which tag for the n-th time."""

    __slots__ = ("_received", "_sent", "words")

    def __init__(self, path: Path) -> None:
        self.words = open_words(path, 2 * MESSAGE_CELLS * _CELL_WORDS * WORD)
        half = MESSAGE_CELLS * _CELL_WORDS
        self._sent, self._received = self.words[:half], self.words[half:]

    def meet(self, key: int, size: int, *, sends: bool) -> int:
        """Write one side of a message; return the other side's size if it does not fit, or -1."""
        own, other = (self._sent, self._received) if sends else (self._received, self._sent)
        cell = (key & (MESSAGE_CELLS - 1)) * _CELL_WORDS
        own[cell + 1] = size
        own[cell] = key
        if other[cell] != key:
            return -1
        theirs = other[cell + 1]
        fits = message_fits(size, theirs) if sends else message_fits(theirs, size)
        return -1 if fits else theirs

    def withdraw(self, key: int) -> None:
        """Take back a receive that was cancelled."""
        cell = (key & (MESSAGE_CELLS - 1)) * _CELL_WORDS
        if self._received[cell] == key:
            self._received[cell] = 0

    def sent(self, key: int) -> int:
        """Return the size the sender wrote, or -1 if it is not there (any more)."""
        cell = (key & (MESSAGE_CELLS - 1)) * _CELL_WORDS
        return self._sent[cell + 1] if self._sent[cell] == key else -1


def message_key(source: int, destination: int, tag: int, number: int, communicator: int) -> int:
    """Mix the coordinates of a message into one word; the same on both sides."""
    value = communicator
    for part in (source, destination, tag - NOTHING, number):
        value = (value ^ part) * 0x9E3779B97F4A7C15 & _MASK
        value ^= value >> 29
    return value or 1
