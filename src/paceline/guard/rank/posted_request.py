"""A request that a rank has posted: which call posted it, and what is to be counted when it completes."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.compiled_recorder import COMPILED
from paceline.guard.rank.remarks.active_buffers import UsedMemory
from paceline.guard.rank.remarks.rank_remarks import UNFREED, DroppedRequest
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory.layout import ANY, RECEIVED, SENT

ExpectedMessage = tuple[Communicator, int, int, int, int]  # communicator, peer, tag, n-th (0: not known), packed size
PersistentMessage = tuple[Communicator, int, int, int]  # communicator, direction, peer, tag


class FieldsInPython:
    """The fields of a request that was posted. The extension module has a type with the same, PostedFields."""

    __slots__ = (
        "_key", "_reference", "_table", "handle", "is_active", "is_excused", "is_users", "memory", "on_start",
        "receives", "record", "recorder", "request",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, request: int, record: int, *, is_active: bool = True) -> None:
        self.recorder, self.request, self.record = recorder, request, record
        self.is_active = is_active  # somebody still has to complete it
        self.is_excused = False  # it is known to be complete, or is completed by other means: nobody has to wait for it
        self.is_users = False  # it was handed to the user by a library, who then has to complete it
        self.memory: tuple[UsedMemory, ...] = ()  # what it reads and writes, as far as that is known
        self.handle = 0  # MPI's, which copies of the object have in common
        self.receives: ExpectedMessage | None = None  # what a receive takes when it completes
        self.on_start: PersistentMessage | None = None  # what a persistent request sends or receives at each start

    def stand_for(self, request: Any, table: dict[int, Any]) -> None:
        """Be found in a table by the identity of an object, as long as somebody has the object."""
        self._key, self._table = id(request), table
        self._reference: weakref.ref[Any] | None = weakref.ref(request, self)
        table[self._key] = self

    def __call__(self, reference: weakref.ref[Any]) -> None:
        """Be found no longer: the object is gone. The weak reference calls this."""
        self._reference = None  # it holds this object
        self._table.pop(self._key, None)

    def __del__(self) -> None:
        if self.request:
            self.drop()

    def drop(self) -> None:
        """Say what is to be said of a request that nobody can complete any more."""


_NO_MORE_SLOTS: tuple[str, ...] = ()  # than the fields have
_Fields: Any = FieldsInPython if COMPILED is None else COMPILED.PostedFields


class PostedRequest(_Fields):  # type: ignore[misc]
    """What is known of a request that was posted.

    A forked child has its parent's requests but must not write to the parent's ring: every method looks whether the
    recorder is still that of this process.
    """

    __slots__ = _NO_MORE_SLOTS
    recorder: Recorder
    request: int
    record: int
    is_active: bool
    is_excused: bool
    is_users: bool
    memory: tuple[UsedMemory, ...]
    handle: int
    receives: ExpectedMessage | None
    on_start: PersistentMessage | None

    def complete(self, status: Any) -> None:
        """Note that the request has completed."""
        if self.recorder is not SESSION.recorder:
            return
        self.is_active = False
        if self.memory:
            self.recorder.buffers.end(self.memory)
            self._let_go()
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
            source, tag = status.Get_source(), status.Get_tag()
            peer = communicator.remote_begin + source if source >= 0 else source
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
            self.is_active = True
            if self.memory:
                self.recorder.buffers.begin(self.request, self.memory)

    def take_back_start(self) -> None:
        """Note that a persistent request was not started after all: the library refused it, and sent nothing."""
        if self.recorder is SESSION.recorder and self.on_start is not None:
            communicator, direction, peer, tag = self.on_start
            if direction == SENT and peer >= 0:
                self.recorder.messages.take_back(communicator, peer, tag)
            elif direction == RECEIVED:
                self.recorder.messages.expect(communicator, peer, tag, -1)

    def use(self, *memory: UsedMemory | None) -> None:
        """Note what it reads and writes, from now on or, if it is prepared for many starts, from each start on."""
        known = memory if None not in memory else tuple(one for one in memory if one is not None)
        if known:
            self.memory = known  # type: ignore[assignment]
            if self.is_active:
                self.recorder.buffers.begin(self.request, self.memory)

    def excuse(self) -> None:
        """Note that it is known to be complete, or is completed by other means: nobody has to wait for it."""
        self.is_excused = True
        if self.memory and self.recorder is SESSION.recorder:
            self.recorder.buffers.end(self.memory)
            self._let_go()

    def _let_go(self) -> None:
        """Keep the memory no longer than MPI does: the user may have no other reference to it."""
        if self.on_start is None:
            self.memory = ()

    def settle(self) -> None:
        """Note that it was completed or given up in a way that does not say what became of its message."""
        if self.is_active and self.recorder is SESSION.recorder:
            self.is_active = False
            if self.memory:
                self.recorder.buffers.gone.append(self.memory)
                self._let_go()
            self.recorder.remarks.doubt_message()

    def give_up(self) -> None:
        """Note that the request was cancelled or freed: which receive takes which message is no longer known."""
        if not self.is_active:
            return  # a persistent one that is not under way
        self.settle()
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

    def dropped(self, how: str = "dropped") -> DroppedRequest | None:
        """Return what is to be said of a request that nobody completes; None if it is not under way."""
        if self.is_excused:
            self.settle()
        if not self.is_active or self.recorder is not SESSION.recorder:
            return None
        site, operation = self.recorder.requests.origin(self.request)
        return DroppedRequest(site=site, operation=operation, handle=self.handle, is_users=self.is_users, how=how)

    def leave(self) -> DroppedRequest | None:
        """Return what is to be said of a request at the end, once; None if it is not under way."""
        dropped = self.dropped("left")
        self.settle()
        return dropped

    def note_dropped(self) -> None:
        """Note that no object stands for the request any more. Writes no text: it may be called at any moment."""
        if self.on_start is not None and not self.is_active and self.recorder is SESSION.recorder:
            site, operation = self.recorder.requests.origin(self.request)
            self.recorder.remarks.dropped.append(DroppedRequest(site=site, operation=operation, how=UNFREED))
            return
        dropped = self.dropped()
        if dropped is not None:
            self.settle()  # its message may be received all the same
            self.recorder.remarks.dropped.append(dropped)

    def drop(self) -> None:
        """Say what is to be said of a request that nobody can complete any more."""
        if not sys.is_finalizing():
            self.note_dropped()
            self.release()


class PostedCreation(PostedRequest):
    """A request that makes something, of which more is known once it has completed."""

    __slots__ = ("_then",)

    def __init__(self, recorder: Recorder, request: int, record: int, then: Callable[[], None]) -> None:
        super().__init__(recorder, request, record)
        self._then = then

    def complete(self, status: Any) -> None:
        """Note that the request has completed, and do what is to be done then."""
        if self.recorder is SESSION.recorder:
            self._then()
        super().complete(status)
