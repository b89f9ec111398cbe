"""A ring as it travels: the parts that have changed since the last time. Bytes in, bytes out.

Of the past calls only those go along that are asked for: a reader tells a record that is missing from one that is there
by the number in it. Times are moved to the clock of the head. A rank that moves is shown as one that runs: what it was
inside when it was copied is over by the time that anybody reads of it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.record_fields import OFFSETS, RECORD_BYTES, WORD

_Bytes = numpy.ndarray[Any, numpy.dtype[numpy.uint8]]
_BLOCK = 64  # bytes that are compared, and sent, together
_PART = struct.Struct("<II")  # where, and how many bytes
_MOST_RAW = 2 * layout.RING_BYTES
_FAST = 1
_RECORDS_END = layout.RECORDS_AT + layout.NUM_SLOTS * RECORD_BYTES
_TIMES = (OFFSETS["entered_ns"] // WORD, OFFSETS["left_ns"] // WORD)


class RingImage:
    """What has been sent of one ring."""

    def __init__(self) -> None:
        self._sent = numpy.zeros(layout.RING_BYTES, dtype=numpy.uint8)

    def changes(self, content: bytes, *, shift_ns: int, is_still: bool, num_calls: int) -> bytes:
        """Return what must be sent, and take it to have been sent.

        Args:
            content: The ring now.
            shift_ns: What is added to its times.
            is_still: Whether nothing moved while it was copied, nor for a while before.
            num_calls: How many of the last calls go along.
        """
        return self._pack_new(self._prepare(content, shift_ns, is_still=is_still, num_calls=num_calls))

    def moves(self) -> bytes:
        """Return what must be sent of a rank that moves again: it runs, and nothing else is said of it."""
        image = self._sent.copy()
        _let_run(image.view(numpy.int64))
        return self._pack_new(image)

    def past(self, content: bytes, *, shift_ns: int, num_calls: int) -> bytes:
        """Return the last calls of a rank, whether it moves or not, and nothing else of its ring."""
        image = self._prepare(content, shift_ns, is_still=True, num_calls=num_calls)
        image[: layout.RECORDS_AT] = self._sent[: layout.RECORDS_AT]
        image[_RECORDS_END:] = self._sent[_RECORDS_END:]
        return self._pack_new(image)

    def _pack_new(self, image: _Bytes) -> bytes:
        blocks = (image.reshape(-1, _BLOCK) != self._sent.reshape(-1, _BLOCK)).any(axis=1)
        self._sent = image
        return pack_parts(image, numpy.flatnonzero(blocks))

    def _prepare(self, content: bytes, shift_ns: int, *, is_still: bool, num_calls: int) -> _Bytes:
        """Return the ring as the head is to have it, with what was sent before in place of calls that stay here."""
        image: _Bytes = numpy.frombuffer(content, dtype=numpy.uint8).copy()
        words = image.view(numpy.int64)
        kept = self._sent[layout.RECORDS_AT : _RECORDS_END].reshape(layout.NUM_SLOTS, RECORD_BYTES)
        records = image[layout.RECORDS_AT : _RECORDS_END].reshape(layout.NUM_SLOTS, RECORD_BYTES)
        stays = numpy.ones(layout.NUM_SLOTS, dtype=bool)
        stays[_slots(words, num_calls)] = False
        end = layout.REQUESTS_AT + layout.MAX_REQUESTS * RECORD_BYTES
        timed = image[layout.RECORDS_AT : end].view(numpy.int64).reshape(-1, RECORD_BYTES // WORD)
        for column in _TIMES:
            timed[:, column] += numpy.where(timed[:, column] != 0, shift_ns, 0)
        if words[layout.ENDED_AT]:
            words[layout.ENDED_AT] += shift_ns
        records[stays] = kept[stays]
        if not is_still:
            _let_run(words)
        return image


def _let_run(words: Any) -> None:
    """Show a rank as one that runs: no thread is inside a call, and it has not stopped."""
    threads = slice(layout.THREADS_AT, layout.THREADS_AT + layout.MAX_THREADS * layout.THREAD_WORDS)
    words[threads][:: layout.THREAD_WORDS] = 0
    words[layout.STOPPED] = 0


def _slots(words: Any, num_calls: int) -> list[int]:
    """Return the slots of the last calls, and of those that threads are inside."""
    end = int(words[layout.NUM_RECORDS])
    threads = words[layout.THREADS_AT : layout.THREADS_AT + layout.MAX_THREADS * layout.THREAD_WORDS]
    inside = [int(number) - 1 for number in threads[:: layout.THREAD_WORDS] if number]
    last = range(max(0, end - min(num_calls, layout.NUM_SLOTS - 8)), end)
    return [number % layout.NUM_SLOTS for number in (*last, *inside)]


def pack_parts(image: _Bytes, blocks: Any) -> bytes:
    """Return blocks of a ring, those that follow each other as one part, compressed."""
    if not len(blocks):
        return b""
    breaks = numpy.flatnonzero(numpy.diff(blocks) != 1) + 1
    parts = []
    for run in numpy.split(blocks, breaks):
        begin, size = int(run[0]) * _BLOCK, len(run) * _BLOCK
        parts += [_PART.pack(begin, size), image[begin : begin + size].tobytes()]
    return zlib.compress(b"".join(parts), _FAST)


def unpack_parts(packed: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield where each part goes, and the part.

    Raises:
        ValueError: It is not what `pack_parts` makes, or does not fit a ring.
    """
    if not packed:
        return
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(packed, _MOST_RAW)
    except zlib.error as error:
        raise ValueError(f"the parts of a ring cannot be read: {error}") from None
    at = 0
    while at < len(raw):
        if at + _PART.size > len(raw):
            raise ValueError("the parts of a ring are cut off")
        begin, size = _PART.unpack_from(raw, at)
        at += _PART.size
        if begin + size > layout.RING_BYTES or at + size > len(raw):
            raise ValueError("a part does not fit its ring")
        yield begin, raw[at : at + size]
        at += size
