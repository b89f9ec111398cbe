"""When a rank initialises MPI: it waits there for all others, and has no ring yet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from paceline.guard.rank.call_sites import current_frames
from paceline.guard.rank.watched_process import SESSION

_NO = (False, "false", "no", "off", "n", "0")  # as mpi4py reads it


def initialises_mpi(module_name: str) -> bool:
    """Say whether the import of a module initialises MPI: scripts may ask mpi4py to leave that to them."""
    if module_name != "mpi4py.MPI":
        return False
    asked = os.environ.get("MPI4PY_RC_INITIALIZE", "").lower()
    return (asked or getattr(getattr(sys.modules.get("mpi4py"), "rc", None), "initialize", True)) not in _NO


@contextmanager
def initialising_mpi() -> Iterator[None]:
    """Note that this process waits for the other ranks, as long as it does."""
    if SESSION.start is None:
        yield
        return
    SESSION.start.tell({"init": current_frames()})
    try:
        yield
    finally:
        SESSION.start.tell({"init": None})
