"""Finds the folder of a run that a test has started, among those of other runs."""

from __future__ import annotations

import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from paceline.guard.rank.watched_process import RUN_FOLDER
from paceline.process.procfs import environ_of

_DEADLINE_SECONDS = 60.0
_POLL_SECONDS = 0.02


def folder_of_run(pid: int) -> Path:
    """Return the folder of the run of a `paceline run`, once it has started its job: the job inherits its name."""
    end = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < end:
        for child in psutil.Process(pid).children():
            if name := environ_of(child.pid).get(RUN_FOLDER):
                return Path(name)
        time.sleep(_POLL_SECONDS)
    raise TimeoutError(f"process {pid} has started no job")
