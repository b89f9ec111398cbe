"""Watches how the process ends: an exception nobody catches, sys.exit, os._exit, the end of the script."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from types import TracebackType
from typing import Any

from paceline.guard.rank.call_sites import current_frames, frames_of
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout

_MAX_TEXT = 2000
_MAX_CAUSES = 20


def watch_process() -> None:
    """Install the hooks. Each makes a note and then does what was there before."""
    previous, previous_thread, exit_at_once, leave = sys.excepthook, threading.excepthook, os._exit, sys.exit

    def on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        SESSION.tell({"raised": _describe(error)})
        if SESSION.recorder is not None:
            SESSION.recorder.ring.words[layout.MAIN_ENDED] = 1
        return previous(kind, error, trace)

    def on_thread_exception(args: Any) -> Any:
        if args.exc_value is not None:
            SESSION.tell({"thread raised": _describe(args.exc_value)})
        return previous_thread(args)

    def on_exit_at_once(status: int) -> Any:
        if SESSION.recorder is not None:
            SESSION.tell({"exit": status, "frames": current_frames(), "how": "os._exit"})
            SESSION.recorder.end(layout.EXITS_AT_ONCE, status)
        exit_at_once(status)

    def on_exit(status: Any = None, /) -> Any:
        if SESSION.recorder is not None and threading.current_thread() is threading.main_thread():
            code = status if isinstance(status, int) else int(status is not None)
            SESSION.tell({"exit": code, "frames": current_frames(), "how": "sys.exit"})
        leave(status)

    sys.excepthook, threading.excepthook = on_exception, on_thread_exception
    os._exit, sys.exit = on_exit_at_once, on_exit
    atexit.register(_note_end)  # registered first, so it runs last


def _note_end() -> None:
    if SESSION.recorder is not None:
        SESSION.recorder.end(layout.EXITS)
    SESSION.answer_no_more()


def _describe(error: BaseException) -> dict[str, Any]:
    return {
        "type": type(error).__name__,
        "message": str(error)[:_MAX_TEXT],
        "errno": getattr(error, "errno", None) if isinstance(error, OSError) else None,
        "frames": frames_of(error),
        "call": _call_of(error),
    }


def _call_of(error: BaseException | None) -> int | None:
    """Return the number of the call that raised this exception, or one that it came from."""
    for _ in range(_MAX_CAUSES):
        if error is None:
            return None
        number = getattr(error, "_paceline_call", None)
        if number is not None:
            return int(number)
        error = error.__cause__ or error.__context__
    return None
