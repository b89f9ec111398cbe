"""Which threads of a rank may communicate, and the slot of each in the ring: the record it waits in, or none.

A slot is known by the first of its words in the ring: the record that the thread waits in (plus 1, or 0 if it runs),
then the thread's number in the system (0 if the slot is free).
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.ring import Ring

_NUMBER = 1  # where a slot has the thread's number
_NOT_STARTED = 1  # stands for the number of a thread that has none yet


class _ThreadEnd:
    """Calls a function when the thread ends: then Python drops the thread's own variables, of which this is one."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    def __del__(self) -> None:
        self._on_end()


class ThreadSlots:
    """The slots of one rank."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self.slots: dict[int, int] = {}  # identifier of a thread -> its slot
        self._local = threading.local()

    def find_slot(self) -> int:
        """Return the slot of this thread; it takes one if it has none."""
        slot = self.slots.get(threading.get_ident())
        return self.take_free_slot() if slot is None else slot

    def take_free_slot(self) -> int:
        """Give this thread a slot: a free one, or the last, which then stands for several threads."""
        slot = self._find_free_slot()
        if slot is None:
            return layout.THREADS_AT + (layout.MAX_THREADS - 1) * layout.THREAD_WORDS
        return self.take_slot(slot)

    def take_slot(self, slot: int | None) -> int:
        """Give this thread the slot that was reserved for it, until it ends; None if there was no room for it."""
        if slot is None:
            return self.take_free_slot()
        identifier = threading.get_ident()
        self.slots[identifier] = slot
        self._ring.words[slot + _NUMBER] = threading.get_native_id()
        if threading.current_thread() is not threading.main_thread():
            self._local.end = _ThreadEnd(functools.partial(self._release_slot, slot, identifier))
        return slot

    def reserve_slot(self, thread: threading.Thread | None) -> int | None:
        """Count a thread that is about to begin as one that may communicate; None if there is no room for it."""
        slot = self._find_free_slot()
        if slot is not None:
            self._ring.words[slot + _NUMBER] = _NOT_STARTED
            if thread is not None and thread.ident is not None:
                # it runs already, so it will not take the slot itself, and nothing else tells us when it ends
                weakref.finalize(thread, self._release_slot, slot, thread.ident)
                self.slots[thread.ident] = slot
        return slot

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count this thread as one that may communicate while it does something for the user."""
        had_slot = threading.get_ident() in self.slots
        slot = self.find_slot()
        try:
            yield
        finally:
            if not had_slot:
                self._local.end = None
                self._release_slot(slot, threading.get_ident())

    def _find_free_slot(self) -> int | None:
        for index in range(layout.MAX_THREADS):
            slot = layout.THREADS_AT + index * layout.THREAD_WORDS
            if not self._ring.words[slot + _NUMBER]:
                return slot
        self._ring.lose(layout.LOST_THREADS)
        return None

    def _release_slot(self, slot: int, identifier: int) -> None:
        self._ring.words[slot] = self._ring.words[slot + _NUMBER] = 0
        self.slots.pop(identifier, None)
