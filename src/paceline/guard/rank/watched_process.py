"""The watched process: whether it is a rank, of which job, and where it writes its records. One session per process."""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import IO, Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.ring import start_time

# by which the judge asks where a rank is: the first is answered between two instructions of Python, the second anywhere
STACK_SIGNAL = signal.SIGRTMIN + 9
STACK_IN_C_SIGNAL = signal.SIGRTMIN + 10
RUN_FOLDER = "PACELINE_RUN_FOLDER"  # the variable that says where records go
_MAX_GENERATIONS = 1000
_LAUNCHERS = ("hydra_pmi_proxy", "prterun", "prted", "mpirun", "mpiexec", "srun", "slurmstepd", "orterun")


class Session:
    """What this process records to, if it is a rank that is watched."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.recorder: Recorder | None = None
        self._lock = threading.Lock()
        self._is_child_of_rank = False
        self._stacks: IO[str] | None = None  # kept open: the handler writes to it

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
        """Become a rank of a job, or note that this rank uses another carrier too."""
        with self._lock:
            if self.folder is None or self._is_child_of_rank:
                return None
            if self.recorder is None:
                self.recorder = self._create(carrier, rank, world_size, job)
                self._register_stacks()
            if self.recorder is not None:
                word = layout.MPI_RANK if carrier == "mpi" else layout.TORCH_RANK
                self.recorder.ring.words[word] = rank + 1
            return self.recorder

    def _register_stacks(self) -> None:
        """Let the judge ask where this rank's main thread is."""
        if self.folder is None or self.recorder is None:
            return
        self._stacks = (self.folder / f"stack.{os.getpid()}").open("w")
        is_main = threading.current_thread() is threading.main_thread()  # only it may set handlers
        if is_main:
            # what is there again when Python has taken its handlers away
            signal.signal(STACK_IN_C_SIGNAL, signal.SIG_IGN)
        faulthandler.register(STACK_IN_C_SIGNAL, file=self._stacks, all_threads=False)
        if is_main:
            signal.signal(STACK_SIGNAL, self.write_stack)
            signal.siginterrupt(STACK_SIGNAL, False)
        else:
            faulthandler.register(STACK_SIGNAL, file=self._stacks, all_threads=False)

    def answer_no_more(self) -> None:
        """Python ends now and will take its handlers away: a question that comes afterwards would kill the process."""
        if self._stacks is not None and threading.current_thread() is threading.main_thread():
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)

    def write_stack(self, number: int, frame: FrameType | None) -> None:
        """Answer where the main thread is."""
        if self._stacks is not None:
            faulthandler.dump_traceback(self._stacks, all_threads=False)

    def _create(self, carrier: str, rank: int, world_size: int, job: str) -> Recorder | None:
        assert self.folder is not None
        world = hashlib.blake2b(f"{carrier} {world_size} {job}".encode(), digest_size=6).hexdigest()
        for generation in range(_MAX_GENERATIONS):
            name = f"{world}.{generation}.{rank}"
            try:
                return Recorder(self.folder, name, rank=rank, world_size=world_size)
            except FileExistsError:
                # The ring is that of a script that ran before us under the same launcher: the next generation is ours.
                # Or it is that of the rank that started us as a subprocess: then we are not a rank.
                if _is_alive(self.folder / f"ring.{name}"):
                    return None
            except OSError as error:
                with contextlib.suppress(OSError):
                    (self.folder / f"problem.{os.getpid()}").write_text(f"rank {rank} cannot be watched: {error}")
                return None
        return None

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
        """Append a text to the ring, for what is said once."""
        if self.recorder is not None:
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
    named = [environ[name] for name in ("PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID") if name in environ]
    if named:
        return " ".join(named)
    pid = os.getpid()
    while pid > 1:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")  # a name may be cut in a character
        except OSError:
            break
        name = text[text.index("(") + 1 : text.rindex(")")]
        if name in _LAUNCHERS:
            return f"{name} {pid}"
        pid = int(text.rpartition(")")[2].split()[1])
    return f"alone {os.getpid()}"
