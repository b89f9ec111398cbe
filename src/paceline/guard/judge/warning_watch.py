"""Looks for what is certain and does not stop a job, and hands each warning out once.

While a job runs, a warning is handed out when two looks in a row find it: what ranks write meanwhile is not read at one
moment. After a good end nothing changes any more, and one look is enough.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence

from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.guard.verdict.snapshot import EndKind
from paceline.guard.verdict.warnings.find_warnings import find_warnings
from paceline.guard.verdict.warnings.ignore_comment import is_ignored

_LOOK_SECONDS = 0.5
_SECONDS_PER_RANK = 0.02  # added for each rank, so that many ranks take no larger share of the judge's time
_Key = tuple[str, WarningCause, tuple[str, ...]]  # job, cause, lines


class WarningWatch:
    """Watches the jobs of one run for warnings."""

    def __init__(self, source_of: Callable[[str], str | None], ignored: Collection[WarningCause]) -> None:
        """Watch.

        Args:
            source_of: Reads a file of the user, which may hold comments that silence warnings.
            ignored: Causes that are not to be told.
        """
        self._source_of, self._ignored = source_of, frozenset(ignored)
        self._seen: set[_Key] = set()  # at the last look
        self._told: set[_Key] = set()
        self._brief: set[tuple[str, WarningCause, str]] = set()  # what was found without the past
        self._marks: dict[str, tuple[int, ...]] = {}
        self._next = 0.0

    def look(self, jobs: Sequence[WatchedJob]) -> list[JobWarning]:
        """Return new warnings about jobs that run, if it is time to look."""
        if time.monotonic() < self._next:
            return []
        self._next = time.monotonic() + _LOOK_SECONDS + _SECONDS_PER_RANK * sum(len(job.ranks) for job in jobs)
        found: list[JobWarning] = []
        for job in jobs:
            marks = _marks(job)
            if marks == self._marks.get(job.name) and not self._seen:
                continue
            self._marks[job.name] = marks
            # most of the time there is nothing, and the past of all ranks takes long to read
            brief = {(job.name, *warning) for warning in self._find_briefly(job)}
            if self._seen or not brief <= self._brief:
                self._brief |= brief
                found += self._new(job, ended_well=False)
        return found

    def look_back(self, jobs: Sequence[WatchedJob]) -> list[JobWarning]:
        """Return new warnings about jobs that have ended; some things are certain only of one that ended well."""
        found: list[JobWarning] = []
        for job in jobs:
            self._seen |= {key for key, _ in self._find(job, ended_well=_ended_well(job))}
            found += self._new(job, ended_well=_ended_well(job))
        return found

    def _new(self, job: WatchedJob, *, ended_well: bool) -> list[JobWarning]:
        """Return what was found at the last look too, and has not been told."""
        now = self._find(job, ended_well=ended_well)
        new = [(key, warning) for key, warning in now if key in self._seen and key not in self._told]
        self._told |= {key for key, _ in new}
        self._seen = {key for key in self._seen if key[0] != job.name}
        self._seen |= {key for key, _ in now if key not in self._told}
        return [warning for _, warning in new if not self._is_silenced(job, warning)]

    def _find_briefly(self, job: WatchedJob) -> list[tuple[WarningCause, str]]:
        inspection = Inspection(job.snapshot(history=0), self._source_of)
        return [(warning.cause, warning.summary) for warning in find_warnings(inspection, ended_well=False)]

    def _find(self, job: WatchedJob, *, ended_well: bool) -> list[tuple[_Key, JobWarning]]:
        inspection = Inspection(job.snapshot(history=layout.NUM_SLOTS), self._source_of)
        found = find_warnings(inspection, ended_well=ended_well)
        return [((job.name, warning.cause, warning.sites[:1]), warning) for warning in found]

    def _is_silenced(self, job: WatchedJob, warning: JobWarning) -> bool:
        """Say whether an option silences it, or a comment at one of its lines."""
        if warning.cause in self._ignored:
            return True
        folders = {watched.reader.folder for watched in job.ranks.values()}
        for site in warning.sites:
            path, _, line = site.rpartition(":")
            for folder in folders:
                source = self._source_of(os.path.join(folder, path))
                if source is not None and line.isdigit() and is_ignored(source, int(line), warning.cause):
                    return True
        return False


def _marks(job: WatchedJob) -> tuple[int, ...]:
    """Return what changes when a rank has something to say, or has freed a communicator."""
    marks: list[int] = []
    for rank in job.ranks.values():
        rank.reader.read_texts()
        marks += [sum("remark" in text for text in rank.reader.texts), rank.reader.num_freed()]
    return tuple(marks)


def _ended_well(job: WatchedJob) -> bool:
    """Say whether every rank was seen, and has exited without an error."""
    ends = job.ends()
    if len(ends) < job.world_size or not job.has_ended():
        return False
    return all(end.kind is EndKind.EXITED and not end.exit_code for end in ends.values())
