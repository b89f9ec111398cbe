"""Switches the guard on inside a script, for people who cannot change their launcher."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from paceline.guard.rank.hooks import arrive
from paceline.guard.rank.watched_process import RUN_FOLDER, SESSION, launcher_name
from paceline.guard.run.meeting_place import NoJudgeError, find_judged_folder
from paceline.guard.shared_memory.ring import judge_lives
from paceline.process.exit_codes import shell_code
from paceline.process.launchers import TORCH_JOB_VARIABLES
from paceline.process.own_programs import own_module
from paceline.process.private_files import is_private_folder

_START_SECONDS = 20.0  # for a judge to begin
_JUDGE_MODULE = "paceline.cli.judge_process"  # by name: what it prints is made in a layer above this one


def enable(
    *, out: str | None = None, notice: float = 10.0, timeout: float | None = None, ignore: Sequence[str] = ()
) -> None:
    """Watch this job from now on. Call it on every rank, before the first communication.

    The first rank on a machine starts one process that judges; it exits after the ranks. A finding is printed on
    standard error and the ranks are killed; what exit code the job gives is up to its launcher. Under `paceline run`
    there is a judge already, and this does nothing. If no judge can be had, it says so on standard error, and the job
    runs unwatched.

    Args:
        out: Where records are kept after a finding; `paceline-out` by default.
        notice: Seconds of waiting after which to show the ranks being waited for.
        timeout: Seconds of waiting after which to end the job.
        ignore: Causes of warnings that are not to be told, such as "handle-leak".
    """
    from paceline.guard.verdict.job_warning import read_causes  # not needed by ranks that do not call this

    ignored = read_causes("ignore", ignore)
    if SESSION.folder is not None:
        return
    inherited = os.environ.get(RUN_FOLDER)
    if inherited and is_private_folder(inherited) and judge_lives(Path(inherited)):
        arrive(Path(inherited))
        return
    options = ["--out", out or "", "--notice", str(notice), "--timeout", str(timeout or 0)]
    options += ["--ignore", ",".join(sorted(ignored))]
    try:
        folder = find_judged_folder(_job_name(), lambda folder, note: _start_judge(folder, note, options))
    except NoJudgeError as error:
        print(f"paceline: nobody judges this job, and it runs unwatched: {error}", file=sys.stderr, flush=True)
        return
    arrive(folder)


def _start_judge(folder: Path, note: Path, options: Sequence[str]) -> None:
    """Start the judge, and wait until it judges."""
    command = [*own_module(_JUDGE_MODULE), str(folder), str(os.getpid()), "--note", str(note), *options]
    # It must outlive the rank that happened to start it, whatever ends that rank.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + _START_SECONDS
    while not judge_lives(folder):
        if process.poll() is not None:
            raise NoJudgeError(f"its judge ended with code {shell_code(process.returncode)} before it began")
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise NoJudgeError(f"its judge did not begin within {_START_SECONDS:.0f} s")
        time.sleep(0.01)
    process.returncode = 0  # nobody waits for it, and Popen must not warn about that


def _job_name() -> str:
    """Return a name that all ranks of this job on this machine have in common, and no other job."""
    launcher = launcher_name(os.environ)
    if launcher.startswith("alone"):
        launcher = f"parent {os.getppid()}"
    # containers that share /dev/shm may have the same numbers for different processes
    processes = os.stat("/proc/self/ns/pid").st_ino
    parts = [processes, launcher, *(os.environ.get(name, "") for name in TORCH_JOB_VARIABLES)]
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
