"""The rings of the ranks on this machine: which jobs there are, and when a rank has ended.

Each process has one ring, and the ring has a name for each world that the process is in: ring.WORLD.RANK, all of them
links to one file. Which processes make a job: job_worlds.py. `Rings` is all that the judge needs of a source of
records; `LocalRings` reads them from shared memory.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from paceline.guard.observe.kernel_view import ProcessEnds, ProcessHandle
from paceline.guard.observe.rank_starts import LaunchedJob, RankStarts, StartedRank
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.observe.worlds.bridges import Bridge, JobMeeting, find_bridges, read_meetings, rename_half
from paceline.guard.observe.worlds.job_worlds import (
    JobMembers,
    Link,
    OutOfSight,
    WorldMember,
    group_into_jobs,
    join_linked,
)
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.lifeline import open_lifeline
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.rules.passed import Passed
from paceline.guard.verdict.snapshot import Snapshot
from paceline.process.private_files import names_in, read_private, write_private
from paceline.process.procfs import out_of_memory_kills

# what people call the world of those that another job has met
_NAMES = {"Get_parent": "the spawned WORLD", "Connect": "the connected WORLD"}
_MOST_PROBLEM_BYTES = 65_536
_EMPTY = "empty."  # begins the name of a file that takes the place of a ring
_LOST_FOLDER = "somebody removed the folder of the run, so ranks that joined after that are not seen"


@dataclass(slots=True)
class HeldRing:
    """A ring that we hold open, and the names that its process has in its worlds."""

    reader: RingReader
    rank: WatchedRank | None = None  # None until the process has finished setting its ring up
    names: dict[str, int] = field(default_factory=dict)  # world -> rank there


def rank_of(held: HeldRing) -> WatchedRank:
    """Return the rank of a ring that is complete."""
    assert held.rank is not None
    return held.rank


class LocalRings:
    """The rings of ranks on this machine, in the folder of their run.

    Attributes:
        address: Where watchers of other hosts call us; empty if nobody does.
    """

    def __init__(self, folder: Path, process_of: Callable[[int, int], ProcessHandle] = ProcessHandle) -> None:
        _allow_many_files()
        self._folder, self._process_of, self.address = folder, process_of, ""
        self._jobs: list[WatchedJob] = []
        self._has_lost_folder = self._is_removed = False  # what was open before stays readable
        self._seen: set[str] = set()  # names of rings that belong to a job
        self._rings: dict[int, HeldRing] = {}  # by inode: a ring may have several names
        self._kills_before = out_of_memory_kills()
        self._ends = ProcessEnds()
        self._starts = RankStarts(folder, self._kills_before, self.await_end, process_of)
        self._meetings: list[JobMeeting] = []  # of jobs with others
        self._bridges: list[Bridge] = []  # between jobs that have certainly met
        self._rename: Callable[[str], str] = str  # of communicators over these bridges
        self._early: dict[LaunchedJob, dict[int, StartedRank]] = {}  # ranks that have ended before they joined
        self._hidden: set[int] = set()  # rings of hosts that are not heard of: their ranks may do anything
        self._num_started = 0  # processes that have left a note that they are ranks

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self._folder

    def jobs(self) -> list[WatchedJob]:
        """Return the jobs that are known now."""
        names = names_in(self._folder)
        self._has_lost_folder |= not names and not self._is_removed and not self._folder.exists()
        new = [name for name in names if name.startswith("ring.") and name not in self._seen]
        num_joined = sum(self._read_name(name) for name in sorted(new))
        self._starts.read(names)
        early = self._starts.ended_early(self._joined())
        has_met, num_started = self._read_meetings(), self._starts.num_started
        hidden = {inode for inode, held in self._rings.items() if held.rank is not None and held.rank.process.is_lost}
        is_new = hidden != self._hidden or early != self._early or num_started != self._num_started
        if num_joined or has_met or is_new:
            self._hidden, self._early, self._num_started = hidden, early, num_started
            self._jobs = self._make_jobs()
        return self.known_jobs()

    def _read_meetings(self) -> bool:
        """Read which jobs have met others; say whether it is known of more of them now who has met whom."""
        meetings: list[JobMeeting] = []
        for held in self._rings.values():
            held.reader.read_texts()
            meetings += read_meetings(held.reader.texts)
        # of those that were seen at the last look: whoever they have met said so before, and was read after that
        seen = {meeting.bridge for meeting in self._meetings}
        self._meetings, bridges = meetings, find_bridges([
            meeting for meeting in meetings if meeting.bridge in seen or not meeting.is_second
        ])  # fmt: skip
        if bridges == self._bridges:
            return False
        self._bridges = bridges
        names = {bridge.second.bridge: (bridge.first.world, bridge.first.bridge) for bridge in bridges}
        self._rename = partial(rename_half, names=names)
        for held in self._rings.values():
            held.reader.rename_communicators(self._rename)
        return True

    def _joined(self) -> set[int]:
        """Return the processes that are ranks of a job."""
        return {held.rank.process.pid for held in self._rings.values() if held.rank is not None}

    def starting(self, *, has_ended: bool = False) -> list[Snapshot]:
        """Return the jobs that no rank has joined yet, and in which one has ended that others need."""
        return list(self._starts.starting(self._joined(), has_ended=has_ended))

    def out_of_sight(self) -> list[OutOfSight]:
        """Return the ranks of each job that are not seen on this machine."""
        found = [job.out_of_sight() for job in self._jobs] + self._starts.out_of_sight(self._joined())
        return [unseen for unseen in found if unseen is not None]

    def held_rings(self) -> list[HeldRing]:
        """Return the rings that are complete, as of the last look."""
        return [held for held in self._rings.values() if held.rank is not None]

    def started(self) -> list[tuple[StartedRank, bool]]:
        """Return the processes that are ranks by their launcher and have not joined, and whether each has gone."""
        early = [started.process for ranks in self._early.values() for started in ranks.values()]
        gone = {process.pid for process in early if process.ended_ns}  # others linger, and are not told of elsewhere
        joined = self._joined()
        return [
            (started, started.process.pid in gone)
            for started in self._starts.all()
            if started.process.pid not in joined
        ]

    @property
    def num_seen(self) -> int:
        """How many processes are ranks of a job, or have said that they will be."""
        return len(self._rings) + self._starts.num_started

    def shown_jobs(self) -> list[WatchedJob]:
        """Return the jobs for a view: somebody looks at them now."""
        return self.jobs()

    def remove_files_of_ended(self) -> None:
        """Remove the files of worlds, none of whose ranks lives here any more; what we hold of them stays readable.

        The names of rings stay, of empty files: a later script under the same launcher sees by them that it is another.
        """
        worlds = {world for held in self.held_rings() for world in held.names}
        with suppress(OSError):  # somebody removes the folder just now
            for name in names_in(self._folder):
                if any(name.startswith(f"board.{world}.") for world in worlds):
                    (self._folder / name).unlink(missing_ok=True)
                elif any(name.startswith(f"ring.{world}.") for world in worlds):
                    empty = self._folder / f"{_EMPTY}{name}"
                    write_private(empty, b"")
                    os.replace(empty, self._folder / name)

    def remove_folder(self) -> None:
        """Remove the folder of the run, whose ranks are killed next; what we hold of it stays readable."""
        self._is_removed = True
        shutil.rmtree(self._folder, ignore_errors=True)

    def known_jobs(self) -> list[WatchedJob]:
        """Return the jobs that were known at the last look."""
        return list(self._jobs)

    def _read_name(self, name: str) -> bool:
        """Take in a name of a ring; say whether its process is now known to be in that world."""
        try:
            status = (self._folder / name).stat()
            if status.st_size < layout.RING_BYTES:
                return False
            if status.st_ino not in self._rings:
                reader = RingReader(self._folder / name)
                reader.rename_communicators(self._rename)
                self._rings[status.st_ino] = HeldRing(reader)
        except FileNotFoundError:  # somebody removes the folder just now
            return False
        held = self._rings[status.st_ino]
        if not held.reader.is_complete:
            return False
        held.reader.read_texts()
        world, _, rank = name.removeprefix("ring.").rpartition(".")
        if world not in held.reader.worlds:  # the process has taken the name, and is about to tell of the world
            return False
        if held.rank is None:
            process = self._process_of(held.reader.word(layout.PID), held.reader.word(layout.START_TIME))
            held.rank = WatchedRank(held.reader, process, self._kills_before)
            self.await_end(process)
        held.names[world] = int(rank)
        self._seen.add(name)
        return True

    def _make_jobs(self) -> list[WatchedJob]:
        return self._jobs_of(self._rings)

    def _jobs_of(self, rings: Mapping[int, HeldRing]) -> list[WatchedJob]:
        members = [
            WorldMember(process=inode, world=world, size=held.reader.worlds[world].size, rank=held.names[world])
            for inode, held in rings.items()
            for world in held.reader.worlds
            if world in held.names
        ]
        jobs = []
        links = [Link(first=bridge.first.world, second=bridge.second.world, name=_NAMES[bridge.second.kind])
                 for bridge in self._bridges]  # fmt: skip
        for found in join_linked(group_into_jobs(members), links):
            ranks = {}
            for number, inode in found.processes.items():
                rank = self._rings[inode].rank  # type: ignore[index]
                assert rank is not None
                if inode not in self._hidden:
                    ranks[number] = rank
            launched = self._launched(found, ranks)
            early = self._early.get(launched, {}) if launched is not None else {}
            early = {number: started for number, started in early.items() if number not in ranks}
            starting, num_local = self._starting_here(found, launched)
            jobs.append(WatchedJob(found, ranks, early, self._rename, starting - ranks.keys(), num_local))
        return jobs

    def _starting_here(self, found: JobMembers, launched: LaunchedJob | None) -> tuple[frozenset[int], int | None]:
        """Return the ranks that were started on this machine, or will be, and how many the launcher says there are."""
        if launched is None:
            return frozenset(), None
        num_local = self._starts.num_local(launched)
        if num_local == launched.size:  # then those that its ranks spawn are here too
            return frozenset(range(found.num_numbers)), num_local
        return frozenset(self._starts.ranks_of(launched)), num_local

    def _launched(self, found: JobMembers, ranks: Mapping[int, WatchedRank]) -> LaunchedJob | None:
        """Return the job as its launcher knows it, if all that have joined have the same numbers there.

        Only then are ranks that have not joined known by the numbers of the launcher.
        """
        own = {number: rank for number, rank in ranks.items() if number not in found.world_ranks}
        places = {number: self._starts.place_of(rank.process.pid) for number, rank in own.items()}
        launched = {place[0] for place in places.values() if place is not None}
        if len(launched) != 1 or any(place is None or place[1] != number for number, place in places.items()):
            return None
        (job,) = launched
        return job if job.size == found.world_size - len(found.world_ranks) else None

    def problems(self) -> list[str]:
        """Return why processes could not be watched, in their own words."""
        texts = {_LOST_FOLDER} if self._has_lost_folder else set()
        for path in self._folder.glob("problem.*"):
            with suppress(OSError):  # the folder has gone
                text = read_private(path, most=_MOST_PROBLEM_BYTES).decode(errors="replace")
                texts.add(text or f"process {path.suffix[1:]} cannot be watched: there was no room to say why")
        return sorted(texts)

    def await_end(self, process: ProcessHandle) -> None:
        """Note when this process ends, and in which order with the others."""
        self._ends.register(process, open_lifeline(self._folder, process.pid))

    @property
    def ends_descriptor(self) -> int:
        """What is readable when a process has ended."""
        return self._ends.descriptor

    def wait(self, seconds: float) -> None:
        """Wait for the given time, or until a process has ended."""
        self._ends.note(seconds)

    def confirmed(self, look: Callable[[], Finding | None]) -> Finding | None:
        """Look, and return a finding if it is certain: what is read here was read at one moment."""
        return look()

    def passed_differences(self) -> list[tuple[WatchedJob, Passed]]:
        """Return what does not fit between ranks that could not see each other: here all see each other."""
        return []

    def hear_last_words(self, *, failed: bool) -> None:
        """After the launcher has ended: wait a moment for ranks that are killed and have not come to it."""
        self._ends.note_coming()

    def stop_answering(self) -> None:
        """Nobody judges any more: ranks of this machine see that by the lock of the judge."""

    def checked(self, finding: Finding) -> Finding | None:
        """Return what is left of a finding about ranks that have ended: of one machine the kernel tells their order."""
        return finding

    def processes_to_end(self, *, after_launcher: bool = False) -> list[ProcessHandle]:
        """Return the ranks that are to be ended: with the job, or because they have outlived their launcher."""
        return [process for job in self._jobs for process in job.processes()]

    def tell_finding(self, finding: Finding) -> None:
        """Have a finding told wherever somebody started ranks of the job: that is here."""

    def await_leaving(self) -> None:
        """Give hosts that were told of a finding a moment to remove what ranks would leave."""

    def end_elsewhere(self, *, after_launcher: bool) -> None:
        """End the ranks of other hosts, of which there are none."""

    def close(self) -> None:
        """Let go of everything."""
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
