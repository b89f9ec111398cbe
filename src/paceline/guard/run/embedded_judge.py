"""The judge of a job that switched the guard on by itself: it has no launcher to start, only ranks to look at."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.guard.judge.judge import Judge
from paceline.guard.judge.stragglers import Stragglers
from paceline.guard.observe.kernel_view import end_all
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.run.watched_run import LOOK_SECONDS, Options
from paceline.guard.verdict.finding import Finding
from paceline.launch.mpi_leftovers import mpi_files_now, remove_mpi_leftovers
from paceline.process.procfs import is_there, start_time

_JOIN_SECONDS = 3.0  # how long to wait for the first rank, once the one that started us has gone


def watch_ranks(folder: Path, starter: int, options: Options) -> tuple[Finding, Path | None] | None:
    """Judge until the ranks have gone, or a finding is certain; then kill them. Remove the folder in the end."""
    mpi_files = mpi_files_now()
    with _rings(folder) as rings:
        finding = _watch(rings, folder, starter, options)
        if finding is None:
            return None
        end_all([], also=[process for job in rings.jobs() for process in job.processes()])
        remove_mpi_leftovers(mpi_files)
        return finding, options.keep(folder, rings.jobs(), finding)


@contextmanager
def _rings(folder: Path) -> Iterator[LocalRings]:
    rings = LocalRings(folder)
    try:
        (folder / "judge").write_text(f"{os.getpid()} {start_time(os.getpid())}")
        yield rings
    finally:
        rings.close()
        shutil.rmtree(folder, ignore_errors=True)


def _watch(rings: LocalRings, folder: Path, starter: int, options: Options) -> Finding | None:
    judge = Judge(rings, folder)
    stragglers = Stragglers(options.notice_seconds, options.timeout_seconds)
    lonely_since = None
    while True:
        rings.wait(LOOK_SECONDS)
        found = judge.look()
        if found is not None:
            return found
        worlds = rings.jobs()
        for notice in [notice for world in worlds for notice in stragglers.look(world)]:
            if notice.finding is not None:
                return notice.finding
            options.on_notice(notice)
        if worlds and all(world.has_ended() for world in worlds):
            return judge.look_back(failed=True)
        if not worlds and not is_there(starter):
            lonely_since = lonely_since or time.monotonic()
            if time.monotonic() - lonely_since > _JOIN_SECONDS:
                return None
