"""Watches the collectives of mpi4py.util.pkl5, whose communicators pickle by themselves.

It makes them of messages on a communicator of its own, which mpi4py makes inside, so nothing of them would be seen. Its
other methods call those of mpi4py, which are watched.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from paceline.guard.rank.mpi.mpi_collective_arguments import READERS
from paceline.guard.rank.mpi.mpi_collectives import watched_blocking
from paceline.guard.rank.mpi.mpi_module import WATCHES
from paceline.guard.shared_memory.operations import BY_NAME

_OF_MESSAGES = ("gather", "scatter", "allgather", "alltoall")


def watch_pkl5(module: ModuleType) -> None:
    """Replace the collectives that are made of messages by watched ones."""
    kind: Any = getattr(module, "Comm", None)
    for watch in WATCHES[:1]:
        for name in _OF_MESSAGES:
            function = vars(kind).get(name) if kind is not None else None
            if function is not None:
                read = getattr(watch.collective_reader, READERS[name].__name__)
                setattr(kind, name, watched_blocking(function, BY_NAME[name], read, watch))


__all__ = ["watch_pkl5"]
