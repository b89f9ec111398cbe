"""Switches the guard on inside a script, for people who cannot change their launcher."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

from paceline.guard.rank.hooks import arrive
from paceline.guard.rank.watched_process import RUN_FOLDER, SESSION, launcher_name
from paceline.guard.run.run_folder import MEMORY, PREFIX
from paceline.guard.shared_memory.ring import judge_lives
from paceline.process.launchers import TORCH_JOB_VARIABLES

_START_SECONDS = 20.0  # how long a rank waits for its judge
_JUDGE_MODULE = "paceline.cli.judge_process"  # by name: what it prints is made in a layer above this one


def enable(*, out: str | None = None, notice: float = 10.0, timeout: float | None = None) -> None:
    """Watch this job from now on. Call it on every rank, before the first communication.

    The first rank on a machine starts one process that judges; it exits after the ranks. A finding is printed on
    standard error and the ranks are killed; what exit code the job gives is up to its launcher. Under `paceline run`
    there is a judge already, and this does nothing.

    Args:
        out: Where records are kept after a finding; `paceline-out` by default.
        notice: Seconds of waiting after which to show the ranks being waited for.
        timeout: Seconds of waiting after which to end the job.
    """
    if SESSION.folder is not None or os.environ.get(RUN_FOLDER):
        return
    folder = MEMORY / f"{PREFIX}{os.getuid()}-{_job_name()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        _wait_for_judge(folder)
    else:
        options = ["--out", out or "", "--notice", str(notice), "--timeout", str(timeout or 0)]
        command = [sys.executable, "-m", _JUDGE_MODULE, str(folder), str(os.getpid()), *options]
        # It must outlive the rank that happened to start it, whatever ends that rank.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        _wait_for_judge(folder)
        process.returncode = 0  # nobody waits for it, and Popen must not warn about that
    arrive(folder)


def _wait_for_judge(folder: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not judge_lives(folder) and time.monotonic() < deadline:
        time.sleep(0.01)


def _job_name() -> str:
    """Return a name that all ranks of this job on this machine have in common, and no other job."""
    launcher = launcher_name(os.environ)
    if launcher.startswith("alone"):
        launcher = f"parent {os.getppid()}"
    parts = [launcher, *(os.environ.get(name, "") for name in TORCH_JOB_VARIABLES)]
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
