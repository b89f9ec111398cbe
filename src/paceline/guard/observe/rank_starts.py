"""Ranks that have not joined a job yet: which processes they are, and which of them have ended before they did.

A rank may be started by way of a shell or another program that has the same variables. It has ended when none of its
processes is left, but for one whose Python has ended and whose destructors do not.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from paceline.errors import InputError
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.rank_ends import rank_end
from paceline.guard.observe.worlds.job_worlds import OutOfSight
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import MPI_INIT
from paceline.guard.shared_memory.ring_texts import shown_path
from paceline.guard.verdict.snapshot import Call, End, Membership, RankState, Snapshot, Waiting
from paceline.process.launchers import launched_rank
from paceline.process.private_files import read_private
from paceline.process.procfs import environ_of, is_alive

_MOST_NOTE_BYTES = 1 << 20
_RUN_FOLDER = "PACELINE_RUN_FOLDER"  # as the guard sets it
_LINGER_SECONDS = 0.5  # that a process may take to end once its Python has
_LOOK_SECONDS = 0.2  # between two searches for other processes of ranks whose Python has ended, and looks at a note
_SOON_SECONDS = 0.02  # the same for a rank that has just ended


def _number(value: object) -> int:
    """Return a number that a rank has noted; 0 if it is something else."""
    return value if isinstance(value, int) else 0


class LaunchedJob(NamedTuple):
    """What is equal for the ranks of one job, as their launcher has told them."""

    launcher: str
    size: int
    names: tuple[str, ...]


class StartNote:
    """What a rank says of itself before it has a ring. It answers what `rank_end` asks of a ring."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.texts: list[dict[str, Any]] = []
        self.is_of_this_clock = True  # otherwise nobody knows how times of it compare with ours

    def read_texts(self) -> None:
        """Read what has been written since."""
        lines: list[Any] = []
        with suppress(OSError, ValueError):  # the folder has gone, or the last line is not complete yet
            for line in read_private(self._path, most=_MOST_NOTE_BYTES).splitlines():
                lines.append(json.loads(line))
        texts = [line for line in lines if isinstance(line, dict)]
        # a process that has become another program by exec begins anew
        begins = [number for number, text in enumerate(texts) if "pid" in text]
        self.texts = texts[begins[-1] if begins else 0 :] or self.texts

    @property
    def first(self) -> dict[str, Any]:
        """What the rank has said at its start."""
        return self.texts[0] if self.texts else {}

    def word(self, index: int) -> int:
        """Return a word of the ring that the rank does not have yet."""
        last: dict[str, Any] = next((text for text in reversed(self.texts) if "ending" in text), {})
        if index == layout.ENDING:
            return _number(last.get("ending"))
        return _number(last.get("at")) if index == layout.ENDED_AT and self.is_of_this_clock else 0

    def frames_text(self, frames: list[list[Any]]) -> list[str]:
        """Return frames as file:line."""
        folder = str(self.first.get("folder", ""))
        return [f"{shown_path(str(frame[0]), folder)}:{int(frame[1])}" for frame in frames]

    def init_site(self) -> str | None:
        """Return from where the rank initialises MPI just now; None if it does not."""
        frames = next((text["init"] for text in reversed(self.texts) if "init" in text), None)
        return None if frames is None else next(iter(self.frames_text(frames[:1])), "")


@dataclass(slots=True)
class StartedRank:
    """A process that is a rank by its launcher."""

    job: LaunchedJob
    rank: int
    has_mpi: bool
    reader: StartNote
    process: ProcessHandle
    kills_before: int
    memory: list[tuple[float, int]] = field(default_factory=list)  # it is not looked at before the rank joins
    num_local: int | None = None  # how many ranks of the job are on this machine, as its launcher says
    was_seen_alive: bool = True  # otherwise nobody knows when it ended, only that it was before

    @property
    def said_how_it_ends(self) -> bool:
        """Whether it ended by itself, and said so."""
        return any(text.keys() & {"raised", "exit", "ending"} for text in self.reader.texts)

    def memory_growth(self) -> str:
        """Say nothing: it is not known."""
        return ""


class RankStarts:
    """The notes of all ranks of a run."""

    def __init__(
        self,
        folder: Path,
        kills_before: int,
        await_end: Callable[[ProcessHandle], None],
        process_of: Callable[[int, int], ProcessHandle] = ProcessHandle,
    ) -> None:
        self._folder, self._kills_before, self._await_end = folder, kills_before, await_end
        self._process_of = process_of
        self._started: dict[str, StartedRank] = {}  # by the name of the note
        self._living: list[tuple[int, tuple[LaunchedJob, int]]] = []  # processes of ranks, by the last search
        self._searched_at = 0.0
        self._looked_for: set[tuple[LaunchedJob, int]] = set()
        self._ended: set[tuple[LaunchedJob, int]] = set()
        self._lingering: dict[int, tuple[float, float]] = {}  # when a process was looked at, and since when it ends

    def read(self, names: Iterable[str]) -> None:
        """Take in the notes that are new."""
        for name in names:
            if name.startswith(layout.START_PREFIX) and name not in self._started:
                self._read_note(name)

    def _read_note(self, name: str) -> None:
        note = StartNote(self._folder / name)
        note.read_texts()
        first = note.first
        try:
            job = LaunchedJob(str(first["launcher"]), int(first["size"]), tuple(map(str, first["job"])))
            process = self._process_of(int(first["pid"]), int(first["began"]))
            rank, has_mpi = int(first["rank"]), bool(first["has_mpi"])
            num_local = None if first.get("local") is None else int(first["local"])
        except (KeyError, TypeError, ValueError):
            return  # it is not complete yet
        note.is_of_this_clock = not process.host
        self._await_end(process)
        self._started[name] = StartedRank(
            job,
            rank,
            has_mpi,
            note,
            process,
            self._kills_before,
            num_local=num_local,
            was_seen_alive=not process.ended_ns,
        )

    def all(self) -> list[StartedRank]:
        """Return all processes that have left a note."""
        return list(self._started.values())

    @property
    def num_started(self) -> int:
        """How many processes have left a note so far."""
        return len(self._started)

    def ranks_of(self, job: LaunchedJob) -> set[int]:
        """Return the ranks of a job that were started on this machine, or will be."""
        here = [started for started in self._started.values() if started.job == job and not started.process.is_lost]
        if any(started.num_local == job.size for started in here):
            return set(range(job.size))
        return {started.rank for started in here}

    def num_local(self, job: LaunchedJob) -> int | None:
        """Return how many ranks of a job are on this machine, if their launcher says so."""
        numbers = {started.num_local for started in self._started.values() if started.job == job}
        return numbers.pop() if len(numbers) == 1 else None

    def out_of_sight(self, joined: set[int]) -> list[OutOfSight | None]:
        """Return the ranks that are not seen of each job that no rank has joined yet."""
        known = {started.job for started in self._started.values()}
        begun = {started.job for started in self._started.values() if started.process.pid in joined}
        return [self._unseen_of(job) for job in sorted(known - begun)]

    def _unseen_of(self, job: LaunchedJob) -> OutOfSight | None:
        ranks = tuple(sorted(set(range(job.size)) - self.ranks_of(job)))
        return OutOfSight(ranks=ranks, world_size=job.size, num_local=self.num_local(job)) if ranks else None

    def place_of(self, pid: int) -> tuple[LaunchedJob, int] | None:
        """Return job and rank of a process, as its launcher has told it."""
        started = self._started.get(f"{layout.START_PREFIX}{pid}")
        return (started.job, started.rank) if started is not None else None

    def ended_early(self, joined: set[int]) -> dict[LaunchedJob, dict[int, StartedRank]]:
        """Return the ranks that have ended without joining a job; `joined` are the processes that have."""
        found: dict[LaunchedJob, dict[int, StartedRank]] = {}
        if all(started.process.pid in joined for started in self._started.values()):
            return found  # as in nearly every look
        for (job, rank), processes in self._by_rank().items():
            if any(started.process.pid in joined for started in processes):
                continue
            if all(self._has_left(started) for started in processes):
                last = max(processes, key=lambda started: started.process.ended_ns or math.inf)  # one may linger
                if self._is_gone(job, rank):
                    last.reader.read_texts()
                    found.setdefault(job, {})[rank] = last
        return {job: known for job, ranks in found.items() if (known := _in_known_order(ranks))}

    def _by_rank(self) -> dict[tuple[LaunchedJob, int], list[StartedRank]]:
        ranks: dict[tuple[LaunchedJob, int], list[StartedRank]] = {}
        for started in self._started.values():
            ranks.setdefault((started.job, started.rank), []).append(started)
        return ranks

    def _is_gone(self, job: LaunchedJob, rank: int) -> bool:
        """Say whether no process of a rank is left, such as a shell that may start another Python."""
        key, now = (job, rank), time.monotonic()
        if key not in self._ended:
            # one that was alive at the last search is looked for again after a while
            if now - self._searched_at >= (_LOOK_SECONDS if key in self._looked_for else _SOON_SECONDS):
                self._searched_at, self._living = now, list(_living_ranks(self._folder))
            self._looked_for.add(key)
            lingering = {pid for pid, (_, ends_since) in self._lingering.items() if ends_since}
            if all(found != key or pid in lingering for pid, found in self._living):
                self._ended.add(key)
        return key in self._ended

    def _has_left(self, started: StartedRank) -> bool:
        """Say whether a process has ended, or its Python has and something in it, such as a destructor, does not."""
        pid, now = started.process.pid, time.monotonic()
        if started.process.has_ended():
            self._lingering.pop(pid, None)
            return True
        # of processes elsewhere the time is not known; a program that embeds Python goes on without it
        if started.process.host or not started.reader.first.get("is_python"):
            return False
        looked_at, ends_since = self._lingering.get(pid, (0.0, 0.0))
        if now - looked_at >= _LOOK_SECONDS:
            started.reader.read_texts()
            is_ending = started.reader.word(layout.ENDING) != layout.LIVES
            ends_since = (ends_since or now) if is_ending else 0.0
            self._lingering[pid] = now, ends_since
        return bool(ends_since) and now - ends_since > _LINGER_SECONDS

    def starting(self, joined: set[int], *, has_ended: bool = False) -> Iterator[Snapshot]:
        """Yield the jobs that no rank has joined, of which a rank has ended while others initialise MPI.

        Args:
            joined: The processes that are ranks of a job.
            has_ended: The launcher has: then it does not matter where others were.
        """
        for job, gone in self.ended_early(joined).items():
            members = [started for started in self._started.values() if started.job == job]
            if any(started.process.pid in joined for started in members):
                continue
            states = self._states(members, gone)
            if has_ended or any(state is not None and state.waits for state in states):
                world = Membership(name="WORLD", ranks=tuple(range(job.size)))
                started = frozenset(self.ranks_of(job))
                yield Snapshot(ranks=states, communicators={MPI_INIT: world}, starting=started)

    def _states(self, members: list[StartedRank], gone: Mapping[int, StartedRank]) -> list[RankState | None]:
        states: list[RankState | None] = [None] * members[0].job.size
        for started in members:
            if started.rank in gone:
                states[started.rank] = early_state(started.rank, rank_end(gone[started.rank]))
                continue
            started.reader.read_texts()
            site = started.reader.init_site() if started.has_mpi and not started.process.has_ended() else None
            if site is not None:
                call = Call(operation=MPI_INIT, communicator=MPI_INIT, sequence=1, site=site)
                states[started.rank] = RankState(
                    rank=started.rank, threads=(Waiting(call=call),), positions={MPI_INIT: 1}, history=(call,)
                )
        return states


def _in_known_order(ranks: dict[int, StartedRank]) -> dict[int, StartedRank]:
    """Leave ranks out that were killed, if nobody knows which was the first: one may have gone before we saw it.

    Of one that was never seen alive it is known only that it ended before we looked; so it was the first if all others
    were seen alive after that.
    """
    killed = {rank: started for rank, started in ranks.items() if not started.said_how_it_ends}
    unseen = [started.process for started in killed.values() if not started.was_seen_alive]
    seen = [started.process for started in killed.values() if started.was_seen_alive]
    if len(killed) < 2 or not unseen:
        return ranks
    if len(unseen) == 1 and all(process.alive_ns >= unseen[0].ended_ns for process in seen):
        return ranks
    return {rank: started for rank, started in ranks.items() if rank not in killed}


def early_state(rank: int, end: End | None) -> RankState:
    """Return the state of a rank that has ended before it joined the job."""
    return RankState(rank=rank, end=end, threads=())


def _living_ranks(folder: Path) -> Iterator[tuple[int, tuple[LaunchedJob, int]]]:
    """Yield the processes of a run, and which rank each is by its variables."""
    for name in os.listdir("/proc"):
        variables = environ_of(int(name)) if name.isdecimal() else {}
        if variables.get(_RUN_FOLDER) == str(folder) and is_alive(int(name)):
            with suppress(InputError):
                place = launched_rank(variables)
                if place is not None and place.world_size is not None:
                    job = LaunchedJob(place.launcher.name, place.world_size, place.job)
                    yield int(name), (job, place.rank)
