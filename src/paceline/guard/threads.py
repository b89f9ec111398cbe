"""Threads of a rank that may communicate though they have not yet: while one runs, its rank can still move.

A thread counts if it runs the user's code. One of a library counts only once it has communicated; a worker of a pool
counts while it works.
"""

from __future__ import annotations

import concurrent.futures.thread as pool
import functools
import threading
from typing import Any

from paceline.guard.session import SESSION
from paceline.guard.sites import is_library, library_folders


def watch_threads() -> None:
    """See threads begin."""
    folders = library_folders()
    start, work_item = threading.Thread.start, getattr(pool, "_WorkItem", None)

    @functools.wraps(start)
    def watched_start(self: threading.Thread) -> None:
        if SESSION.recorder is not None and runs_user_code(self, folders):
            _count(self)
        start(self)

    threading.Thread.start = watched_start  # type: ignore[method-assign]
    if work_item is not None:
        run = work_item.run

        @functools.wraps(run)
        def watched_run(self: Any) -> Any:
            recorder = SESSION.recorder
            if recorder is None:
                return run(self)
            with recorder.running_thread():
                return run(self)

        work_item.run = watched_run


def count_running_threads() -> None:
    """Count the threads that were there before the rank joined its job."""
    folders = library_folders()
    for thread in threading.enumerate():
        others = thread not in (threading.main_thread(), threading.current_thread())
        if others and SESSION.recorder is not None and runs_user_code(thread, folders):
            SESSION.recorder.reserve_thread(thread)


def runs_user_code(thread: threading.Thread, folders: tuple[str, ...]) -> bool:
    """Say whether a thread runs a function, or a `run` of a class, that is not a library's."""
    target = getattr(thread, "_target", None) or type(thread).run
    while isinstance(target, functools.partial):
        target = target.func
    code = getattr(getattr(target, "__func__", target), "__code__", None)
    return code is not None and not is_library(code.co_filename, folders)


def _count(thread: threading.Thread) -> None:
    """Count a thread from before it begins until it ends."""
    recorder = SESSION.recorder
    assert recorder is not None
    word = recorder.reserve_thread(thread)
    run = thread.run

    def counted() -> None:
        if recorder is SESSION.recorder:
            recorder.take_thread(word)
        run()

    thread.run = counted  # type: ignore[method-assign]
