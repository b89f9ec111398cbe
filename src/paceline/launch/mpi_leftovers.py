"""What an MPI leaves when its ranks or its launcher are killed: shared-memory files, and session folders of Open MPI.

Only what came since a given moment is removed, and only if no living process has it: other jobs run beside ours.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from paceline.process.private_files import is_in_use
from paceline.process.procfs import files_mapped, files_opened, is_alive

_MEMORY = Path("/dev/shm")
_SEGMENTS = ("mpich_", "sm_segment", "vader_segment", "ompi", "pmix", "osc_rdma", "ucx_shm_posix_")  # begins of names

_LOOK_AGAIN_SECONDS = (0.02, 0.05, 0.1, 0.2)


def mpi_files_now() -> set[Path]:
    """Return this user's MPI segments and session folders that are there now."""
    return _segments() | _sessions()


def remove_mpi_leftovers(before: set[Path]) -> None:
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
            else:
                path.unlink(missing_ok=True)
    return held


def _segments() -> set[Path]:
    return {path for path in _MEMORY.glob("*") if path.name.startswith(_SEGMENTS) and _is_mine(path)}


def _sessions() -> set[Path]:
    folders = Path(tempfile.gettempdir()).glob("ompi.*")
    return {path for path in folders if path.suffix[1:].isdigit() and _is_mine(path)}


def _is_mine(path: Path) -> bool:
    with suppress(FileNotFoundError):  # it has just gone
        return path.lstat().st_uid == os.geteuid()
    return False
