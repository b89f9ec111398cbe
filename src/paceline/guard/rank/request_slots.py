"""The requests of a rank that are under way.

The ring of records is overwritten in turn; the record of a request is kept aside until somebody has waited for it.
"""

from __future__ import annotations

import time

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.record_fields import OFFSETS, RECORD_BYTES, WORD, brief
from paceline.guard.shared_memory.ring import Ring

NO_REQUEST = 0
_ORIGIN = brief(("site", "operation"))


class RequestSlots:
    """The requests of one rank, by number."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self.free_numbers = list(range(layout.MAX_REQUESTS - 1, 0, -1))

    def take(self) -> int:
        """Return the number of a request that is about to be posted; 0 if there is no room."""
        try:
            return self.free_numbers.pop()
        except IndexError:
            self._ring.lose(layout.LOST_REQUESTS)
            return NO_REQUEST

    def keep(self, request: int, record: int) -> None:
        """Copy the record of a posted request to where later records do not overwrite it."""
        if request:
            begin = layout.RECORDS_AT + (record & (layout.NUM_SLOTS - 1)) * RECORD_BYTES
            kept = layout.REQUESTS_AT + request * RECORD_BYTES
            self._ring.bytes[kept : kept + RECORD_BYTES] = self._ring.bytes[begin : begin + RECORD_BYTES]

    def origin(self, request: int) -> tuple[int, int]:
        """Return the site and the operation of a kept request; zeros if there was no room for it."""
        if not request:
            return 0, 0
        kept = layout.REQUESTS_AT + request * RECORD_BYTES
        site, operation = _ORIGIN.unpack_from(self._ring.bytes, kept)
        return site, operation

    def activate(self, request: int, *, posted: bool) -> None:
        """Say whether a kept request is under way: a persistent one is not before it is started."""
        if request:
            kept = layout.REQUESTS_AT + request * RECORD_BYTES
            self._ring.words[(kept + OFFSETS["left_ns"]) // WORD] = 0 if posted else time.monotonic_ns()

    def free(self, request: int) -> None:
        """Say that a request is complete or gone."""
        if request:
            self._ring.words[(layout.REQUESTS_AT + request * RECORD_BYTES) // WORD] = 0
            self.free_numbers.append(request)
