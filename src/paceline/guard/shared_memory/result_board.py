"""The board on which the members of a communicator compare what came out of a collective: one word for each of them.

A word is the position of the call and a checksum, so it is read and written at once. The later of two members always
sees the earlier.
"""

from __future__ import annotations

from pathlib import Path

from paceline.guard.shared_memory.board import open_words
from paceline.guard.shared_memory.layout import BOARD_ROWS
from paceline.guard.shared_memory.record_fields import WORD

_LOW = 0xFFFFFFFF


class ResultBoard:
    """The board of one communicator, as one member writes and reads it."""

    __slots__ = ("_member", "_num_members", "_words")

    def __init__(self, path: Path, member: int, num_members: int) -> None:
        self._words = open_words(path, BOARD_ROWS * num_members * WORD)
        self._member, self._num_members = member, num_members

    def meet(self, sequence: int, checksum: int) -> dict[int, int]:
        """Write what came out of a call; return what is there of it, by member, this one included."""
        row = (sequence & (BOARD_ROWS - 1)) * self._num_members
        self._words[row + self._member] = (sequence & _LOW) << 32 | checksum & _LOW
        written = self._words[row : row + self._num_members].tolist()
        return {member: word & _LOW for member, word in enumerate(written) if word >> 32 == sequence & _LOW}
