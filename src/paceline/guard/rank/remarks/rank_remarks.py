"""Remarks: what a rank says of its own calls at one line, for the judge to make warnings of.

A remark is a short text in the ring, written when something happens for the first time at a line, and again each time
the count has doubled: so their number is bounded. The rule that reads it is a file in guard/verdict/warnings/.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from paceline.guard.rank.call_sites import Sites
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE
from paceline.guard.shared_memory.ring import Ring

REQUEST_NEVER_COMPLETED, HANDLE_LEAK = "request-never-completed", "handle-leak"
_MAX_TEXTS = 300
_RESERVE = 32_768  # bytes that are kept for what matters more: communicators, and how the rank ends
_MAX_ORPHANS = 64
UNFREED = "unfreed"  # said of a persistent request that is complete and was not freed
_MANY_UNFREED = 1000  # of one line, before a rank speaks of a leak


class DroppedRequest:
    """A request that is under way and that no object stands for any more."""

    __slots__ = ("handle", "how", "is_users", "operation", "site")

    def __init__(
        self, *, site: int, operation: int, handle: int = 0, is_users: bool = False, how: str = "dropped"
    ) -> None:
        self.site, self.operation, self.handle, self.is_users, self.how = site, operation, handle, is_users, how


class RankRemarks:
    """What one rank has to say."""

    def __init__(self, ring: Ring, sites: Sites) -> None:
        self._ring, self._sites = ring, sites
        self._counts: dict[tuple[str, int, str, str], int] = {}
        self._told: dict[tuple[str, int, str, str], int] = {}
        self._num_texts = 0
        self._num_unfreed: dict[int, int] = {}  # persistent requests, by site
        # Objects are dropped at any moment, even while a text is written: what is to be said of them waits here.
        self.dropped: deque[DroppedRequest] = deque()
        self.on_start: list[Callable[[], None]] = []  # asked before a message goes of which there is no record
        self._orphans: list[DroppedRequest] = []  # those that a copy of the object may still complete
        self._left: dict[str, Callable[[], Iterable[DroppedRequest]]] = {}  # by carrier

    def site_of(self, frame: FrameType) -> int:
        """Return the number of the site of a call made in this frame."""
        return self._sites.number(frame)

    def is_of_user(self, frame: FrameType) -> bool:
        """Say whether a frame is the user's own."""
        return not self._sites.is_of_library(frame.f_code)

    def is_direct(self, site: int) -> bool:
        """Say whether the user's own code makes the call of a site, and no library does it for the user."""
        return site in self._sites.direct

    def note(self, about: str, site: int, what: str, how: str = "", *, num: int = 1, **facts: Any) -> None:
        """Say that something happened at a site once more, or `num` times more."""
        key = (about, site, what, how)
        self.tell(about, site, what, how, count=self._counts.get(key, 0) + num, **facts)

    def tell(self, about: str, site: int, what: str, how: str = "", *, count: int, **facts: Any) -> None:
        """Say how often something has happened at a site. It is written if the count has doubled since."""
        key = (about, site, what, how)
        self._counts[key] = count
        if count >= 2 * self._told.get(key, 0):
            self._write(key, facts)

    def _write(self, key: tuple[str, int, str, str], facts: dict[str, Any]) -> None:
        if self._num_texts >= _MAX_TEXTS:
            return
        about, site, what, how = key
        count = self._counts[key]
        text = {"remark": about, "at": site, "what": what, "how": how, "count": count, **facts}
        if self._ring.write_text(text, reserve=_RESERVE):
            self._num_texts += 1
            self._told[key] = count

    def doubt_message(self) -> None:
        """Say that it is not known of a message whether it was sent or received."""
        self._ring.words[layout.NUM_UNCERTAIN] += 1

    # requests

    def ask_at_end(self, carrier: str, left: Callable[[], Iterable[DroppedRequest]]) -> None:
        """Ask at the end which requests of a carrier are under way and have not been waited for."""
        self._left[carrier] = left

    def speak(self) -> None:
        """Note that this rank tells another something, by a message of which there is no record."""
        for note in self.on_start:
            note()

    def say_dropped(self) -> None:
        """Say which requests were dropped. Those of MPI may have been copied: a wait for the copy takes it back."""
        while self.dropped:
            request = self.dropped.popleft()
            if request.handle:
                self._orphans.append(request)
            else:
                self._say(request)
        while len(self._orphans) > _MAX_ORPHANS:
            self._say(self._orphans.pop(0))

    def find_again(self, handle: int) -> None:
        """Take back what was to be said of requests that somebody still has by another object."""
        if self.dropped or self._orphans:
            self.say_dropped()
            self._orphans = [request for request in self._orphans if request.handle != handle]

    def _say(self, request: DroppedRequest) -> None:
        if request.how == UNFREED:
            num = self._num_unfreed[request.site] = self._num_unfreed.get(request.site, 0) + 1
            if num >= _MANY_UNFREED:
                self.tell(HANDLE_LEAK, request.site, "request", count=num, dropped=num)
            return
        # A library that makes a request for the user may complete it in ways of its own.
        if request.site and (request.is_users or request.site in self._sites.direct):
            operation = BY_CODE.get(request.operation)
            name = operation.name if operation is not None else ""
            self.note(REQUEST_NEVER_COMPLETED, request.site, name, request.how)

    def finish(self, *carriers: str) -> None:
        """Say what is left at the end of carriers, or of all, with the numbers as they are then."""
        self.say_dropped()
        for carrier, left in self._left.items():
            if carrier in carriers or not carriers:
                for request in left():
                    self._say(request)
        for request in self._orphans:
            self._say(request)
        self._orphans = []
        for key, count in list(self._counts.items()):
            if count != self._told.get(key) and key[0] == REQUEST_NEVER_COMPLETED:
                self._write(key, {})
