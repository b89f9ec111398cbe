"""The watched process: whether it is a rank, of which job, and where it writes its records. One session per process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.call_sites import current_frames
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.compiled_recorder import RecorderInUse
from paceline.guard.rank.remarks.withdrawn_calls import is_refusal, withdraw
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.lifeline import Lifeline, hold_lifeline
from paceline.guard.shared_memory.rank_start import RankStart
from paceline.process.launchers import LAUNCHER_JOB_VARIABLES, LAUNCHER_PROGRAMS, hydra_job
from paceline.process.private_files import open_private, write_private
from paceline.process.procfs import ancestors_of, command_of, start_time
from paceline.process.stacks import OF_JUDGE, StackAnswers

RUN_FOLDER = "PACELINE_RUN_FOLDER"  # the variable that says where records go
RESULTS = "PACELINE_RESULTS"  # "on": what comes out of collectives is compared
BUFFERS = "PACELINE_BUFFERS"  # "off": what buffers hold is not compared, which takes most of the time that they cost
_MAX_GENERATIONS = 1000


class Session:
    """What this process records to, if it is a rank that is watched."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.recorder: Recorder | None = None
        self.start: RankStart | None = None  # the note of a rank that has not joined a job yet
        self._lock = threading.Lock()
        self._is_child_of_rank = False
        self._answers: StackAnswers | None = None  # lets the judge ask where this rank is
        self._lifeline: Lifeline | None = None  # tells the judge when this process ends
        self._joined: dict[str, str] = {}  # carrier -> the world that this process joined last

    @staticmethod
    def compares_buffers() -> bool:
        """Say whether samples of what requests send are taken and compared."""
        return os.environ.get(BUFFERS, "").lower() not in ("off", "0", "no")

    @staticmethod
    def compares_results() -> bool:
        """Say whether ranks compare what came out of collectives."""
        return os.environ.get(RESULTS, "").lower() in ("on", "1", "yes")

    def open(self, folder: Path) -> None:
        """Say where records go. Only a note that this is a rank is written before the process joins a job."""
        self.folder = folder
        self.start = RankStart.of_this_process(folder)
        if self.start is not None:
            self._lifeline = hold_lifeline(folder)
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Stop recording in a forked child: it is not the rank, but has the rank's memory and must not write to it."""
        self._lock = threading.Lock()
        self.start = None
        if self._lifeline is not None:
            self._lifeline.let_go()
            self._lifeline = None
        if self.recorder is not None:
            self._is_child_of_rank = True
            self.recorder = None

    def join(self, carrier: str, *, rank: int, world_size: int, job: str, number: int = 1) -> Recorder | None:
        """Become a rank of a world; None if this process cannot be watched there.

        A process may be in several: mpi4py's, which has one rank where no mpiexec has started it, and torch's. The
        number tells those apart that one job has one after the other, and must be the same on all ranks.
        """
        with self._lock:
            if self.folder is None or self._is_child_of_rank:
                return None
            if world_size == 1:  # it has nobody in common with a world of one elsewhere, whoever started both
                job = f"{job} {os.uname().nodename} {self.folder}"
            name = hashlib.blake2b(f"{carrier} {world_size} {job} {number}".encode(), digest_size=6).hexdigest()
            if self._joined.get(carrier) != name and not self._enter(name, carrier, rank, world_size):
                return None
            self._joined[carrier] = name
            if self._answers is None:
                with contextlib.suppress(OSError):  # no room, or the folder has gone: the judge cannot ask
                    descriptor = open_private(
                        self.folder / f"stack.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                    )
                    self._answers = StackAnswers(os.fdopen(descriptor, "w"), OF_JUDGE)
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
                    self.recorder = RecorderInUse(self.folder, name, rank=rank, world_size=world_size, carrier=carrier)
                else:
                    self.recorder.join_world(name, rank=rank, world_size=world_size, carrier=carrier)
            except FileExistsError:
                # The ring is that of a script that ran before us under the same launcher: the next generation is ours.
                # Or it is that of the rank that started us as a subprocess: then we are not a rank.
                if _is_alive(self.folder / f"ring.{name}"):
                    return False
            except OSError as error:
                self.note_problem(f"rank {rank} cannot be watched: {error}")
                return False
            else:
                return True
        return False

    def note_problem(self, text: str) -> None:
        """Leave word of what cannot be watched; the judge tells it."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                write_private(self.folder / f"problem.{os.getpid()}", text.encode(errors="replace"))

    def note_stop(self, error: BaseException) -> None:
        """Leave word that this launcher was told to end by a signal, if that is why it raises: torchrun does so."""
        number = getattr(error, "sigval", None)
        if self.folder is not None and not self.is_rank and isinstance(number, signal.Signals):
            with contextlib.suppress(OSError):
                write_private(self.folder / f"{layout.STOP_PREFIX}{os.getpid()}", number.name.encode())

    def world(self, carrier: str, rank: int, world_size: int, name: str = "WORLD") -> Communicator | None:
        """Return the communicator of all ranks."""
        if self.recorder is None:
            return None
        return self.recorder.communicator(f"{carrier}-world", name, range(world_size), rank)

    def note_failure(self, error: BaseException, number: int, *, was_posted: bool = False) -> None:
        """Remember which call raised, in case nobody catches the exception.

        Args:
            error: What it raised.
            number: The call.
            was_posted: Whether the library has taken the call, and raised when somebody waited for it.
        """
        if self.recorder is not None:
            self.recorder.fail(number)
            if not was_posted and is_refusal(error):
                withdraw(self.recorder.ring, list(self.recorder.communicators.values()), number)
            with contextlib.suppress(AttributeError):  # an exception that takes no notes
                error._paceline_call = number  # type: ignore[attr-defined]

    def tell(self, value: dict[str, Any]) -> None:
        """Append a text to the ring, or to the note of a rank that has none yet: for what is said once.

        It never raises: a script that ends or aborts calls it.
        """
        with contextlib.suppress(Exception):
            if self.recorder is not None:
                self.recorder.ring.write_text(value)
            elif self.start is not None:
                self.start.tell(value)

    def end(self, how: int, code: int | None = None) -> None:
        """Say that this process ends now."""
        if self.recorder is None:
            self.tell({"ending": how, "at": time.monotonic_ns()})
        elif code is None:
            self.recorder.end(how)
        else:
            self.recorder.end(how, code)

    @property
    def is_rank(self) -> bool:
        """Whether this process is a rank, or about to become one."""
        return self.recorder is not None or self.start is not None

    def finish_remarks(self) -> None:
        """Say what is left of requests and handles. It never raises: a script that ends calls it."""
        if self.recorder is not None:
            with contextlib.suppress(Exception):
                self.recorder.remarks.finish()


SESSION = Session()


def initialising_mpi() -> contextlib.AbstractContextManager[None]:
    """Return a block in which this process initialises MPI: the judge sees that it waits there for other ranks."""
    return SESSION.start.initialising(current_frames()) if SESSION.start is not None else contextlib.nullcontext()


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
            return _proxy_job(pid) or f"{stat.name} {pid}"
    return f"alone {os.getpid()}"


def _proxy_job(pid: int) -> str:
    """Return what hydra tells each of its proxies, which are on all machines of a job; nothing if it is not a proxy."""
    try:
        return hydra_job(command_of(pid))
    except OSError:  # it has just gone
        return ""
