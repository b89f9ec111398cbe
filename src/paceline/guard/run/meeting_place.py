"""How the ranks of a job that switch the guard on by themselves find one folder, and one judge.

They meet in a folder of their user. Its name can be guessed, but if somebody else has made it, it is not used. In it, a
file for each job names the folder of its run, which has a random part in its name. A lock lets one rank at a time look,
and start a judge if none lives: what a killed judge has left is never waited for.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from paceline.errors import PacelineError
from paceline.guard.run.run_folder import MEMORY, PREFIX
from paceline.guard.shared_memory.ring import judge_lives
from paceline.process.private_files import (
    is_private_folder,
    lock_file,
    make_private_folder,
    read_private,
    write_private,
)

_USER_PREFIX = "paceline-user-"
_LOCK = "lock"
_LOCK_SECONDS = 30.0  # longer than a judge may take to start
_POLL_SECONDS = 0.01
_MOST_PATH_BYTES = 4096


class NoJudgeError(PacelineError):
    """Nobody judges this job."""


def find_judged_folder(job: str, start_judge: Callable[[Path, Path], None]) -> Path:
    """Return the folder of this job's run; the first rank that asks makes it and starts its judge.

    Args:
        job: A name that all ranks of the job on this machine have in common.
        start_judge: Starts the judge of a folder and waits until it judges. Its second argument is the file to hand to
            `leave_meeting_place` at the end.

    Raises:
        NoJudgeError: There is no place to meet, or the judge does not start.
    """
    place = _meeting_place()
    with _locked(place):
        note = place / job
        with suppress(OSError):
            folder = Path(os.fsdecode(read_private(note, most=_MOST_PATH_BYTES)))
            if is_private_folder(folder) and judge_lives(folder):
                return folder
        try:
            folder = make_private_folder(MEMORY if MEMORY.is_dir() else None, PREFIX)
        except OSError as error:
            raise NoJudgeError(f"no folder can be made for its records: {error.strerror}") from None
        try:
            write_private(note, os.fsencode(folder))
            start_judge(folder, note)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise NoJudgeError(f"the judge cannot be started: {error.strerror}") from None
        except NoJudgeError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder


def leave_meeting_place(note: Path, folder: Path) -> None:
    """Remove the word of a run that is over; the last one removes the place too."""
    with suppress(OSError, NoJudgeError), _locked(note.parent):
        if read_private(note, most=_MOST_PATH_BYTES) == os.fsencode(folder):
            note.unlink()
        if os.listdir(note.parent) == [_LOCK]:
            (note.parent / _LOCK).unlink()
            note.parent.rmdir()


def _meeting_place() -> Path:
    """Return the folder in which ranks of this user meet. It is made if it is not there."""
    name = f"{_USER_PREFIX}{os.geteuid()}"
    parents = [str(MEMORY), os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir()]
    places = [Path(parent) / name for parent in parents if os.path.isdir(parent)]
    for place in places:
        with suppress(OSError):
            place.mkdir(mode=0o700)
            place.chmod(0o700)  # the umask may have taken bits that we need
        if is_private_folder(place):
            return place
    raise NoJudgeError(f"no folder is this user's alone: {', '.join(map(str, places))}")


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Hold the lock of the place, whose last visitor may remove it at any moment."""
    end = time.monotonic() + _LOCK_SECONDS
    while time.monotonic() < end:
        with suppress(FileNotFoundError):
            place.mkdir(mode=0o700, exist_ok=True)
            lock = lock_file(place / _LOCK, wait=False)
            if lock is not None:
                try:
                    # while we waited, another may have removed this file and somebody else made a new one
                    if os.path.samestat(os.fstat(lock), os.stat(place / _LOCK)):
                        yield
                        return
                finally:
                    os.close(lock)
        time.sleep(_POLL_SECONDS)
    raise NoJudgeError(f"another process has held {place / _LOCK} for {_LOCK_SECONDS:.0f} s")
