"""The collectives of one rank as its host sums them up, read from its ring before later calls take their place.

A call counts once it is over: until then it may be refused, and the next one takes its position. If calls were missed,
because the ring went round between two looks, the sums begin anew after them: what lies before is not compared.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy

from paceline.guard.hosts.stretches.call_sums import RECORD, Words, are_collectives, call_words
from paceline.guard.hosts.stretches.message_sides import are_messages
from paceline.guard.hosts.stretches.stretch import Stretch, Sums
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.shared_memory import layout

_SPARE = 64  # slots that the rank may write to while they are read
MOST_HELD = 1 << 17  # positions of one communicator that wait to be told: 4 MB


@dataclass(slots=True)
class PositionSums:
    """What goes into the sums of one communicator, from the first position that was not told.

    Attributes:
        begin: That position, counted from 0; None before the first call was read.
    """

    begin: int | None = None
    # (position, sum), and (position,)
    _rows: Words = field(default_factory=lambda: numpy.zeros((256, 3), dtype=numpy.uint64))
    _is_known: Any = field(default_factory=lambda: numpy.zeros(256, dtype=bool))

    def add(self, positions: Any, rows: Words) -> None:
        """Take in calls that are over, in any order: their positions, and a row for each of what is summed up."""
        if self.begin is None:
            self.begin = int(positions.min())
        places = positions - self.begin
        self._make_room(int(places.max()) + 1)
        is_new = places >= 0
        self._rows[places[is_new]] = rows[is_new]
        self._is_known[places[is_new]] = True

    def _make_room(self, num: int) -> None:
        if num > len(self._is_known):
            more = 2 * num - len(self._is_known)
            self._rows = numpy.concatenate([self._rows, numpy.zeros((more, 3), dtype=numpy.uint64)])
            self._is_known = numpy.concatenate([self._is_known, numpy.zeros(more, dtype=bool)])

    @property
    def end(self) -> int:
        """The first position that is not over; 0 before the first call was read."""
        if self.begin is None:
            return 0
        return self.begin + int(len(self._is_known) if self._is_known.all() else self._is_known.argmin())

    @property
    def num_held(self) -> int:
        """How many positions there is room for."""
        return len(self._is_known)

    def sums(self, stretch: Stretch) -> Sums:
        """Return the sums of a stretch, all of which is held."""
        assert self.begin is not None
        part = self._rows[stretch.begin - self.begin : stretch.end - self.begin]
        return Sums(*(int(word) for word in part.sum(axis=0, dtype=numpy.uint64)))

    def drop_before(self, position: int) -> None:
        """Forget what was told."""
        if self.begin is not None and position > self.begin:
            self._rows, self._is_known = self._rows[position - self.begin :], self._is_known[position - self.begin :]
            self.begin = position


class RingSums:
    """What is summed up of one ring.

    Attributes:
        of: Collectives, by the identity of the communicator.
        messages: Records of messages, by the same.
    """

    def __init__(self) -> None:
        self.of: dict[str, PositionSums] = {}
        self.messages: dict[str, list[Any]] = {}
        self._read_to = 0  # the number of the first record that was not read
        self._open: list[int] = []  # numbers of records before it whose calls were not over
        self._open_messages: list[int] = []  # the same of messages: if one is missed, others still count

    def num_new(self, reader: RingReader) -> int:
        """Return how many calls the rank has begun since the last time."""
        return reader.word(layout.NUM_RECORDS) - self._read_to

    def read(self, reader: RingReader, identities: Collection[str]) -> None:
        """Take in what the rank has called since the last time, on some of its communicators."""
        reader.read_texts()
        for gone in (self.of.keys() | self.messages.keys()) - set(identities):
            self.of.pop(gone, None)
            self.messages.pop(gone, None)
        end = reader.word(layout.NUM_RECORDS)
        again = [*self._open, *self._open_messages]
        if end == self._read_to and not again:
            return
        begin = max(self._read_to, end - layout.NUM_SLOTS)
        numbers = numpy.array([*again, *range(begin, end)], dtype=numpy.int64)
        content = [reader.records(number, number + 1) for number in again] + [reader.records(begin, end)]
        records = numpy.frombuffer(b"".join(content), dtype=RECORD)
        oldest = reader.word(layout.NUM_RECORDS) - layout.NUM_SLOTS + _SPARE  # others may have been written meanwhile
        if min(self._read_to, *self._open, end) < oldest:
            self.begin_anew()
        records, numbers = records[numbers >= oldest], numbers[numbers >= oldest]
        is_written = records["number"].astype(numpy.int64) == numbers + 1
        is_over = is_written & (records["left_ns"] != 0)
        # what is not written is another thread's, which has taken its number and is about to write
        self._open = numbers[~is_over & (~is_written | are_collectives(records))].tolist()
        self._open_messages = numbers[~is_over & is_written & are_messages(records)].tolist()
        self._read_to = end
        self._take(reader, records[is_over], identities)

    def begin_anew(self) -> None:
        """Forget everything that was not told: calls were missed."""
        self.of.clear()
        self._open.clear()

    def _take(self, reader: RingReader, records: Any, identities: Collection[str]) -> None:
        is_collective, is_message = are_collectives(records), are_messages(records)
        for index in numpy.unique(records["communicator"][is_collective | is_message]).tolist():
            known = reader.communicators.get(index)
            if known is None or known.identity not in identities:
                continue
            is_own = (records["communicator"] == index) & (records["number"] > known.first)
            if (is_own & is_collective).any():
                own = records[is_own & is_collective]
                held = self.of.setdefault(known.identity, PositionSums())
                held.add(own["sequence"].astype(numpy.int64) - 1, call_words(own))
                if held.num_held > MOST_HELD:
                    del self.of[known.identity]
            if (is_own & is_message).any():
                self.messages.setdefault(known.identity, []).append(records[is_own & is_message])

    def take_messages(self, identity: str) -> Any:
        """Return the records of messages on a communicator that are over, and forget them."""
        parts = self.messages.pop(identity, [])
        return numpy.concatenate(parts) if parts else numpy.zeros(0, dtype=RECORD)
