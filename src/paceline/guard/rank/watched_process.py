"""The watched process: whether it is a rank, of which job, and where it writes its records. One session per process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory import layout
from paceline.process.launchers import LAUNCHER_JOB_VARIABLES, LAUNCHER_PROGRAMS
from paceline.process.procfs import ancestors_of, start_time
from paceline.process.stacks import OF_JUDGE, StackAnswers

RUN_FOLDER = "PACELINE_RUN_FOLDER"  # the variable that says where records go
_MAX_GENERATIONS = 1000


class Session:
    """What this process records to, if it is a rank that is watched."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.recorder: Recorder | None = None
        self._lock = threading.Lock()
        self._is_child_of_rank = False
        self._answers: StackAnswers | None = None  # lets the judge ask where this rank is
        self._num_joined: dict[str, int] = {}  # by carrier

    def open(self, folder: Path) -> None:
        """Say where records go. Nothing is written before the process joins a job."""
        self.folder = folder
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Stop recording in a forked child: it is not the rank, but has the rank's memory and must not write to it."""
        self._lock = threading.Lock()
        if self.recorder is not None:
            self._is_child_of_rank = True
            self.recorder = None

    def join(self, carrier: str, *, rank: int, world_size: int, job: str) -> Recorder | None:
        """Become a rank of a world; None if this process cannot be watched there.

        A process may be in several: mpi4py's, which has one rank where no mpiexec has started it, and torch's.
        """
        with self._lock:
            if self.folder is None or self._is_child_of_rank:
                return None
            number = self._num_joined[carrier] = self._num_joined.get(carrier, 0) + 1
            name = hashlib.blake2b(f"{carrier} {world_size} {job} {number}".encode(), digest_size=6).hexdigest()
            if not self._enter(name, carrier, rank, world_size):
                return None
            if self._answers is None:
                file = (self.folder / f"stack.{os.getpid()}").open("w")
                self._answers = StackAnswers(file, OF_JUDGE)
            return self.recorder

    def answer_no_more(self) -> None:
        """Python ends now; let no question of the judge that comes afterwards kill the process."""
        if self._answers is not None:
            self._answers.stop()

    def leave_signal(self, number: int) -> None:
        """Make way for a handler of the script's own."""
        if self._answers is not None:
            self._answers.give_up(number)

    def _enter(self, world: str, carrier: str, rank: int, world_size: int) -> bool:
        """Take the name of a rank of this world for our ring, which is made if there is none yet."""
        assert self.folder is not None
        for generation in range(_MAX_GENERATIONS):
            name = f"{world}.{generation}.{rank}"
            try:
                if self.recorder is None:
                    self.recorder = Recorder(self.folder, name, rank=rank, world_size=world_size, carrier=carrier)
                else:
                    self.recorder.join_world(name, rank=rank, world_size=world_size, carrier=carrier)
            except FileExistsError:
                # The ring is that of a script that ran before us under the same launcher: the next generation is ours.
                # Or it is that of the rank that started us as a subprocess: then we are not a rank.
                if _is_alive(self.folder / f"ring.{name}"):
                    return False
            except OSError as error:
                with contextlib.suppress(OSError):
                    (self.folder / f"problem.{os.getpid()}").write_text(f"rank {rank} cannot be watched: {error}")
                return False
            else:
                return True
        return False

    def world(self, carrier: str, rank: int, world_size: int) -> Communicator | None:
        """Return the communicator of all ranks."""
        if self.recorder is None:
            return None
        return self.recorder.communicator(f"{carrier}-world", "WORLD", range(world_size), rank)

    def note_failure(self, error: BaseException, number: int) -> None:
        """Remember which call raised, in case nobody catches the exception."""
        if self.recorder is not None:
            self.recorder.fail(number)
            with contextlib.suppress(AttributeError):  # an exception that takes no notes
                error._paceline_call = number  # type: ignore[attr-defined]

    def tell(self, value: dict[str, Any]) -> None:
        """Append a text to the ring, for what is said once. It never raises: a script that ends or aborts calls it."""
        if self.recorder is not None:
            with contextlib.suppress(Exception):
                self.recorder.ring.write_text(value)


SESSION = Session()


def identity_of(*parts: object) -> str:
    """Return a short name for a communicator that is the same on all its members."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _is_alive(ring: Path) -> bool:
    with ring.open("rb") as file:
        head = memoryview(file.read(64)).cast("Q")
    try:
        return len(head) > layout.START_TIME and start_time(head[layout.PID]) == head[layout.START_TIME]
    except OSError:
        return False


def launcher_name(environ: Mapping[str, str]) -> str:
    """Return what tells one job from another that runs at the same time: names from the launcher, or its pid."""
    named = [environ[name] for name in LAUNCHER_JOB_VARIABLES if name in environ]
    if named:
        return " ".join(named)
    for pid, stat in ancestors_of(os.getpid()):
        if stat.name in LAUNCHER_PROGRAMS:
            return f"{stat.name} {pid}"
    return f"alone {os.getpid()}"
