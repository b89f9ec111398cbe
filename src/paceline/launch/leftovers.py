"""What libraries leave when ranks, their workers or their launcher are killed.

MPI leaves shared-memory files, and Open MPI folders of its sessions. A worker of torch that is killed while
it makes a tensor leaves the file of that tensor; so does multiprocessing with a semaphore.

Only what came since a given moment is removed, and only if no living process has it: other jobs run beside ours.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from paceline.process.private_files import is_in_use
from paceline.process.procfs import files_mapped, files_opened, is_alive

_MEMORY = Path("/dev/shm")
_SEGMENTS = ("mpich_", "sm_segment", "vader_segment", "ompi", "pmix", "osc_rdma", "ucx_shm_posix_")  # begins of names

_SEMAPHORE = "sem.mp-"  # of multiprocessing: whoever uses one has it mapped
_TENSOR = re.compile(r"torch_\d+_\d+_\d+")  # its process, a random number, a count
_USERS_BYTES = 8

_LOOK_AGAIN_SECONDS = (0.02, 0.05, 0.1, 0.2)


def shared_files_now() -> set[Path]:
    """Return this user's shared-memory files and session folders that libraries have made, as they are now."""
    return _segments() | _sessions()


def remove_leftovers(before: set[Path]) -> None:
    """Remove what came since `before` and belongs to no living process."""
    held = _remove_free_segments(_segments() - before)
    for seconds in _LOOK_AGAIN_SECONDS if held else ():
        time.sleep(random.uniform(0, seconds))  # two that look at each other's files must not keep in step
        held = _remove_free_segments(held)
        if not held:
            break
    for path in _sessions() - before:
        # a launcher names its folder by its pid, and a later one with the same pid cannot start while that is there
        if not is_alive(int(path.suffix[1:])):
            shutil.rmtree(path, ignore_errors=True)


def remove_segments_of(pids: Iterable[int]) -> None:
    """Remove the segments of processes that are killed next: a batch system may kill us together with them."""
    mapped = files_mapped(_MEMORY, by=pids)
    for path in _segments():
        if path.name in mapped:
            path.unlink(missing_ok=True)


def _remove_free_segments(segments: set[Path]) -> set[Path]:
    """Remove the segments that nobody has; return those that somebody has only open.

    A rank has its segment mapped. Open it is also for a moment while another run looks whether it is in use.
    """
    if not segments:  # looking through all processes takes a while
        return set()
    opened, mapped = files_opened(_MEMORY), files_mapped(_MEMORY)  # in this order: a file is opened, and then mapped
    held = set()
    for path in segments:
        with suppress(OSError):  # it has just gone
            if path.name in mapped:
                continue
            if path.name in opened or is_in_use(path):  # processes of other containers are not in /proc
                held.add(path)
            elif not _is_on_its_way(path):
                path.unlink(missing_ok=True)
    return held


def _is_on_its_way(path: Path) -> bool:
    """Say whether a tensor waits for the process that it was sent to, although nobody has it open.

    Such a file begins with the number of its users. One that a killed worker leaves was not written to: torch takes its
    name away before that.
    """
    if _TENSOR.fullmatch(path.name) is None:
        return False
    with path.open("rb") as file:
        return any(file.read(_USERS_BYTES))


def _segments() -> set[Path]:
    return {path for path in _MEMORY.glob("*") if _is_of_a_library(path.name) and _is_mine(path)}


def _is_of_a_library(name: str) -> bool:
    return name.startswith((*_SEGMENTS, _SEMAPHORE)) or _TENSOR.fullmatch(name) is not None


def _sessions() -> set[Path]:
    """Return the folders of Open MPI's launchers that are named by a process.

    Older ones are named by the user, and serve all jobs of that user: these are nobody's to remove.
    """
    folders = Path(tempfile.gettempdir()).glob("ompi.*")
    numbered = (path for path in folders if path.suffix[1:].isdigit())
    return {path for path in numbered if int(path.suffix[1:]) != os.geteuid() and _is_mine(path)}


def _is_mine(path: Path) -> bool:
    with suppress(FileNotFoundError):  # it has just gone
        return path.lstat().st_uid == os.geteuid()
    return False
