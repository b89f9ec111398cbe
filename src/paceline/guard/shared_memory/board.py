"""Boards in shared memory on which ranks see each other before a call runs. The later of two always sees the earlier.

A communicator has one board for collectives: a row per position, one pair of words per member of this machine. Members
elsewhere have no place on it, so it stays small in the largest job: a member takes a column when it opens the board.
What a member is about to call is packed into the pair without loss, so there are no chance collisions. Messages have a
board too: a cell for the n-th message between two ranks with one tag, written by both sides.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import time
from pathlib import Path

from paceline.guard.shared_memory.layout import BOARD_ROWS, NOTHING, UNKNOWN_BYTES
from paceline.guard.shared_memory.operations import UNKNOWN_REDUCTION
from paceline.guard.shared_memory.record_fields import WORD
from paceline.process.private_files import open_private

MESSAGE_CELLS = 4096  # a power of two
_CELL_WORDS = 2
_MASK = (1 << 64) - 1
_REDUCTION_MASK = 0xFF
# what a call is packed into, from the lowest bit: reduction, root, operation, whether the member has withdrawn a call
# there, and its place among those of its row
ROOT_SHIFT, OPERATION_SHIFT, WITHDREW_SHIFT, PLACE_SHIFT = 8, 31, 40, 41
_ROOT_MASK = (1 << OPERATION_SHIFT - ROOT_SHIFT) - 1
_NUM_PLACES = (1 << 64 - PLACE_SHIFT) - 1
# What a member calls where it has withdrawn a call, if anything, is compared by the judge alone: others that have
# posted the same call may be about to withdraw theirs.
WITHDREW = 1 << WITHDREW_SHIFT
OPERATION_BITS = (1 << WITHDREW_SHIFT) - (1 << OPERATION_SHIFT)
_NO_ROOT = 0  # as it is packed: on the root's side of an intercommunicator others do not know it
_ROW_MASK = BOARD_ROWS - 1  # there is a power of two of them
MOST_COLUMNS = 1024  # members of one machine
# words at the beginning: how many columns there are, how many are taken, and then who has taken each: its number + 1
COLUMNS, NUM_TAKEN, TAKEN_AT = 0, 1, 2
_LOCK_TRIES, _LOCK_SECONDS = 1000, 0.001


def pack_call(operation: int, root: int, reduction: int) -> int:
    """Pack what must be equal on all members into 9, 23 and 8 bits; the board puts the place above them.

    >>> pack_call(7, 40_000, 0) == pack_call(7, 40_000 - (1 << 15), 0)
    False
    """
    return operation << OPERATION_SHIFT | (root + 1 & _ROOT_MASK) << ROOT_SHIFT | reduction


def place_of(sequence: int) -> int:
    """Return what tells the calls of one row apart; never 0, since that is what a column holds at first.

    >>> place_of(1), place_of(1 + BOARD_ROWS)
    (1, 2)
    """
    return sequence // BOARD_ROWS % _NUM_PLACES + 1


def sequence_at(row: int, place: int) -> int:
    """Return the sequence number that has this row and this place.

    >>> all(sequence_at(number % BOARD_ROWS, place_of(number)) == number for number in (1, 63, 64, 1000))
    True
    """
    return (place - 1) * BOARD_ROWS + row


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
    mine, other = mine & ~WITHDREW, other & ~WITHDREW
    if mine == other or mine >> PLACE_SHIFT != other >> PLACE_SHIFT or is_nothing(mine) or is_nothing(other):
        return False
    if mine >> OPERATION_SHIFT != other >> OPERATION_SHIFT:
        return True  # another operation
    roots = mine >> ROOT_SHIFT & _ROOT_MASK, other >> ROOT_SHIFT & _ROOT_MASK
    reductions = mine & _REDUCTION_MASK, other & _REDUCTION_MASK
    roots_differ = roots[0] != roots[1] and _NO_ROOT not in roots
    return roots_differ or (reductions[0] != reductions[1] and UNKNOWN_REDUCTION not in reductions)


def is_nothing(call: int) -> bool:
    """Say whether a word stands for a call that was withdrawn, and none that came after it."""
    return not call & OPERATION_BITS


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
        return _map_words(descriptor, num_bytes)
    finally:
        os.close(descriptor)


def _map_words(descriptor: int, num_bytes: int) -> memoryview:
    os.posix_fallocate(descriptor, 0, num_bytes)  # a full disk is an error here, and a SIGBUS later
    return memoryview(mmap.mmap(descriptor, num_bytes)).cast("Q")


class Board:
    """The board of one communicator, as one member writes and reads it.

    Raises:
        OSError: There is no space for it, or no column is left.
    """

    __slots__ = ("_calls", "_num_columns", "_sizes", "column", "words")

    def __init__(self, path: Path, member: int, num_members: int) -> None:
        descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            self.words = _map_words(descriptor, board_bytes(num_members))
            self._num_columns = min(num_members, MOST_COLUMNS)
            self.column = _take_column(descriptor, self.words, member, self._num_columns)
        finally:
            os.close(descriptor)
        begin, half = TAKEN_AT + self._num_columns, BOARD_ROWS * self._num_columns
        self._calls, self._sizes = self.words[begin : begin + half], self.words[begin + half :]

    def meet(self, sequence: int, call: int, size: int) -> int:
        """Write what this member is about to call; return a member that calls differently, or -1."""
        calls, sizes, column, words = self._calls, self._sizes, self.column, self.words
        row = (sequence & _ROW_MASK) * self._num_columns
        call |= place_of(sequence) << PLACE_SHIFT
        place = call >> PLACE_SHIFT
        if calls[row + column] >> PLACE_SHIFT == place:
            call |= WITHDREW
        sizes[row + column] = size
        calls[row + column] = call
        num = words[NUM_TAKEN]  # after the call was written: who takes a column later sees it
        for other, theirs in enumerate(calls[row : row + num].tolist()):
            if (
                theirs >> PLACE_SHIFT == place
                and other != column
                and (calls_differ(call, theirs) or sizes_differ(size, sizes[row + other]))
                and not (call | theirs) & WITHDREW
            ):
                return words[TAKEN_AT + other] - 1
        return -1

    def withdraw(self, sequence: int) -> None:
        """Write that this member has taken its call at a position back."""
        at = (sequence & _ROW_MASK) * self._num_columns + self.column
        self._calls[at] = place_of(sequence) << PLACE_SHIFT | WITHDREW


def board_bytes(num_members: int) -> int:
    """Return the size of the board of a communicator.

    >>> board_bytes(100_000) == board_bytes(MOST_COLUMNS), board_bytes(MOST_COLUMNS) >> 20
    (True, 1)
    """
    num_columns = min(num_members, MOST_COLUMNS)
    return (TAKEN_AT + num_columns + 2 * BOARD_ROWS * num_columns) * WORD


def _take_column(descriptor: int, words: memoryview, member: int, num_columns: int) -> int:
    """Return the column of a member, taken now if it has none. Nobody holds the lock for longer than that takes."""
    _lock(descriptor)
    try:
        num = words[NUM_TAKEN]
        taken = words[TAKEN_AT : TAKEN_AT + num].tolist()
        if member + 1 in taken:
            return taken.index(member + 1)
        if num >= num_columns:
            raise OSError(errno.ENOSPC, "a board has no column left")
        words[COLUMNS] = num_columns
        words[TAKEN_AT + num] = member + 1
        words[NUM_TAKEN] = num + 1
        return num
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # not by closing it: the map keeps the file open


def _lock(descriptor: int) -> None:
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_SECONDS)
        else:
            return
    raise OSError(errno.EWOULDBLOCK, "somebody holds the lock of a board")


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
