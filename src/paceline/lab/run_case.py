"""Runs the program of a case with real ranks, bare or under the guard, and says what was seen of each rank.

A job hangs when for some seconds no rank has printed, ended, or moved to another line, and none is still importing.
Processor time is no sign: MPI ranks poll while they wait.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paceline.guard.observe.kernel_view import end_all
from paceline.guard.run.watch_options import WatchOptions, run_command
from paceline.lab.case import CASES, Case
from paceline.lab.run_script import STACK_IN_C_SIGNAL, STACK_SIGNAL
from paceline.launch.job_folder import is_alive, wait_until_gone
from paceline.launch.mpiexec import find_mpiexec
from paceline.launch.segments import remove_left_segments, segments_now

QUIET_SECONDS = 3.0  # without any progress, and more on a slow machine: a bare job hangs
GUARDED_QUIET_SECONDS = 20.0  # the guard should have spoken long before
DEADLINE_SECONDS = 90.0
_BARE_NICENESS = 10  # ranks of MPI that hang poll, and would take the processors from the case beside them
_LOOK_SECONDS = 0.05
_ASK_SECONDS = 0.3
_HEAD = "(most recent call first):"  # of each stack
_LEAVE_SECONDS = 15.0  # for ranks whose scripts are over to leave
_RANK, _RANKS = (Path(__file__).parent / name for name in ("run_script.py", "fork_ranks.py"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSeen:
    """What was seen of one rank.

    Attributes:
        out: What it wrote to standard output.
        err: What it wrote to standard error.
        lives: Whether it still ran when the job was ended or had ended.
        site: The line of the script at which it was last seen.
    """

    out: str
    err: str
    lives: bool
    site: str | None

    @property
    def last_line(self) -> str:
        """The last line of standard output: the rank's result, if it came so far."""
        lines = self.out.strip().splitlines()
        return lines[-1] if lines else ""

    @property
    def last_error(self) -> str:
        """The last line of standard error, without the frames that compiled code may add to it."""
        lines = [line for line in self.err.strip().splitlines() if line and not line.startswith("frame #")]
        return lines[-1] if lines else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a job ended.

    Attributes:
        exit_code: The launcher's; None where the job hung and was ended by us.
        seconds: How long it ran, from the start of the launcher.
        start_seconds: How much of that it took until every rank had imported torch or started MPI.
        quiet_seconds: For how long it had made no progress.
        ranks: What was seen of each rank.
        said: What the launcher, or the guard, wrote.
        outcome: What the guard found, as `paceline run --json` gives it.
    """

    exit_code: int | None
    seconds: float
    start_seconds: float
    quiet_seconds: float
    ranks: tuple[RankSeen, ...]
    said: str
    outcome: dict[str, Any] | None = None

    @property
    def results(self) -> tuple[str, ...]:
        """The result of each rank."""
        return tuple(rank.last_line for rank in self.ranks)


def library_of(case: Case) -> str:
    """Return what the case's ranks talk over on this machine: mpich, openmpi or gloo."""
    if case.carrier == "torch":
        return "gloo"
    return "openmpi" if find_mpiexec().vendor == "Open MPI" else "mpich"


def run_bare(
    case: Case, program: Path, *, arguments: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> Ended:
    """Run a program of a case without the guard, until it ends or hangs."""
    with tempfile.TemporaryDirectory(prefix="pl", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        program = _as_of_user(program, folder)
        command = [*_ranks(case, folder, program), *arguments]
        niceness = _BARE_NICENESS if case.carrier == "mpi" else 0
        return _run(case, command, folder, program, variables or {}, QUIET_SECONDS, niceness)


def run_guarded(case: Case, program: Path, *, notice: float = 10.0) -> Ended:
    """Run a program of a case under the guard."""
    with tempfile.TemporaryDirectory(prefix="pl", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        program = _as_of_user(program, folder)
        options = WatchOptions(json_file=folder / "outcome", out=folder / "records", notice_seconds=notice)
        command = run_command(_ranks(case, folder, program), options)
        return _run(case, command, folder, program, {}, GUARDED_QUIET_SECONDS)


def _as_of_user(program: Path, folder: Path) -> Path:
    """Copy a program of the catalogue, with those beside it: what lies in our own folder is no user's code."""
    if not program.is_relative_to(CASES):
        return program
    copies = folder / "program"
    copies.mkdir()
    for path in program.parent.glob("*.py"):
        shutil.copy(path, copies)
    return copies / program.name


def _ranks(case: Case, folder: Path, program: Path) -> list[str]:
    """Return the command that starts all ranks."""
    told = [str(folder), json.dumps(asdict(case.limits))]
    if case.carrier == "mpi":
        launcher = find_mpiexec().command(case.num_ranks, clean_up=True)
        return [*launcher, sys.executable, str(_RANK), *told, "mpi4py.MPI", str(program.resolve())]
    return [sys.executable, str(_RANKS), str(case.num_ranks), *told, "torch.distributed", str(program.resolve())]


def _run(
    case: Case,
    command: Sequence[str],
    folder: Path,
    program: Path,
    variables: Mapping[str, str],
    quiet: float,
    niceness: int = 0,
) -> Ended:
    work = folder / "work"
    work.mkdir()
    # Open MPI keeps its session under TMPDIR: one for each launcher, so that two may run at a time
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder), **variables}
    segments = segments_now()
    begun = time.monotonic()
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            list(command), cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        try:
            if niceness:
                os.setpriority(os.PRIO_PROCESS, process.pid, niceness)  # before it starts ranks: they take it over
            waited = _wait(process, _Progress(folder, case.num_ranks), quiet)
            seconds = time.monotonic() - begun
            ranks = tuple(_seen(folder, rank, program) for rank in range(case.num_ranks))
            code = process.poll()
        finally:
            end_all([process.pid])
            process.kill()
            process.wait()
            _end_left_ranks(folder)
            remove_left_segments(segments)
    place = str(program.resolve().parent) + "/"
    outcome = _text(folder / "outcome").replace(place, "")
    return Ended(
        exit_code=None if code is None else 128 - code if code < 0 else code,
        seconds=seconds,
        start_seconds=_start_seconds(folder, begun),
        quiet_seconds=waited,
        ranks=ranks,
        said=_text(folder / "said").replace(place, ""),
        outcome=json.loads(outcome) if outcome else None,
    )


def _start_seconds(folder: Path, begun: float) -> float:
    return max((float(path.read_text()) - begun for path in folder.glob("*.ready")), default=0.0)


def _end_left_ranks(folder: Path) -> None:
    """End ranks that have outlived their launcher; a number that is another process's by now is left alone."""
    ours = []
    for path in folder.glob("*.pid"):
        pid = int(path.read_text())
        with suppress(FileNotFoundError, ProcessLookupError):
            if str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                ours.append(pid)
    wait_until_gone(ours)  # while one goes, it still holds the shared memory that is to be removed


def _wait(process: subprocess.Popen[bytes], progress: _Progress, quiet: float) -> float:
    """Wait until the job has ended, or has hung for so long; return for how long nothing has moved."""
    end = time.monotonic() + DEADLINE_SECONDS
    while process.poll() is None and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        if progress.quiet_seconds() > quiet + progress.more_patience():
            break
    return progress.quiet_seconds()


class _Progress:
    """Since when no rank has moved. Ranks are asked for their stacks while nothing else is heard of them."""

    def __init__(self, folder: Path, num_ranks: int) -> None:
        self._folder, self._num_ranks = folder, num_ranks
        self._last: object = None
        self._began = self._since = self._asked = time.monotonic()
        self._start_seconds: float | None = None  # how long it took until all ranks were past their imports
        self._written: dict[int, str] = {}  # stacks of each rank, when it was last asked
        self._in_c: set[int] = set()  # ranks that did not answer, and have not moved since

    def more_patience(self) -> float:
        """Return by how much longer to wait: as the machine is slow to start ranks, or while all of them leave."""
        leaving = all(self._has(rank, "over") for rank in range(self._num_ranks))
        return (self._start_seconds or 0.0) / 2 + (_LEAVE_SECONDS if leaving else 0.0)

    def quiet_seconds(self) -> float:
        """Look, and say for how long nothing has moved."""
        now = [self._state(rank) for rank in range(self._num_ranks)]
        if self._start_seconds is None and all(self._has(rank, "ready") for rank in range(self._num_ranks)):
            self._start_seconds = time.monotonic() - self._began
        if now != self._last or any(state is None for state in now):
            self._last, self._since = now, time.monotonic()
        if time.monotonic() - self._asked > _ASK_SECONDS:
            self._ask()
        return time.monotonic() - self._since

    def _ask(self) -> None:
        """Ask ranks that run the script where they are; one that did not answer is in compiled code."""
        self._asked = time.monotonic()
        for rank in range(self._num_ranks):
            pid = _text(self._folder / f"{rank}.pid")
            if pid and self._has(rank, "ready") and not self._has(rank, "over") and is_alive(int(pid)):
                written = _text(self._folder / f"{rank}.stack")
                if self._written.get(rank) == written:
                    self._in_c.add(rank)
                elif not _stands(written):
                    self._in_c.discard(rank)
                self._written[rank] = written
                with suppress(ProcessLookupError):
                    os.kill(int(pid), STACK_IN_C_SIGNAL if rank in self._in_c else STACK_SIGNAL)

    def _has(self, rank: int, mark: str) -> bool:
        return (self._folder / f"{rank}.{mark}").exists()

    def _state(self, rank: int) -> object:
        """Return what changes when a rank moves; None while it starts."""
        pid, stack = _text(self._folder / f"{rank}.pid"), _last_stack(self._folder, rank)
        is_ready, is_over = self._has(rank, "ready"), self._has(rank, "over")
        is_at_work = is_over or (is_ready and stack and "importlib" not in stack)
        if not pid or (is_alive(int(pid)) and not is_at_work):
            return None
        sizes = [len(_text(self._folder / f"{rank}.{ending}")) for ending in ("out", "err")]
        return sizes, is_over, stack, is_alive(int(pid))


def _seen(folder: Path, rank: int, program: Path) -> RankSeen:
    pid = _text(folder / f"{rank}.pid")
    lines = re.findall(rf'File ".*{re.escape(program.name)}", line (\d+) in', _last_stack(folder, rank))
    is_over = (folder / f"{rank}.over").exists()
    return RankSeen(
        out=_text(folder / f"{rank}.out"),
        err=_text(folder / f"{rank}.err"),
        lives=bool(pid) and is_alive(int(pid)),
        site=f"{program.name}:{lines[0]}" if lines and not is_over else None,
    )


def _stands(written: str) -> bool:
    """Say whether the last two stacks are alike, as far as there are two."""
    frames = [re.findall(r"^  File .*$", stack, flags=re.MULTILINE) for stack in written.split(_HEAD)[1:]]
    return len(frames) < 2 or frames[-1] == frames[-2]


def _last_stack(folder: Path, rank: int) -> str:
    """Return the last stack that was surely written whole, innermost frame first: the last but one."""
    stacks = _text(folder / f"{rank}.stack").split(_HEAD)
    return stacks[-2] if len(stacks) > 2 else ""


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""
