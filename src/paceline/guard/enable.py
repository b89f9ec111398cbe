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
from paceline.guard.shared_memory.ring import judge_lives
from paceline.process.launchers import TORCH_JOB_VARIABLES

_MEMORY = Path("/dev/shm")
_START_SECONDS = 20.0


def enable(*, out: str | None = None, notice: float = 10.0, timeout: float | None = None) -> None:
    """Watch this job from now on. Call it on every rank, before the first communication.

    The first rank of a machine starts one process that judges; it goes when the ranks have gone. A finding is printed
    on standard error, the ranks are killed, and the job's exit code is what its launcher makes of that. Under
    `paceline run` there is a judge already, and nothing is done.

    Args:
        out: where records are kept after a finding; `paceline-out` if it is not given.
        notice: say who is waited for after so many seconds.
        timeout: end the job when a rank has waited for so many seconds.
    """
    if SESSION.folder is not None or os.environ.get(RUN_FOLDER):
        return
    folder = _MEMORY / f"paceline-run-{os.getuid()}-{_job()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        _wait_for_judge(folder)
    else:
        options = ["--out", out or "", "--notice", str(notice), "--timeout", str(timeout or 0)]
        command = [sys.executable, "-m", "paceline.cli.judge_process", str(folder), str(os.getpid()), *options]
        # It must outlive the rank that happened to start it, whatever ends that rank.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        _wait_for_judge(folder)
        process.returncode = 0  # nobody waits for it; it is not ours to report
    arrive(folder)


def _wait_for_judge(folder: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not judge_lives(folder) and time.monotonic() < deadline:
        time.sleep(0.01)


def _job() -> str:
    """Return a name that all ranks of this job on this machine have in common, and no other job."""
    place = launcher_name(os.environ)
    if place.startswith("alone"):
        place = f"parent {os.getppid()}"
    parts = [place, *(os.environ.get(name, "") for name in TORCH_JOB_VARIABLES)]
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
