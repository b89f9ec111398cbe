"""Where the exchanges of a topology go: a grid or a graph that MPI knows."""

from __future__ import annotations

from typing import NamedTuple


class Edges(NamedTuple):
    """The members of a topology that a rank receives from, and those it sends to."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]
