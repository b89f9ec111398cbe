"""The judging of one run, whatever happens to the judge.

A fault of ours must not end somebody's job, nor leave it unwatched without a word: it is told the moment it happens,
and from then on nothing is concluded. Only the user's time limit still holds.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from paceline.guard.judge.compiled_waits import CompiledWaits
from paceline.guard.judge.judge import Judge
from paceline.guard.judge.sight_watch import SightWatch
from paceline.guard.judge.stragglers import Stragglers
from paceline.guard.judge.time_limit import TimeLimit
from paceline.guard.judge.warning_watch import WarningWatch
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.run.run_folder import stop_judging
from paceline.guard.run.run_registry import announce_warning
from paceline.guard.run.told_problems import ToldProblems
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.shared_memory.host_folder import DRIVER
from paceline.guard.shared_memory.layout import STOP_PREFIX
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.job_warning import JobWarning
from paceline.launch.launcher_command.launcher_words import killing_signal, launcher_elsewhere

_Value = TypeVar("_Value")


class JudgedRun:
    """The judge of a run, its notices and its time limit.

    Attributes:
        fault: Why nothing is judged any more; None while the judge works.
        warnings: What was told that did not stop the job.
        was_heard: Whether the finding is one that a head on another host or in another task has told us.
    """

    def __init__(self, rings: LocalRings, folder: Path, options: WatchOptions, command: Sequence[str] = ()) -> None:
        self._rings, self._folder, self._options, self._command = rings, folder, options, command
        self._judge = Judge(rings, folder)
        self._compiled = CompiledWaits(self._judge.source_of)
        self._stragglers = Stragglers(options.notice_seconds, options.timeout_seconds, self._compiled)
        self._limit = TimeLimit(options.timeout_seconds)
        self._warning_watch = WarningWatch(self._judge.source_of, options.ignored)
        self._sight = SightWatch(launcher_elsewhere(command))
        self._problems = ToldProblems(rings, options.on_problem)
        self.warnings: list[JobWarning] = []
        self.fault: str | None = None
        self.was_heard = False

    def look(self) -> Finding | None:
        """Judge what the rings hold now, and show who is waited for; return a finding if there is one."""
        self._problems.look()
        finding = self.unless_at_fault(self._look)
        if finding is not None:
            return finding
        jobs = self.jobs()
        self._limit.note(jobs)
        return self._limit.passed(jobs) if self.fault is not None else None

    def wait(self, seconds: float) -> None:
        """Wait for the given time, or until something has happened; what other hosts say may be at fault."""
        try:
            self._rings.wait(seconds)
        except Exception as error:
            self._fail(error)
            time.sleep(seconds)

    def look_back(self, *, failed: bool, code: int | None = None) -> Finding | None:
        """After the launcher has ended: look once more at what the ranks have left.

        Args:
            failed: Whether the job has.
            code: The exit code of the launcher, if it is known.
        """
        told_signal = killing_signal(self._command, code) if code is not None else None
        was_stopped = any(self._folder.glob(f"{STOP_PREFIX}*"))
        finding = self.unless_at_fault(
            lambda: self._judge.look_back(failed=failed, told_signal=told_signal, was_stopped=was_stopped)
        )
        if finding is not None:
            found = finding
            finding = self.unless_at_fault(lambda: self._rings.checked(found))
        if finding is None:
            self.unless_at_fault(lambda: self._warn(self._warning_watch.look_back(self._complete_jobs())))
        if failed:
            self.unless_at_fault(lambda: self._tell_unseen(at_end=True))
        return finding

    def tell_problems(self) -> tuple[str, ...]:
        """Tell what could not be watched and was not told yet; return all of it."""
        return self._problems.tell_rest()

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
        finding = self._rings.confirmed(self._judge.look) or self._look_at_passed()
        self._tell_unseen(at_end=finding is not None)
        if finding is not None:
            return finding
        for job in self._rings.known_jobs():
            finding = self._compiled.look(job) if not job.is_spread else None  # other hosts' processes are not here
            if finding is not None:
                return finding
            for notice in self._stragglers.look(job):
                if notice.finding is not None:
                    return notice.finding
                self._options.on_notice(notice)
        # what ranks elsewhere are doing is known when they stand still: warnings about those come at the end
        self._warn(self._warning_watch.look([job for job in self._rings.known_jobs() if not job.is_spread]))
        return None

    def _look_at_passed(self) -> Finding | None:
        """Judge calls of several hosts that nobody waits in."""
        finding = self._judge.look_at_passed()
        return self._rings.checked(finding) if finding is not None else None

    def _complete_jobs(self) -> list[WatchedJob]:
        """Return the jobs of which everything is known at the end; others may have done what is not here."""
        return [job for job in self._rings.jobs() if not job.is_spread or (not job.out_of_sight() and job.has_ended())]

    def _tell_unseen(self, *, at_end: bool) -> None:
        """Say which ranks are not watched, once and in time."""
        if not at_end and not self._sight.is_time():
            return
        if self._rings.address and (self._folder / DRIVER).exists():
            self._sight.expect_workers("Ray")
        unseen, num_seen = self._rings.out_of_sight(), self._rings.num_seen
        for text in self._sight.look(unseen, num_seen=num_seen, at_end=at_end, head=self._rings.address):
            self._options.on_unseen(text)

    def _warn(self, warnings: Sequence[JobWarning]) -> None:
        """Tell warnings, also to whoever watches the run from elsewhere."""
        for warning in warnings:
            self.warnings.append(warning)
            announce_warning(self._folder, warning)
            self._options.on_warning(warning)

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
        self.give_up(
            f"the guard itself failed ({what}). The job continues, but from now on its calls are not judged, and nobody"
            " notices if it hangs" + (f" before the limit of {limit:g} s" if limit is not None else "")
        )

    def give_up(self, fault: str) -> None:
        """Judge nothing from now on, and tell why."""
        self.fault = fault
        stop_judging(self._folder)
        self._rings.stop_answering()
        self._options.on_fault(fault)
