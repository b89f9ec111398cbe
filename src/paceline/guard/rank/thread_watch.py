"""Threads of a rank that may communicate though they have not yet: while one runs, its rank can still move.

One that joins another does not run: it goes on when that one ends.

A thread counts if it runs, or may run, the user's code. One of an installed package counts only once it has
communicated; a worker of a pool of concurrent.futures counts while it works.
"""

from __future__ import annotations

import _thread
import functools
import threading
from types import ModuleType
from typing import Any

from paceline.guard.rank.call_sites import is_library, library_folders
from paceline.guard.rank.watched_process import SESSION

_ONLY_MOVE_DATA = (
    "concurrent/futures/thread.py", "concurrent/futures/process.py", "multiprocessing/queues.py",
    "multiprocessing/resource_sharer.py", "multiprocessing/managers.py", "logging/handlers.py",
)  # fmt: skip


def watch_threads() -> None:
    """Watch threads begin, so that each is counted before it runs."""
    folders = library_folders()
    start, join = threading.Thread.start, threading.Thread.join

    @functools.wraps(start)
    def watched_start(self: threading.Thread) -> None:
        if SESSION.recorder is not None and may_communicate(self, folders):
            _count_until_it_ends(self)
        start(self)

    @functools.wraps(join)
    def watched_join(self: threading.Thread, timeout: float | None = None) -> None:
        if SESSION.recorder is None or timeout is not None:
            return join(self, timeout)
        with SESSION.recorder.threads.joining(self):
            return join(self)

    threading.Thread.start = watched_start  # type: ignore[method-assign]
    threading.Thread.join = watched_join  # type: ignore[method-assign]
    before_threads = getattr(threading, "_register_atexit", None)
    if before_threads is not None:
        before_threads(_join_last)
    _watch_bare_threads()


def _join_last() -> None:
    if SESSION.recorder is not None:
        SESSION.recorder.threads.join_last()


def watch_pool(module: ModuleType) -> None:
    """See workers of a pool of concurrent.futures at work."""
    work_item: Any = getattr(module, "_WorkItem", None)
    if work_item is None:
        return
    run = work_item.run

    @functools.wraps(run)
    def watched_run(self: Any) -> Any:
        recorder = SESSION.recorder
        if recorder is None:
            return run(self)
        with recorder.threads.running():
            return run(self)

    work_item.run = watched_run


def _watch_bare_threads() -> None:
    """Watch threads that are started without `threading`, which keeps its own name for the function."""
    start = _thread.start_new_thread

    def start_new_thread(function: Any, args: Any, kwargs: Any = None, /) -> int:
        recorder = SESSION.recorder
        if recorder is None:
            return start(function, args, kwargs or {})
        slot = recorder.threads.reserve_slot(None)

        def counted(*args: Any, **kwargs: Any) -> Any:
            recorder.threads.take_slot(slot)
            return function(*args, **kwargs)

        return start(counted, args, kwargs or {})

    _thread.start_new_thread = start_new_thread


def count_running_threads() -> None:
    """Count the threads that began before the rank joined its job."""
    folders = library_folders()
    for thread in threading.enumerate():
        others = thread not in (threading.main_thread(), threading.current_thread())
        if others and SESSION.recorder is not None and may_communicate(thread, folders):
            SESSION.recorder.threads.reserve_slot(thread)


def may_communicate(thread: threading.Thread, folders: tuple[str, ...]) -> bool:
    """Say whether a thread may come to make a watched call.

    Threads of installed packages do not, or have made one already. Threads of Python's own modules may run anything
    for the user (a Timer, a pool), except for a few that only move data.
    """
    target = getattr(thread, "_target", None) or type(thread).run
    while isinstance(target, functools.partial):
        target = target.func
    code = getattr(getattr(target, "__func__", target), "__code__", None)
    if code is None:
        return True  # a function that is not Python's: nothing is known of it
    name = code.co_filename
    if "/site-packages/" in name or "/dist-packages/" in name:
        return False
    return not is_library(name, folders) or not name.endswith(_ONLY_MOVE_DATA)


def _count_until_it_ends(thread: threading.Thread) -> None:
    """Count a thread from before it begins: the one that starts it may at once wait for what it does."""
    recorder = SESSION.recorder
    assert recorder is not None
    slot = recorder.threads.reserve_slot(thread)
    run = thread.run

    def counted() -> None:
        if recorder is SESSION.recorder:
            recorder.threads.take_slot(slot)
        run()

    thread.run = counted  # type: ignore[method-assign]
