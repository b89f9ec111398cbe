"""When two ranks of a large job are in the same state: a number that is equal if they are. Reads rings alone.

Only ranks that wait in collectives, or have ended well, are told of by such a number. What it is made of: the calls
that threads are inside, with lines and arguments; how far the rank has come on each of its communicators; and what it
called last. Ranks with messages, requests or windows are told of by their rings.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy

from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import Family, Needs
from paceline.guard.shared_memory.record_fields import array_fields
from paceline.guard.verdict.snapshot import Call, Waiting

MOVES = 0  # stands for any state
_PAST = 16  # calls of the past that must be equal too
_RECORD: numpy.dtype[Any] = numpy.dtype(array_fields())  # type: ignore[call-overload]
_COMPARED = ["sequence", "at_site", "root", "site", "communicator", "operation", "dtype", "reduction"]


def state_digest(reader: RingReader, *, has_ended: bool) -> int | None:
    """Return a number for the state of a rank that stands still or has ended well; None if only its ring can tell."""
    reader.read_texts()
    words = [reader.word(word) for word in (layout.LOST, layout.STOPPED, layout.NUM_CHANNELS, layout.NUM_UNCERTAIN)]
    if any(words) or reader.posted():
        return None
    threads = () if has_ended else reader.threads()
    if not has_ended and not all(thread is not None and _is_plain(thread) for thread in threads):
        return None
    # of other communicators the positions alone, in the order in which the rank has come to know them: ranks of a
    # regular job differ in which groups they are in, and not in how far they have come in the n-th of them
    state = (
        has_ended, [_call_key(thread.call) for thread in threads if thread is not None],
        list(reader.positions().values()), len(reader.freed()), reader.word(layout.ENQUEUES), reader.texts,
    )  # fmt: skip
    digest = hashlib.blake2b(repr(state).encode() + _past(reader), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1 or 1


def _is_plain(waiting: Waiting) -> bool:
    call = waiting.call
    return call.family is Family.COLLECTIVE and call.traits.needs is not Needs.NEIGHBOURS


def _call_key(call: Call) -> tuple[object, ...]:
    return (
        call.operation, call.communicator, call.sequence, call.site, call.callers, call.library, call.root,
        call.reduction, call.dtype, call.num_bytes, call.count, call.members_hash, call.flags,
    )  # fmt: skip


def _past(reader: RingReader) -> bytes:
    """Return what the last calls were, without their times."""
    end = reader.word(layout.NUM_RECORDS)
    records = numpy.frombuffer(reader.records(max(0, end - _PAST), end), dtype=_RECORD)
    return b"".join(numpy.ascontiguousarray(records[name]).tobytes() for name in _COMPARED)
