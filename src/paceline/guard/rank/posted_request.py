"""A request that a rank has posted: which call posted it, and what is to be counted when it completes."""

from __future__ import annotations

import sys
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory.layout import ANY, RECEIVED, SENT

ExpectedMessage = tuple[Communicator, int, int, int, int]  # communicator, peer, tag, n-th (0: not known), packed size
PersistentMessage = tuple[Communicator, int, int, int]  # communicator, direction, peer, tag


class PostedRequest:
    """What is known of a request that was posted.

    A forked child has its parent's requests but must not write to the parent's ring: every method looks whether the
    recorder is still that of this process.
    """

    __slots__ = ("on_start", "receives", "record", "recorder", "request")

    def __init__(self, recorder: Recorder, request: int, record: int) -> None:
        self.recorder, self.request, self.record = recorder, request, record
        self.receives: ExpectedMessage | None = None  # what a receive takes when it completes
        self.on_start: PersistentMessage | None = None  # what a persistent request sends or receives at each start

    def complete(self, status: Any) -> None:
        """Note that the request has completed."""
        if self.recorder is not SESSION.recorder:
            return
        if self.receives is not None:
            self._count_received(self.receives, status)
        if self.on_start is not None:
            self.recorder.requests.activate(self.request, posted=False)
        else:
            self.release()

    def _count_received(self, receives: ExpectedMessage, status: Any) -> None:
        communicator, peer, tag, nth, size = receives
        messages = self.recorder.messages
        messages.expect(communicator, peer, tag, -1)
        if (peer == ANY or tag == ANY) and status is not None:
            peer, tag = status.Get_source(), status.Get_tag()
        if peer >= 0 and tag >= 0:
            messages.count(communicator, RECEIVED, peer, tag)
        if nth:
            messages.check(self.record, communicator, peer, tag, nth, size)

    def start(self) -> None:
        """Note that a persistent request was started."""
        if self.recorder is SESSION.recorder and self.on_start is not None:
            communicator, direction, peer, tag = self.on_start
            if direction == SENT and peer >= 0:
                self.recorder.messages.count(communicator, SENT, peer, tag)
            elif direction == RECEIVED:
                self.recorder.messages.expect(communicator, peer, tag, 1)
            self.recorder.requests.activate(self.request, posted=True)

    def give_up(self) -> None:
        """Note that the request was cancelled or freed: which receive takes which message is no longer known."""
        if self.receives is not None and self.recorder is SESSION.recorder:
            communicator, peer, tag, nth, _ = self.receives
            self.recorder.messages.withdraw(communicator, peer, tag, nth)
            self.recorder.fail(self.record)  # a sender that has seen it is not stopped by it
            # never taken back: from here on messages of this communicator are not numbered
            self.recorder.messages.expect(communicator, ANY, ANY, 1)

    def release(self) -> None:
        """Give the request's number back."""
        if self.recorder is SESSION.recorder:
            self.recorder.requests.free(self.request)
            self.request = 0

    def __del__(self) -> None:
        if self.request and not sys.is_finalizing():  # nobody can wait for it any more
            self.release()
