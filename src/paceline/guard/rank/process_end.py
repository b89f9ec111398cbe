"""Watches how the process ends: an exception nobody catches, sys.exit, os._exit, the end of the script.

Nothing here may raise: a rank that wants to end must end as it would without the guard.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import os
import signal
import sys
import threading
from types import TracebackType
from typing import Any

from paceline.guard.rank.call_sites import current_frames, frames_of
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.last_output import put_output_aside
from paceline.guard.shared_memory.rank_start import is_python
from paceline.process.hidden_secrets import hide_in_message

_MAX_TEXT = 2000
_MAX_CAUSES = 20


def watch_process() -> None:
    """Install the hooks. Each makes a note and then does what was there before."""
    previous, previous_thread, exit_at_once, leave = sys.excepthook, threading.excepthook, os._exit, sys.exit
    set_handler = signal.signal

    def on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        note_uncaught(error)
        SESSION.note_stop(error)
        if error is _last_error() and isinstance(error, Exception) and SESSION.is_rank and SESSION.folder is not None:
            put_output_aside(SESSION.folder)  # the traceback, and what libraries say on the way out
        return previous(kind, error, trace)

    def on_thread_exception(args: Any) -> Any:
        if args.exc_value is not None and SESSION.is_rank:
            SESSION.tell({"thread raised": describe_error(args.exc_value)})
        return previous_thread(args)

    def on_exit_at_once(status: int) -> Any:
        if SESSION.is_rank:
            _note_last_error()  # a hook of the script's for exceptions may end the process so
            SESSION.tell({"exit": status, "frames": current_frames(), "how": "os._exit"})
            SESSION.finish_remarks()
            SESSION.end(layout.EXITS_AT_ONCE, status)
        exit_at_once(status)

    def on_exit(status: Any = None, /) -> Any:
        _note_exit(status, "sys.exit")
        leave(status)

    def on_handler(signalnum: Any, handler: Any) -> Any:
        SESSION.leave_signal(signalnum)
        return set_handler(signalnum, handler)

    sys.excepthook, threading.excepthook = on_exception, on_thread_exception
    os._exit, sys.exit = on_exit_at_once, on_exit
    signal.signal = functools.wraps(set_handler)(on_handler)
    _watch_quitters()
    is_file = bool(sys.argv) and sys.argv[0] not in ("", "-", "-c", "-m")
    atexit.register(_note_end, is_file)  # registered first, so it runs last
    # earlier than that: before Python waits for the script's threads, which may wait for other ranks
    before_threads = getattr(threading, "_register_atexit", None)
    if before_threads is not None:
        before_threads(_note_last_error)


def _watch_quitters() -> None:
    """See `exit()` and `quit()`, which do not come through sys.exit."""
    kind: Any = type(getattr(builtins, "exit", None))
    if getattr(kind, "__module__", None) != "_sitebuiltins":
        return  # Python runs without them, or somebody has put others there
    quit_session = kind.__call__

    @functools.wraps(quit_session)
    def on_quit(self: Any, code: Any = None) -> Any:
        _note_exit(code, getattr(self, "name", "exit"))
        return quit_session(self, code)

    kind.__call__ = on_quit


def _note_exit(status: Any, how: str) -> None:
    if SESSION.is_rank and threading.current_thread() is threading.main_thread():
        code = status if isinstance(status, int) else int(status is not None)
        SESSION.tell({"exit": code, "frames": current_frames(), "how": how})


def _note_end(is_file: bool) -> None:
    if SESSION.is_rank:
        _note_last_error()
        if is_file:
            SESSION.tell({"finished": _has_finished()})
        SESSION.tell({"leaves": is_python()})  # a program that embeds Python goes on without it
        SESSION.finish_remarks()
        SESSION.end(layout.EXITS)
    SESSION.answer_no_more()


def _has_finished() -> bool | None:
    """Say whether the script has come to its end, and not to SystemExit; None if Python does not show it.

    Python takes `__file__` from a script that it has run to the end. After SystemExit it exits before that; from 3.14
    on it takes it in both cases.
    """
    if sys.version_info >= (3, 14):
        return None
    main = sys.modules.get("__main__")
    if getattr(main, "__spec__", None) is not None:  # a module or a folder, which keeps it in any case
        return None
    return not hasattr(main, "__file__")


def _note_last_error() -> None:
    """Note the exception that ends the script, if a hook of the script's own has taken the place of ours.

    Python keeps it from before it calls that hook. A session at a prompt goes on after one.
    """
    error = _last_error()
    if error is not None and not hasattr(sys, "ps1"):
        note_uncaught(error)


def _last_error() -> BaseException | None:
    """Return the exception that Python itself found uncaught, and not one for which a program called the hook."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None


def note_uncaught(error: BaseException) -> None:
    """Tell the judge of the exception that ends this rank, unless it knows one already."""
    recorder, start = SESSION.recorder, SESSION.start
    if recorder is None:
        if start is not None and not start.has_raised:
            start.has_raised = True
            SESSION.tell({"raised": describe_error(error)})
        return
    if recorder.ring.words[layout.MAIN_ENDED]:
        return
    SESSION.tell({"raised": describe_error(error)})
    recorder.ring.words[layout.MAIN_ENDED] = 1  # after it: another thread that ends the process now must find it told


def describe_error(error: BaseException) -> dict[str, Any]:
    """Return what the judge is told of an exception that nobody caught."""
    try:
        message = str(error)
    except Exception as failure:  # its own fault: Python prints such a thing too
        message = f"<{type(failure).__name__} in its __str__>"
    return {
        "type": type(error).__name__,
        "message": hide_in_message(message[:_MAX_TEXT]),
        "errno": getattr(error, "errno", None) if isinstance(error, OSError) else None,
        "frames": frames_of(error),
        "call": _call_of(error),
        "of another rank": getattr(error, "is_of_another_rank", False) is True,  # our loader's errors say so
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
