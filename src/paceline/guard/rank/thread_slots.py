"""Which threads of a rank may communicate, and the slot of each in the ring: the record it waits in, or none.

A slot is known by the first of its words in the ring: the record that the thread waits in (plus 1, or 0 if it runs),
then the thread's number in the system (0 if the slot is free). The last word has the number of the thread that it
joins: until that one ends, it does nothing.
"""

from __future__ import annotations

import functools
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.ring import Ring
from paceline.process.stacks import StackAnswers

_END_A_JOB = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
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
        self._lock = threading.RLock()  # a slot may be given back at any moment, also by a thread that looks for one
        self._local = threading.local()
        self._last_to_join: list[int] = []  # threads that Python waits for at the end of the script

    def find_slot(self) -> int:
        """Return the slot of this thread; it takes one if it has none."""
        slot = self.slots.get(threading.get_ident())
        return self.take_free_slot() if slot is None else slot

    def take_free_slot(self) -> int:
        """Give this thread a slot: a free one, or the last, which then stands for several threads."""
        slot = self._claim_free_slot()
        if slot is None:
            return layout.THREADS_AT + (layout.MAX_THREADS - 1) * layout.THREAD_WORDS
        return self.take_slot(slot)

    def take_slot(self, slot: int | None) -> int:
        """Give this thread the slot that was reserved for it, until it ends; None if there was no room for it."""
        if slot is None:
            return self.take_free_slot()
        identifier = threading.get_ident()
        self.slots[identifier] = slot
        self._ring.words[slot + layout.THREAD_NUMBER] = threading.get_native_id()
        if (
            identifier != threading.main_thread().ident
        ):  # asking for a thread that is not Python's own would make one up
            self._local.end = _ThreadEnd(functools.partial(self._release_slot, slot, identifier))
        return slot

    def reserve_slot(self, thread: threading.Thread | None) -> int | None:
        """Count a thread that is about to begin as one that may communicate; None if there is no room for it."""
        slot = self._claim_free_slot()
        if slot is not None and thread is not None and thread.ident is not None:
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
            is_own = not had_slot and self.slots.get(threading.get_ident()) == slot  # not the one that late ones share
            if is_own and self._local.__dict__.pop("end", None) is None:  # its end gives the slot back, else we do
                self._release_slot(slot, threading.get_ident())

    @contextmanager
    def joining(self, thread: threading.Thread) -> Iterator[None]:
        """Count this thread as one that does nothing until another ends."""
        slot = self.slots.get(threading.get_ident())
        if slot is None or self._ring.words[slot] or may_be_woken():
            yield  # it does not count, or it is inside a call that has called Python back, or a signal may end it
            return
        self._ring.words[slot + layout.THREAD_JOINS] = thread.native_id or 0
        try:
            yield
        finally:
            self._ring.words[slot + layout.THREAD_JOINS] = 0

    def join_last(self) -> None:
        """Count the main thread as one that joins all others but daemons: Python does that at the end of a script."""
        if threading.get_ident() in self.slots and not may_be_woken():
            others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
            self._last_to_join = [
                thread.native_id
                for thread in others
                if thread.native_id is not None and thread.ident in self.slots and not thread.daemon
            ]
            self._join_next(self.slots[threading.get_ident()])

    def _join_next(self, slot: int) -> None:
        """Say which thread the main thread waits for: any of those that are left, since it waits for all."""
        numbers = self._last_to_join
        self._ring.words[slot + layout.THREAD_JOINS] = numbers[0] if numbers else 0

    def _claim_free_slot(self) -> int | None:
        """Return a slot that no other thread gets; None if there is none left."""
        with self._lock:
            for index in range(layout.MAX_THREADS):
                slot = layout.THREADS_AT + index * layout.THREAD_WORDS
                if not self._ring.words[slot + layout.THREAD_NUMBER]:
                    self._ring.words[slot + layout.THREAD_NUMBER] = _NOT_STARTED
                    return slot
        self._ring.lose(layout.LOST_THREADS)
        return None

    def _release_slot(self, slot: int, identifier: int) -> None:
        number = self._ring.words[slot + layout.THREAD_NUMBER]
        main = self.slots.get(threading.main_thread().ident or 0)
        if number in self._last_to_join and main is not None:
            self._last_to_join.remove(number)
            self._join_next(main)
        self._ring.words[slot + layout.THREAD_JOINS] = 0
        self._ring.words[slot] = self._ring.words[slot + layout.THREAD_NUMBER] = 0
        self.slots.pop(identifier, None)


def may_be_woken() -> bool:
    """Say whether this thread may run a handler of the script's while it waits for a lock: only the main thread may.

    A handler may do anything, and raise. Those for signals that end a job do not count: whoever sends one does so
    because the job stands.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in signal.valid_signals() - _END_A_JOB]
    return any(
        callable(handler) and not isinstance(getattr(handler, "__self__", None), StackAnswers) for handler in handlers
    )
