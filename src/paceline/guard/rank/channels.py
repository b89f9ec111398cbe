"""The messages of a rank: how many it has sent and received by peer and tag, and whether both sides of one fit."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import MessageBoard, message_fits, message_key
from paceline.guard.shared_memory.layout import ANY, RECEIVED, SENT
from paceline.guard.shared_memory.record_fields import RECORD_BYTES, WORD
from paceline.guard.shared_memory.ring import Ring


def expected_key(peer: int, tag: int) -> int:
    """Return the key of a communicator's table of posted receives: one number is found sooner than a pair."""
    return (peer << 32) + tag


_EXPECTED_OF_ANYBODY = expected_key(ANY, ANY)


class MessageCounts:
    """What one rank has sent and received. It calls `stop(record, reason, rank)` if a message does not fit.

    The n-th message between two ranks with one tag is the n-th on both sides, because MPI and gloo keep their order.
    So both sides can compare it by its number, which is 0 wherever it is not certain.
    """

    def __init__(self, ring: Ring, path: Callable[[str, str], Path], stop: Callable[[int, int, int], None]) -> None:
        self._ring, self._path, self._stop = ring, path, stop
        self._channels: dict[tuple[int, int, int, int], int] = {}  # communicator, direction, peer, tag -> word

    def forget(self, communicator: int) -> None:
        """Count from zero again: another communicator gets this number."""
        for key, word in self._channels.items():
            if key[0] == communicator:
                self._ring.words[word] = 0

    def channel(
        self, communicator: int, direction: int, peer: int, tag: int, *, most: int = layout.MAX_CHANNELS,
        lost: int = layout.LOST_CHANNELS,
    ) -> int:  # fmt: skip
        """Return the word that counts messages of this kind, or 0 if there is no room for it."""
        key = (communicator, direction, peer, tag)
        word = self._channels.get(key)
        if word is not None:
            return word
        index = len(self._channels)
        if index >= most:
            self._ring.lose(lost)
            return 0
        begin = layout.CHANNELS_AT + index * layout.CHANNEL_BYTES
        layout.CHANNEL.pack_into(self._ring.bytes, begin, communicator, direction, peer, tag, 0, 0, 0)
        word = (begin + layout.CHANNEL_COUNT_OFFSET) // WORD
        self._channels[key] = word
        self._ring.words[layout.NUM_CHANNELS] = index + 1
        return word

    def count(self, communicator: Communicator, direction: int, peer: int, tag: int) -> int:
        """Count a message sent to or received from a peer; return how many there are now, or 0 if not known."""
        word = self.channel(communicator.index, direction, peer, tag)
        if not word:
            return 0
        self._ring.words[word] += 1
        return self._ring.words[word]

    def take_back(self, communicator: Communicator, peer: int, tag: int) -> None:
        """Count a message less: the library refused to send it."""
        word = self._channels.get((communicator.index, SENT, peer, tag))
        if word:
            self._ring.words[word] -= 1

    def change(self, communicator: Communicator, direction: int, peer: int, tag: int, by: int) -> None:
        """Count what is not a message: tokens of a window, which grow, and locks, which are given back."""
        most, lost = layout.MAX_CHANNELS // 2, layout.LOST_WINDOWS  # the rest is for messages
        word = self.channel(communicator.index, direction, peer, tag, most=most, lost=lost)
        if word:
            self._ring.words[word] = max(0, self._ring.words[word] + by)

    def num(self, communicator: Communicator, direction: int, peer: int, tag: int) -> int:
        """Return how many messages were counted in this direction with this peer and tag."""
        word = self._channels.get((communicator.index, direction, peer, tag))
        return 0 if word is None else self._ring.words[word]

    def expect(self, communicator: Communicator, peer: int, tag: int, change: int) -> None:
        """Count a receive that was posted (change 1), or one that has completed (change -1)."""
        key = _EXPECTED_OF_ANYBODY if ANY in (peer, tag) else expected_key(peer, tag)
        num = communicator.expected.get(key, 0) + change
        if num:
            communicator.expected[key] = num
        else:  # tags may be new in every step: nothing is kept of those that are over
            communicator.expected.pop(key, None)

    def next_receive(self, communicator: Communicator, peer: int, tag: int) -> int:
        """Return which message from the peer the next receive takes; 0 if that is not certain."""
        # A receive from anybody takes a message that nobody can tell before it completes.
        expected = communicator.expected
        if peer < 0 or tag < 0 or (expected and expected.get(_EXPECTED_OF_ANYBODY)):
            return 0
        waiting = expected.get(expected_key(peer, tag), 0) if expected else 0
        return self.num(communicator, RECEIVED, peer, tag) + waiting + 1

    def message_board(self, communicator: Communicator) -> MessageBoard | None:
        """Return the board of a communicator's messages; None if there is no room for one."""
        if communicator.messages is None and not self._ring.words[layout.LOST] & layout.LOST_BOARDS:
            try:
                communicator.messages = MessageBoard(self._path("messages", communicator.identity))
            except OSError:
                self._ring.lose(layout.LOST_BOARDS)
        return communicator.messages

    def _key(self, communicator: Communicator, direction: int, peer: int, tag: int, number: int) -> int:
        source, destination = (communicator.member, peer) if direction == SENT else (peer, communicator.member)
        return message_key(source, destination, tag, number, 0)

    def meet(
        self, record: int, communicator: Communicator, direction: int, peer: int, tag: int, number: int, size: int
    ) -> None:
        """Show one side of the n-th message on the board; stop if the other side is there and does not fit."""
        if number and peer >= 0 and tag >= 0:
            key = self._key(communicator, direction, peer, tag, number)
            board = self.message_board(communicator)
            if board is not None and board.meet(key, size, sends=direction == SENT) >= 0:
                self._stop(record, layout.STOP_MESSAGE, communicator.ranks[peer])

    def withdraw(self, communicator: Communicator, peer: int, tag: int, number: int) -> None:
        """Take back from the board what a receive that was cancelled has shown."""
        board = self.message_board(communicator)
        if number and board is not None:
            board.withdraw(self._key(communicator, RECEIVED, peer, tag, number))

    def check(self, record: int, communicator: Communicator, peer: int, tag: int, number: int, size: int) -> None:
        """Compare a finished receive with what was sent; stop if it did not fit."""
        if number and 0 <= peer < len(communicator.ranks):
            board = self.message_board(communicator)
            sent = board.sent(self._key(communicator, RECEIVED, peer, tag, number)) if board is not None else -1
            if sent >= 0 and not message_fits(sent, size) and self._is_in_ring(record):
                self._stop(record, layout.STOP_MESSAGE, communicator.ranks[peer])

    def _is_in_ring(self, record: int) -> bool:
        """Say whether a record is still there: the judge could not read one whose slot a later record has taken."""
        begin = layout.RECORDS_AT + (record & (layout.NUM_SLOTS - 1)) * RECORD_BYTES
        return bool(struct.unpack_from("<Q", self._ring.bytes, begin)[0] == record + 1)
