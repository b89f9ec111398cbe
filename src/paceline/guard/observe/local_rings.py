"""The rings of the ranks on this machine: which jobs there are, and when a rank has ended.

`Rings` is all that the judge needs of a source of records; `LocalRings` reads them from shared memory.
"""

from __future__ import annotations

import os
import resource
import select
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.shared_memory import layout


class Rings(Protocol):
    """Where the records of ranks come from."""

    def jobs(self) -> list[WatchedJob]:
        """Return the jobs that are known now."""

    def wait(self, seconds: float) -> None:
        """Wait for the given time, or until a rank has ended."""

    def problems(self) -> list[str]:
        """Return why processes could not be watched, in their own words."""

    def close(self) -> None:
        """Let go of everything."""


class LocalRings:
    """The rings of ranks on this machine, in the folder of their run."""

    def __init__(self, folder: Path) -> None:
        _allow_many_files()
        self._folder = folder
        self._jobs: dict[str, WatchedJob] = {}
        self._seen: set[str] = set()  # names of ring files that belong to a job
        self._unfinished: dict[str, RingReader] = {}  # rings that their rank is still setting up, by file name

    def jobs(self) -> list[WatchedJob]:
        """Return the jobs that are known now."""
        for name in os.listdir(self._folder):
            if name.startswith("ring.") and name not in self._seen:
                self._read_new_ring(name)
        return list(self._jobs.values())

    def _read_new_ring(self, name: str) -> None:
        """Add the rank of a ring file, named ring.JOB.GENERATION.RANK, once the rank has finished setting it up."""
        path = self._folder / name
        if path.stat().st_size < layout.RING_BYTES:
            return
        reader = self._unfinished.pop(name, None) or RingReader(path)
        if not reader.is_complete:
            self._unfinished[name] = reader
            return
        self._seen.add(name)
        job_name, _, rank = name.removeprefix("ring.").rpartition(".")
        job = self._jobs.setdefault(job_name, WatchedJob(job_name, reader.word(layout.WORLD_SIZE)))
        job.add(int(rank), reader)

    def problems(self) -> list[str]:
        """Return why processes could not be watched, in their own words."""
        return sorted(
            {(self._folder / name).read_text() for name in os.listdir(self._folder) if name.startswith("problem.")}
        )

    def wait(self, seconds: float) -> None:
        """Wait for the given time, or until a rank has ended."""
        ends = select.poll()
        for job in self._jobs.values():
            for process in job.processes():
                if process.descriptor is not None:
                    ends.register(process.descriptor, select.POLLIN)
        ends.poll(seconds * 1000)

    def close(self) -> None:
        """Let go of everything."""
        for job in self._jobs.values():
            for rank in job.ranks.values():
                rank.reader.close()
                rank.process.close()


def _allow_many_files() -> None:
    """Raise the limit on open files: we hold two for each rank, and the usual limit is meant for few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
