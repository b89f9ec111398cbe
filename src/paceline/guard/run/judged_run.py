"""The judging of one run, whatever happens to the judge.

A fault of ours must not end somebody's job, nor leave it unwatched without a word: it is told the moment it happens,
and from then on nothing is concluded. Only the user's time limit still holds.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from paceline.guard.judge.judge import Judge
from paceline.guard.judge.stragglers import Stragglers
from paceline.guard.judge.time_limit import TimeLimit
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.run.run_folder import stop_judging
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.verdict.finding import Finding

_Value = TypeVar("_Value")


class JudgedRun:
    """The judge of a run, its notices and its time limit.

    Attributes:
        fault: Why nothing is judged any more; None while the judge works.
    """

    def __init__(self, rings: LocalRings, folder: Path, options: WatchOptions) -> None:
        self._rings, self._folder, self._options = rings, folder, options
        self._judge = Judge(rings, folder)
        self._stragglers = Stragglers(options.notice_seconds, options.timeout_seconds)
        self._limit = TimeLimit(options.timeout_seconds)
        self.fault: str | None = None

    def look(self) -> Finding | None:
        """Judge what the rings hold now, and show who is waited for; return a finding if there is one."""
        finding = self.unless_at_fault(self._look)
        if finding is not None:
            return finding
        jobs = self.jobs()
        self._limit.note(jobs)
        return self._limit.passed(jobs) if self.fault is not None else None

    def look_back(self, *, failed: bool) -> Finding | None:
        """After the launcher has ended: look once more at what the ranks have left."""
        return self.unless_at_fault(lambda: self._judge.look_back(failed=failed))

    def show_who_waits(self) -> None:
        """Show where ranks are, for somebody who stops a job that seems to hang."""
        self.unless_at_fault(self._show_who_waits)

    def jobs(self) -> list[WatchedJob]:
        """Return the jobs that are known; after a fault at least those that were known before it."""
        try:
            return self._rings.jobs()
        except Exception as error:
            self._fail(error)
            return self._rings.known_jobs()

    def unless_at_fault(self, ask: Callable[[], _Value]) -> _Value | None:
        """Return an answer that depends on what ranks have written; None after a fault, which may be in this one."""
        if self.fault is None:
            try:
                return ask()
            except Exception as error:
                self._fail(error)
        return None

    def _look(self) -> Finding | None:
        finding = self._judge.look()
        if finding is not None:
            return finding
        for job in self._rings.known_jobs():
            for notice in self._stragglers.look(job):
                if notice.finding is not None:
                    return notice.finding
                self._options.on_notice(notice)
        return None

    def _show_who_waits(self) -> None:
        for job in self._rings.jobs():
            notice = self._stragglers.now(job)
            if notice is not None:
                self._options.on_notice(notice)

    def _fail(self, error: Exception) -> None:
        if self.fault is not None:
            return
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error}, at {Path(frame.filename).name}:{frame.lineno}"
        limit = self._options.timeout_seconds
        self.fault = (
            f"the guard itself failed ({what}). The job continues, but from now on its calls are not judged, and nobody"
            " notices if it hangs" + (f" before the limit of {limit:g} s" if limit is not None else "")
        )
        stop_judging(self._folder)
        self._options.on_fault(self.fault)
