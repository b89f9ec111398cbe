"""The memory that a rank's requests are using now, and what is said when something else uses it meanwhile.

Four things are noticed: two requests over the same bytes of which one writes, a blocking call that uses what a request
still writes to, memory that has changed when its request completes although nobody may write to it, and memory that the
program has given up by then, though its library does not keep it.

A call that blocks does nothing for this unless some request writes at that moment (`table.num_writing`); whoever
exchanges functions for that is told when it begins and ends (`on_writing`).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.remarks.memory_table import MemoryTable
from paceline.guard.rank.remarks.rank_remarks import RankRemarks
from paceline.guard.rank.request_slots import RequestSlots
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE, Family
from paceline.guard.shared_memory.record_fields import RECORD_BYTES, brief
from paceline.guard.shared_memory.ring import Ring

BUFFER_IN_USE = "buffer-in-use"
OVERLAPS, USED, CHANGED, DROPPED = "overlaps", "used", "changed", "dropped"  # how it is in use
_MAX_USES = 4  # by blocking calls that are remembered for one request
_USE = brief(("number", "num_bytes", "site", "operation", "flags", "peer", "source"))


_OPERATION_BITS = 16


def unposted(site: int, operation: int) -> int:
    """Return what stands for a request where there is none: for an access to a window, which a later call completes.

    >>> unposted(3, 7)
    -196615
    """
    return -(site << _OPERATION_BITS | operation)


class UsedMemory:
    """The bytes that one argument of a request stands for."""

    __slots__ = ("begin", "end", "is_told", "number", "request", "uses", "writes")

    def __init__(self, begin: int, num_bytes: int, *, writes: bool) -> None:
        self.begin, self.end, self.writes = begin, begin + num_bytes, writes
        self.number = 0  # while it is in use: its position among all that ever was
        self.request = 0  # the request that uses it, or what stands for it
        self.is_told = False
        self.uses: list[tuple[int, int]] | None = None  # by calls that block: number of the record, and bytes

    def mark(self) -> None:
        """Remember what the memory holds, or as much of it as is compared later."""

    def has_changed(self) -> bool:
        """Say whether somebody has written to the memory since then."""
        return False

    def content(self) -> int:
        """Return a number that stands for what the memory held when it was marked; 0 if that is not known."""
        return 0

    def was_dropped(self) -> bool:
        """Say whether nobody but us has kept the memory for the request."""
        return False

    def is_dense(self) -> bool:
        """Say whether all bytes from its begin to its end are used. Asked only when that matters."""
        return True


class ActiveBuffers:
    """The memory in use by the requests of one rank."""

    def __init__(self, ring: Ring, requests: RequestSlots, remarks: RankRemarks, table: MemoryTable) -> None:
        self._ring, self._requests, self._remarks, self.table = ring, requests, remarks, table
        # Requests are dropped at any moment, even while we search here: what they used waits here to be taken out.
        self.gone: deque[tuple[UsedMemory, ...]] = deque()
        self.on_writing: list[Callable[[bool], None]] = []  # told when the first request writes, and the last is over

    def begin(self, request: int, memory: tuple[UsedMemory, ...]) -> None:
        """Note that a request uses memory from now on."""
        if self.gone:
            self.take_out_gone()
        for one in memory:  # before they are added: the arguments of one call are not compared with each other
            one.request, one.is_told, one.uses = request, False, None
            if len(self.table):
                self.say_overlap(one)
        for one in memory:
            one.mark()
            one.number = self.table.add(one, one.begin, one.end, one.writes)
            if one.writes and self.table.num_writing == 1:
                self.tell_writing(True)

    def end(self, memory: tuple[UsedMemory, ...]) -> None:
        """Note that the request has completed: compare, and say what is wrong."""
        for one in memory:
            if self._take_out(one):
                self.say_uses(one)

    def note_use(self, begin: int, num_bytes: int) -> None:
        """Note that a call which is about to be recorded uses memory. Only asked while some request writes."""
        if self.gone:
            self.take_out_gone()
        for other in self.table.overlapping(begin, begin + num_bytes):
            if other.writes and len(other.uses or ()) < _MAX_USES:
                other.uses = [*(other.uses or ()), (self._ring.words[layout.NUM_RECORDS], num_bytes)]

    def tell_writing(self, on: bool) -> None:
        """Tell those who want to know that the first request writes, or that the last one is over."""
        for tell in self.on_writing:
            tell(on)

    def _take_out(self, one: UsedMemory) -> bool:
        was_there = self.table.remove(one, one.begin, one.number)
        if was_there and one.writes and not self.table.num_writing:
            self.tell_writing(False)
        return was_there

    def take_out_gone(self) -> None:
        """Take out what dropped requests have used."""
        while self.gone:
            for one in self.gone.popleft():
                self._take_out(one)

    # what is said

    def say_uses(self, one: UsedMemory) -> None:
        """Say what is wrong with memory whose request has just completed."""
        for use in one.uses or ():
            self._say_use(one, use)
        if not one.is_told and one.was_dropped():
            self._say_until_now(DROPPED, one)
        elif not one.is_told and one.has_changed():
            self._say_until_now(CHANGED, one)

    def say_overlap(self, one: UsedMemory) -> None:
        """Say with which memory in use this shares bytes, if one of both is written to."""
        for other in self.table.overlapping(one.begin, one.end):
            if (one.writes or other.writes) and not one.is_told and one.is_dense() and other.is_dense():
                one.is_told = other.is_told = True
                self._say(OVERLAPS, self._origin(one.request), self._origin(other.request))

    def _say_use(self, one: UsedMemory, use: tuple[int, int]) -> None:
        """Say that a call used what a request wrote to, if the record shows that it did: one with nobody does not."""
        found = self._record(use[0])
        if found is None or not one.is_dense():
            return
        num_bytes, site, operation, flags, peers = found
        family = BY_CODE[operation].family if operation in BY_CODE else Family.WAIT
        is_message = family in (Family.SEND, Family.RECEIVE, Family.EXCHANGE)
        if num_bytes != use[1] or flags & layout.NONBLOCKING or (is_message and layout.NOBODY in peers):
            return  # one that does not block was compared when it was posted
        if is_message or family is Family.COLLECTIVE:
            one.is_told = True
            self._say(USED, (site, operation), self._origin(one.request))

    def _origin(self, request: int) -> tuple[int, int]:
        """Return the site and the operation of what uses memory."""
        return divmod(-request, 1 << _OPERATION_BITS) if request < 0 else self._requests.origin(request)

    def _say_until_now(self, how: str, one: UsedMemory) -> None:
        found = self._record(self._ring.words[layout.NUM_RECORDS] - 1)
        until = (0, 0)
        if found is not None and found[2] in BY_CODE and BY_CODE[found[2]].family is Family.WAIT:
            until = (found[1], found[2])
        self._say(how, self._origin(one.request), until)

    def _record(self, number: int) -> tuple[int, int, int, int, tuple[int, int]] | None:
        """Return bytes, site, operation, flags and peers of a record; None if it is not there any more."""
        begin = layout.RECORDS_AT + (number & (layout.NUM_SLOTS - 1)) * RECORD_BYTES
        try:
            found, num_bytes, site, operation, flags, peer, source = _USE.unpack_from(self._ring.bytes, begin)
        except struct.error:
            return None
        return (num_bytes, site, operation, flags, (peer, source)) if found == number + 1 else None

    def _say(self, how: str, first: tuple[int, int], second: tuple[int, int]) -> None:
        """Say it, unless a library made one of the calls, which may know better what it does."""
        site, operation = first
        other_site, other = second
        if not self._remarks.is_direct(site) or (other_site and not self._remarks.is_direct(other_site)):
            return
        facts: dict[str, Any] = {"other_at": other_site, "other": _name(other)} if other_site else {}
        self._remarks.note(BUFFER_IN_USE, site, _name(operation), how, **facts)


def _name(operation: int) -> str:
    known = BY_CODE.get(operation)
    return known.name if known is not None else ""
