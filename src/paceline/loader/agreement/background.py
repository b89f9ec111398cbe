"""One thread that carries out tasks in order. It does not keep the process alive."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from paceline.errors import InputError

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Background:
    """Work for a thread of its own.

    Unlike an executor's, the thread may be left behind in a collective whose peers never come: a rank that fails must
    be able to end.
    """

    def __init__(self, name: str) -> None:
        self._is_closed = False
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(self._work,), name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs) -> Future[_R]:
        """Call a function after all that was submitted before.

        Raises:
            InputError: If it is closed.
        """
        future: Future[_R] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args, **named))
                except BaseException as error:
                    future.set_exception(error)

        with self._lock:
            if self._is_closed:
                raise InputError("this has been closed: nothing more can be started")
            self._work.put(work)
        return future

    def close(self, *, wait: bool) -> None:
        """Accept no more; wait for what is under way, or leave it."""
        with self._lock:
            self._is_closed = True
            self._work.put(None)
        if wait:
            self._thread.join()

    @staticmethod
    def _run(work: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while (task := work.get()) is not None:
            task()
            del task  # otherwise it would keep its arguments alive until the next one


class Closeable:
    """Something that is closed when its `with` ends: it waits for what is under way, unless there was an error."""

    def close(self, *, wait: bool = True) -> None:
        """Finish what was started; or abandon it, if peers may never come."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait=error is None)
