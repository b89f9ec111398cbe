"""The folder of a run in shared memory: where it is, what it is called, and the file that names its judge.

Ranks find it by a variable of their environment. Every watched rank loads this module with `paceline.guard`, so it
imports what only a judge needs where that is used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from paceline.guard.rank.watched_process import RUN_FOLDER
from paceline.guard.shared_memory.ring import judge_lives
from paceline.process.procfs import start_time

MEMORY = Path("/dev/shm")
PREFIX = "paceline-run-"
_BOOT = Path(__file__).parents[1] / "boot"
_JUDGE = "judge"
_STALE_SECONDS = 60  # a younger folder may be one whose judge has not written its name yet


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for a run in memory, private to the user, and remove it at the end."""
    import shutil
    import tempfile

    parent = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        name_judge(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def name_judge(folder: Path) -> None:
    """Write down that this process judges: ranks stop waiting for a word from a judge that has exited."""
    (folder / _JUDGE).write_text(f"{os.getpid()} {start_time(os.getpid())}")


def stop_judging(folder: Path) -> None:
    """Let no rank wait for a word from us."""
    with suppress(OSError):
        (folder / _JUDGE).unlink(missing_ok=True)


def remove_stale_folders() -> None:
    """Remove the folders of runs whose judge was killed."""
    import shutil

    for path in MEMORY.glob(f"{PREFIX}*"):
        with suppress(OSError):
            is_old = time.time() - path.stat().st_mtime > _STALE_SECONDS
            if path.stat().st_uid == os.getuid() and is_old and not judge_lives(path):
                shutil.rmtree(path, ignore_errors=True)


def watched_environment(folder: Path) -> dict[str, str]:
    """Return our environment with the hooks first on the Python path."""
    environment = dict(os.environ)
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(_BOOT), before] if before else [str(_BOOT)])
    environment[RUN_FOLDER] = str(folder)
    return environment
