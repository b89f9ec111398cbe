"""Shows a run in progress: lines at the bottom of a terminal, or a line now and then where there is none."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

from paceline.guard.judge.stragglers import Notice
from paceline.guard.observe.gauges import Gauges, JobView
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.verdict.job_warning import JobWarning
from paceline.launch.terminal import is_foreground
from paceline.report.live.live_view import live_lines, live_text
from paceline.report.live.screen import Screen, is_usable

_SECONDS = 0.5  # between two pictures
_SECONDS_PER_RANK = 0.004  # added for each rank, so that many ranks take no larger share of our time


class LiveOutput:
    """The live view of one run. A fault in it never reaches the run: `problem` says it at the end."""

    def __init__(self, every: float, began: float | None = None) -> None:
        self._every = every
        self._gauges = Gauges(began)
        self._notice = self._warning = ""
        self._num_warnings = 0
        self._next = 0.0
        self._height = 0
        self._descriptor = sys.stderr.fileno()
        self._screen = Screen(self._descriptor) if is_usable(self._descriptor, os.environ) else None
        self._next_line = time.monotonic() + every
        self.problem: str | None = None
        self._stop_before = signal.signal(signal.SIGTSTP, self._stop) if self._screen is not None else None

    def look(self, rings: LocalRings) -> None:
        """Take a sample; show a new picture if it is time."""

        def sample() -> tuple[Callable[[], Sequence[JobView]], int]:
            worlds = rings.shown_jobs()
            self._gauges.sample(worlds)
            return lambda: self._gauges.views(worlds), sum(len(world.ranks) for world in worlds)

        self._show(sample)

    def show(self, views: Sequence[JobView]) -> None:
        """Show what somebody else has seen, if it is time."""
        self._show(lambda: (lambda: views, sum(len(view.ranks) for view in views)))

    def _show(self, sample: Callable[[], tuple[Callable[[], Sequence[JobView]], int]]) -> None:
        if self.problem is not None:
            return
        try:
            views, num_ranks = sample()
            now = time.monotonic()
            if self._screen is not None and now >= self._next:
                self._next = now + max(_SECONDS, _SECONDS_PER_RANK * num_ranks)
                self._paint(self._screen, views)
            elif self._screen is None and now >= min(self._next, self._next_line):
                self._next = now + max(_SECONDS, _SECONDS_PER_RANK * num_ranks)
                shown = views()  # even if none is printed: a rate needs several
                if now >= self._next_line:
                    self._next_line = now + self._every
                    print(live_text(shown, self._warning), file=sys.stderr, flush=True)
        except Exception as error:
            self.problem = f"the live view itself failed: {type(error).__name__}: {error}"
            self.close()

    def note(self, notice: Notice) -> None:
        """Keep the last notice in view."""
        self._notice = f"{time.strftime('%H:%M:%S')} {notice.summary}"

    def warn(self, warning: JobWarning) -> None:
        """Keep the last warning in view, with the number of them."""
        self._num_warnings += 1
        self._warning = f"{self._num_warnings} so far, the last: {warning.summary} [{warning.cause}]"

    def close(self) -> None:
        """Give the terminal back."""
        if self._screen is not None:
            screen, self._screen = self._screen, None
            signal.signal(signal.SIGTSTP, self._stop_before or signal.SIG_DFL)
            try:
                screen.hide()
            except OSError as error:
                self.problem = f"the terminal is no longer there: {error.strerror}"

    def _paint(self, screen: Screen, views: Callable[[], Sequence[JobView]]) -> None:
        rows = screen.room
        if rows == 0 or not is_foreground():
            screen.hide()
            self._height = 0
            return
        colours = None if os.environ.get("NO_COLOR") else "standard"
        lines = live_lines(
            views(),
            columns=screen.columns,
            rows=rows,
            notice=self._notice,
            warning=self._warning,
            colours=colours,
        )
        # lines once taken are kept, so that the ranks' output does not jump
        self._height = min(rows, max(self._height, len(lines)))
        screen.show([*lines, *[""] * (self._height - len(lines))])

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: give the terminal back before we stop; the next picture is drawn when we continue."""
        if self._screen is not None:
            self._screen.hide()
            self._height = 0
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._stop)
