"""Folders that Open MPI's launcher leaves in the temporary folder when it is killed.

They are named by its process, and a later launcher with the same number cannot start while one is there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from paceline.launch.job_folder import is_alive


def sessions_now() -> set[Path]:
    """Return this user's folders of Open MPI that are there now."""
    found = set()
    for path in Path(tempfile.gettempdir()).glob("ompi.*"):
        with suppress(FileNotFoundError):  # it has just gone
            if path.suffix[1:].isdigit() and path.stat().st_uid == os.getuid():
                found.add(path)
    return found


def remove_left_sessions(before: set[Path]) -> None:
    """Remove folders that came since and whose launchers have gone; others are of jobs that still run."""
    for path in sessions_now() - before:
        if not is_alive(int(path.suffix[1:])):
            shutil.rmtree(path, ignore_errors=True)
