"""Which threads of a rank may communicate, and the slot of each: the record it waits in, or none."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.ring import Ring


class _ThreadEnd:
    """Frees the slot of a thread when the thread's own variables go."""

    def __init__(self, free: Callable[[], None]) -> None:
        self._free = free

    def __del__(self) -> None:
        self._free()


class ThreadSlots:
    """The slots of one rank."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self.words: dict[int, int] = {}  # thread -> its slot, as a word of the ring
        self._local = threading.local()

    def word(self) -> int:
        """Return the slot of this thread."""
        word = self.words.get(threading.get_ident())
        return self.add() if word is None else word

    def _free_slot(self) -> int | None:
        for slot in range(layout.MAX_THREADS):
            word = layout.THREADS_AT + slot * layout.THREAD_WORDS
            if not self._ring.words[word + 1]:
                return word
        self._ring.lose(layout.LOST_THREADS)
        return None

    def add(self) -> int:
        """Give this thread a slot: a free one, or the last, which then stands for several."""
        word = self._free_slot()
        if word is None:
            return layout.THREADS_AT + (layout.MAX_THREADS - 1) * layout.THREAD_WORDS
        return self.take(word)

    def take(self, word: int | None) -> int:
        """Take a slot for this thread, until it ends."""
        if word is None:
            return self.add()
        identifier = threading.get_ident()
        self.words[identifier] = word
        self._ring.words[word + 1] = threading.get_native_id()
        if threading.current_thread() is not threading.main_thread():
            self._local.end = _ThreadEnd(functools.partial(self._free, word, identifier))
        return word

    def _free(self, word: int, identifier: int) -> None:
        self._ring.words[word] = self._ring.words[word + 1] = 0
        self.words.pop(identifier, None)

    def reserve(self, thread: threading.Thread | None) -> int | None:
        """Count a thread that is about to begin as one that may communicate."""
        word = self._free_slot()
        if word is not None:
            self._ring.words[word + 1] = 1
            if thread is not None and thread.ident is not None:
                # it runs already, and nothing will tell us when it ends
                weakref.finalize(thread, self._free, word, thread.ident)
                self.words[thread.ident] = word
        return word

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count this thread as one that may communicate while it does something for the user."""
        known = threading.get_ident() in self.words
        word = self.word()
        try:
            yield
        finally:
            if not known:
                self._local.end = None
                self._free(word, threading.get_ident())
