"""The folder of a run in shared memory: where it is, what it is called, and the lock of its judge.

Ranks find it by a variable of their environment. Every watched rank loads this module with `paceline.guard`, so it
imports what only a judge needs where that is used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from paceline.errors import InputError
from paceline.guard.rank.watched_process import RUN_FOLDER
from paceline.guard.shared_memory.host_folder import BATCH_JOB, HEAD, JOB
from paceline.guard.shared_memory.ring import JUDGE
from paceline.process.private_files import is_private_folder, lock_file, make_private_folder, open_private
from paceline.process.procfs import start_time

MEMORY = Path("/dev/shm")
PREFIX = "paceline-run-"
_BOOT = Path(__file__).parents[1] / "boot"
_OF_OTHER_RUN = (HEAD, BATCH_JOB, JOB)  # variables that we may have from a run that started us
_STALE_SECONDS = 60  # a younger folder may be one whose judge does not hold its lock yet


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for a run, judge it from now on, and remove it at the end."""
    import shutil

    folder, lock = _new_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _new_folder() -> tuple[Path, int]:
    """Make a folder in memory, or where there is none or no room on disk; return it with the lock of its judge."""
    import shutil

    problems = []
    for parent in _parents():
        try:
            folder = make_private_folder(parent, PREFIX)
        except OSError as error:
            problems.append(f"{parent}: {error.strerror}")
            continue
        try:
            return folder, become_judge(folder)
        except OSError as error:
            problems.append(f"{parent}: {error.strerror}")
            shutil.rmtree(folder, ignore_errors=True)
    raise InputError(f"there is no room for the records of the run: {'; '.join(problems)}")


def _parents() -> list[Path]:
    """Return where folders of runs are: in memory if there is some, otherwise among temporary files."""
    import tempfile

    return [*([MEMORY] if MEMORY.is_dir() else []), Path(tempfile.gettempdir())]


def become_judge(folder: Path) -> int:
    """Take the lock that says that this process judges; it holds until the descriptor is closed or the process ends.

    Ranks stop waiting for a word from a judge that has ended. The number in the file is for people.
    """
    lock = lock_file(folder / JUDGE)
    assert lock is not None
    name_judge(folder)
    return lock


def name_judge(folder: Path) -> None:
    """Write into the file of the lock that this process judges."""
    with suppress(OSError), open(open_private(folder / JUDGE, os.O_WRONLY), "wb", buffering=0) as file:
        # no space: the lock is what counts
        file.truncate(file.write(f"{os.getpid()} {start_time(os.getpid())}".encode()))


def stop_judging(folder: Path) -> None:
    """Let no rank wait for a word from us."""
    with suppress(OSError):
        (folder / JUDGE).unlink(missing_ok=True)


def remove_stale_folders() -> None:
    """Remove the folders of this user's runs whose judge was killed."""
    for parent in _parents():
        for path in parent.glob(f"{PREFIX}*"):
            with suppress(OSError):
                if is_private_folder(path) and time.time() - path.stat().st_mtime > _STALE_SECONDS:
                    _remove_if_left(path)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder, unless a judge holds its lock, in this container or in another."""
    import shutil

    lock = lock_file(folder / JUDGE, wait=False)
    if lock is not None:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def watched_environment(folder: Path) -> dict[str, str]:
    """Return our environment with the hooks first on the Python path."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_OTHER_RUN}
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(_BOOT), before] if before else [str(_BOOT)])
    environment[RUN_FOLDER] = str(folder)
    return environment
