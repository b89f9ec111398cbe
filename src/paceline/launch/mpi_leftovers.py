"""What an MPI leaves when its ranks or its launcher are killed: shared-memory files, and session folders of Open MPI.

Only what came since a given moment is removed, and only if no living process has it: other jobs run beside ours.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from paceline.process.procfs import files_in_use, is_alive

_MEMORY = Path("/dev/shm")
_SEGMENTS = ("mpich_", "sm_segment", "vader_segment", "ompi", "pmix", "osc_rdma", "ucx_shm_posix_")  # begins of names


def mpi_files_now() -> set[Path]:
    """Return this user's MPI segments and session folders that are there now."""
    return _segments() | _sessions()


def remove_mpi_leftovers(before: set[Path]) -> None:
    """Remove what came since `before` and belongs to no living process."""
    segments = _segments() - before
    if segments:  # looking through all processes takes a while
        in_use = files_in_use(_MEMORY)
        for path in segments:
            if path.name not in in_use:
                path.unlink(missing_ok=True)
    for path in _sessions() - before:
        # a launcher names its folder by its pid, and a later one with the same pid cannot start while that is there
        if not is_alive(int(path.suffix[1:])):
            shutil.rmtree(path, ignore_errors=True)


def _segments() -> set[Path]:
    return {path for path in _MEMORY.glob("*") if path.name.startswith(_SEGMENTS) and _is_mine(path)}


def _sessions() -> set[Path]:
    folders = Path(tempfile.gettempdir()).glob("ompi.*")
    return {path for path in folders if path.suffix[1:].isdigit() and _is_mine(path)}


def _is_mine(path: Path) -> bool:
    with suppress(FileNotFoundError):  # it has just gone
        return path.stat().st_uid == os.getuid()
    return False
