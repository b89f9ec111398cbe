"""The rings of the ranks on this machine: which jobs there are, and when a rank has ended.

Each process has one ring, and the ring has a name for each world that the process is in: ring.WORLD.RANK, all of them
links to one file. Which processes make a job: job_worlds.py. `Rings` is all that the judge needs of a source of
records; `LocalRings` reads them from shared memory.
"""

from __future__ import annotations

import os
import resource
import select
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from paceline.guard.observe.job_worlds import WorldMember, group_into_jobs
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.shared_memory import layout
from paceline.process.procfs import out_of_memory_kills


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


@dataclass(slots=True)
class _HeldRing:
    """A ring that we hold open, and the names that its process has in its worlds."""

    reader: RingReader
    rank: WatchedRank | None = None  # None until the process has finished setting its ring up
    names: dict[str, int] = field(default_factory=dict)  # world -> rank there


class LocalRings:
    """The rings of ranks on this machine, in the folder of their run."""

    def __init__(self, folder: Path) -> None:
        _allow_many_files()
        self._folder = folder
        self._jobs: list[WatchedJob] = []
        self._seen: set[str] = set()  # names of rings that belong to a job
        self._rings: dict[int, _HeldRing] = {}  # by inode: a ring may have several names
        self._kills_before = out_of_memory_kills()
        self._ends = select.epoll()
        self._awaited: dict[int, ProcessHandle] = {}  # by descriptor: processes that have not ended

    def jobs(self) -> list[WatchedJob]:
        """Return the jobs that are known now."""
        new = [name for name in os.listdir(self._folder) if name.startswith("ring.") and name not in self._seen]
        num_joined = sum(self._read_name(name) for name in sorted(new))
        if num_joined:
            self._jobs = self._make_jobs()
        return self.known_jobs()

    def known_jobs(self) -> list[WatchedJob]:
        """Return the jobs that were known at the last look."""
        return list(self._jobs)

    def _read_name(self, name: str) -> bool:
        """Take in a name of a ring; say whether its process is now known to be in that world."""
        status = (self._folder / name).stat()
        if status.st_size < layout.RING_BYTES:
            return False
        if status.st_ino not in self._rings:
            self._rings[status.st_ino] = _HeldRing(RingReader(self._folder / name))
        held = self._rings[status.st_ino]
        if not held.reader.is_complete:
            return False
        held.reader.read_texts()
        world, _, rank = name.removeprefix("ring.").rpartition(".")
        if world not in held.reader.worlds:  # the process has taken the name, and is about to tell of the world
            return False
        if held.rank is None:
            process = ProcessHandle(held.reader.word(layout.PID), held.reader.word(layout.START_TIME))
            held.rank = WatchedRank(held.reader, process, self._kills_before)
            self.await_end(process)
        held.names[world] = int(rank)
        self._seen.add(name)
        return True

    def _make_jobs(self) -> list[WatchedJob]:
        members = [
            WorldMember(process=inode, world=world, size=held.reader.worlds[world].size, rank=held.names[world])
            for inode, held in self._rings.items()
            for world in held.reader.worlds
            if world in held.names
        ]
        jobs = []
        for found in group_into_jobs(members):
            ranks = {}
            for number, inode in found.processes.items():
                rank = self._rings[inode].rank  # type: ignore[index]
                assert rank is not None
                ranks[number] = rank
            jobs.append(WatchedJob(found, ranks))
        return jobs

    def problems(self) -> list[str]:
        """Return why processes could not be watched, in their own words."""
        return sorted({path.read_text() for path in self._folder.glob("problem.*")})

    def await_end(self, process: ProcessHandle) -> None:
        """Note when this process ends, and in which order with the others."""
        if process.descriptor is not None:
            self._awaited[process.descriptor] = process
            self._ends.register(process.descriptor, select.EPOLLIN)
            process.note_ends = self._note_ends

    def wait(self, seconds: float) -> None:
        """Wait for the given time, or until a process has ended."""
        self._note_ends(seconds)

    def _note_ends(self, seconds: float = 0.0) -> None:
        """Note which processes have ended, before anything else is done.

        The kernel lists them in the order in which they ended, also those that ended while we were busy or had no
        processor: so the times of their ends tell a rank that died from those that were ended because of it.
        """
        descriptors = [descriptor for descriptor, _ in self._ends.poll(seconds)]
        now = time.monotonic_ns()
        ended = [self._awaited.pop(descriptor) for descriptor in descriptors]
        for number, process in enumerate(ended):
            process.note_end(now + number)
        for process, descriptor in zip(ended, descriptors, strict=True):
            self._ends.unregister(descriptor)
            process.ask_status()  # while the kernel still tells

    def close(self) -> None:
        """Let go of everything."""
        for process in self._awaited.values():
            process.note_ends = None
        self._ends.close()
        for held in self._rings.values():
            held.reader.close()
            if held.rank is not None:
                held.rank.process.close()


def _allow_many_files() -> None:
    """Raise the limit on open files: we hold two for each rank, and the usual limit is meant for few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
