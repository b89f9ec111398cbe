"""The logs of all windows of this process, found by the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.remarks.rank_remarks import DroppedRequest
from paceline.guard.rank.remarks.window_log import WindowLog
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory.access_board import MOST_MEMBERS, AccessBoard

_Asked = ParamSpec("_Asked")
_Noted = TypeVar("_Noted")


class WindowLogs:
    """What this process does with its windows."""

    def __init__(self, watch: MpiWatch) -> None:
        self._watch = watch
        self._by_window: dict[str, WindowLog] = {}  # by identity

    def open(self, made: Any, parent: Communicator, *, has_memory: bool) -> None:
        """Follow a window that was just made; of one without memory of its own, places mean nothing."""
        window, recorder = self._watch.windows.find(made), SESSION.recorder
        if window is not None and recorder is not None:
            log = self._by_window[window.identity] = WindowLog(recorder, window, parent)
            if self.speak not in recorder.remarks.on_start:
                recorder.remarks.on_start.append(self.speak)
            if has_memory:
                log.board = self.unless_it_fails(log, self._board, made, window, recorder)

    def unless_it_fails(
        self, log: WindowLog | None, note: Callable[_Asked, _Noted], /, *args: _Asked.args, **named: _Asked.kwargs
    ) -> _Noted | None:
        """Make a note of what a script does with a window. What cannot be noted is not compared, and never raises."""
        try:
            return note(*args, **named)
        except Exception as error:
            if log is not None:
                log.board = None
            SESSION.note_problem(f"accesses to a window are not compared any more: {type(error).__name__}: {error}")
            return None

    def speak(self) -> None:
        """Note that this rank is about to tell another something, by a message of which there is no record."""
        for log in list(self._by_window.values()):
            self.unless_it_fails(log, log.settle, speaks=True)

    def _board(self, made: Any, window: Communicator, recorder: Recorder) -> AccessBoard | None:
        num_members, mpi = len(window.ranks), self._watch.mpi
        if num_members > MOST_MEMBERS:
            return None
        try:
            board = AccessBoard(recorder.folder / f"accesses.{window.identity}", window.member, num_members)
        except OSError:  # no space: accesses are not compared
            return None
        board.open_part(int(made.Get_attr(mpi.WIN_SIZE)), int(made.Get_attr(mpi.WIN_DISP_UNIT)))
        return board

    def find(self, made: Any) -> WindowLog | None:
        """Return the log of a window; None if it is not followed."""
        window = self._watch.windows.find(made)
        return None if window is None else self._by_window.get(window.identity)

    def settle(self) -> None:
        """Show what was completed under locks, before this rank does more with any window."""
        for log in list(self._by_window.values()):  # another thread may make or free one
            self.unless_it_fails(log, log.settle)

    def close(self, identity: str) -> None:
        """Say what was left of a window that was just freed, and forget it."""
        log = self._by_window.pop(identity, None)
        if log is not None and SESSION.recorder is not None:
            SESSION.recorder.remarks.dropped.extend(self.unless_it_fails(log, log.left) or ())
            SESSION.recorder.remarks.say_dropped()

    def left(self) -> list[DroppedRequest]:
        """Return what is open at the end."""
        return [
            dropped for log in list(self._by_window.values()) for dropped in self.unless_it_fails(log, log.left) or ()
        ]
