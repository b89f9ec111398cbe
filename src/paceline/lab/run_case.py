"""Runs the program of a case with real ranks, bare or under the guard, and says what was seen of each rank."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from paceline.guard.observe.kernel_view import end_all
from paceline.guard.run.watch_options import WatchOptions, run_command
from paceline.lab.case import CASES, Case
from paceline.lab.hang_detector import HangDetector, RankFiles, read_text
from paceline.lab.observed_run import ObservedRank, ObservedRun
from paceline.launch.leftovers import remove_leftovers, shared_files_now
from paceline.launch.mpiexec import find_mpiexec
from paceline.process.exit_codes import shell_code
from paceline.process.launchers import without_job
from paceline.process.procfs import command_of, wait_until_gone

QUIET_SECONDS = 3.0  # without any progress, and more on a slow machine: a bare job hangs
GUARDED_QUIET_SECONDS = 20.0  # the guard should have spoken long before
DEADLINE_SECONDS = 90.0
_BARE_NICENESS = 10  # ranks of MPI that hang poll, and would take the processors from the case beside them
_LOOK_SECONDS = 0.05
_RANK, _RANKS = (Path(__file__).parent / name for name in ("run_script.py", "fork_ranks.py"))


def library_of(case: Case) -> str:
    """Return what the case's ranks talk over on this machine: mpich, openmpi or gloo."""
    if case.carrier == "torch":
        return "gloo"
    return "openmpi" if find_mpiexec().vendor == "Open MPI" else "mpich"


def run_bare(
    case: Case, program: Path, *, arguments: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> ObservedRun:
    """Run a program of a case without the guard, until it ends or hangs."""
    with tempfile.TemporaryDirectory(prefix="pl", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        program = _as_of_user(program, folder)
        command = [*_ranks(case, folder, program), *arguments]
        niceness = _BARE_NICENESS if case.carrier == "mpi" else 0
        return _run(case, command, folder, program, variables or {}, QUIET_SECONDS, niceness)


def run_guarded(case: Case, program: Path, *, notice: float = 10.0) -> ObservedRun:
    """Run a program of a case under the guard."""
    with tempfile.TemporaryDirectory(prefix="pl", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        program = _as_of_user(program, folder)
        options = WatchOptions(json_file=folder / "outcome", out=folder / "records", notice_seconds=notice)
        command = run_command(_ranks(case, folder, program), options)
        return _run(case, command, folder, program, {}, GUARDED_QUIET_SECONDS)


def _as_of_user(program: Path, folder: Path) -> Path:
    """Copy a program of the catalogue, with those beside it: the guard takes our own folder for a library."""
    if not program.is_relative_to(CASES):
        return program
    copies = folder / "program"
    copies.mkdir()
    for path in program.parent.glob("*.py"):
        shutil.copy(path, copies)
    return copies / program.name


def _ranks(case: Case, folder: Path, program: Path) -> list[str]:
    """Return the command that starts all ranks."""
    arguments = [str(folder), json.dumps(asdict(case.limits))]
    if case.carrier == "mpi":
        launcher = find_mpiexec().command(case.num_ranks, clean_up=True)
        return [*launcher, sys.executable, str(_RANK), *arguments, "mpi4py.MPI", str(program.resolve())]
    if find_spec("torch") is None:  # said before ranks are started: each would print a traceback of its own
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    return [sys.executable, str(_RANKS), str(case.num_ranks), *arguments, "torch.distributed", str(program.resolve())]


def _run(
    case: Case,
    command: Sequence[str],
    folder: Path,
    program: Path,
    variables: Mapping[str, str],
    quiet: float,
    niceness: int = 0,
) -> ObservedRun:
    work = folder / "work"
    work.mkdir()
    # Open MPI keeps its session under TMPDIR: one for each launcher, so that two may run at a time
    environment = {
        **without_job(os.environ),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folder),
        **variables,
    }
    shared_files = shared_files_now()
    begun = time.monotonic()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            list(command), cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            if niceness:
                os.setpriority(os.PRIO_PROCESS, process.pid, niceness)  # before it starts ranks: they take it over
            files = [RankFiles(folder, rank) for rank in range(case.num_ranks)]
            waited = _wait(process, HangDetector(files), quiet)
            seconds = time.monotonic() - begun
            ranks = tuple(_see(rank, program) for rank in files)
            code = process.poll()
        finally:
            end_all([process.pid])
            process.kill()
            process.wait()
            _end_left_ranks(folder)
            remove_leftovers(shared_files)
    beside = f"{program.resolve().parent}/"  # sites are shown without it
    outcome = read_text(folder / "outcome").replace(beside, "")
    return ObservedRun(
        exit_code=None if code is None else shell_code(code),
        seconds=seconds,
        start_seconds=_start_seconds(folder, begun),
        quiet_seconds=waited,
        ranks=ranks,
        output=read_text(folder / "output").replace(beside, ""),
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
            if str(folder) in command_of(pid):
                os.kill(pid, signal.SIGKILL)
                ours.append(pid)
    wait_until_gone(ours)  # while one goes, it still holds the shared memory that is to be removed


def _wait(process: subprocess.Popen[bytes], detector: HangDetector, quiet: float) -> float:
    """Wait until the job has ended, or has hung for so long; return for how long nothing has moved."""
    end = time.monotonic() + DEADLINE_SECONDS
    while process.poll() is None and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        if detector.quiet_seconds() > quiet + detector.more_patience():
            break
    return detector.quiet_seconds()


def _see(rank: RankFiles, program: Path) -> ObservedRank:
    lines = [frame.line for frame in rank.last_stack() if frame.file.endswith(program.name)]
    return ObservedRank(
        out=rank.text("out"),
        err=rank.text("err"),
        lives=rank.lives,
        site=f"{program.name}:{lines[0]}" if lines and not rank.is_over else None,
    )
