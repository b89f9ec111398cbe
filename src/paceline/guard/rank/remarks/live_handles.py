"""Handles that a rank has made and not freed, counted by the line that made them.

A handle that no object stands for any more can hardly be freed, so a few of one line are enough to say so. Objects that
are kept may be freed later: of those a line must have made far more than programs need.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any, NamedTuple

from paceline.guard.rank.remarks.rank_remarks import HANDLE_LEAK, RankRemarks


class HandleLimits(NamedTuple):
    """From how many handles of one line on a rank speaks of a leak."""

    dropped: int  # that no object stands for any more
    held: int  # in all


# A program that needs more of them at one time is not known. Communicators, windows and files take numbers of which
# MPICH has 2048; mpi4py has room for 32 reductions of the user's own; the others take memory alone.
LIMITS = {
    "communicator": HandleLimits(64, 512),
    "window": HandleLimits(64, 512),
    "file": HandleLimits(64, 512),
    "reduction": HandleLimits(16, 24),
    "group": HandleLimits(1000, 20_000),
    "datatype": HandleLimits(1000, 20_000),
    "info": HandleLimits(1000, 20_000),
    "request": HandleLimits(1000, 20_000),
    "process group": HandleLimits(32, 32),  # of the same ranks: torch itself keeps the objects
}


class _MadeHandle(weakref.ref[Any]):
    """The object that a handle was returned in, and where it was made."""

    __slots__ = ("line",)
    line: _Line


class _Line:
    """The handles of one kind that one line has made."""

    __slots__ = ("kind", "num", "num_dropped", "site")

    def __init__(self, kind: str, site: int) -> None:
        self.kind, self.site, self.num, self.num_dropped = kind, site, 0, 0


def _note_dropped(reference: weakref.ref[Any]) -> None:
    assert isinstance(reference, _MadeHandle)
    reference.line.num_dropped += 1


class LiveHandles:
    """The handles of one rank."""

    def __init__(self, remarks: RankRemarks, library: str = "", limits: dict[str, int] | None = None) -> None:
        """Count handles.

        Args:
            remarks: Where to say it.
            library: The name of the library, for the words.
            limits: How many handles of a kind the library has room for, where that is known.
        """
        self._remarks, self._library, self._limits = remarks, library, limits or {}
        self._lines: dict[tuple[Hashable, ...], _Line] = {}
        # MPI may give one handle several times, as it does with the group of a communicator
        self._made: dict[tuple[str, Hashable], list[_MadeHandle]] = {}

    def add(self, kind: str, handle: Hashable, made: Any, site: int, *, alike: Hashable = None) -> None:
        """Count a handle that was just made at a site. Only those that are alike count together."""
        line = self._lines.setdefault((kind, site, alike), _Line(kind, site))
        line.num += 1
        reference = _MadeHandle(made, _note_dropped)
        reference.line = line
        self._made.setdefault((kind, handle), []).append(reference)
        dropped, held = LIMITS[kind]
        if line.num_dropped >= dropped or line.num >= held:
            facts: dict[str, Any] = {"dropped": line.num_dropped}
            if kind in self._limits:
                facts |= {"limit": self._limits[kind], "library": self._library}
            self._remarks.tell(HANDLE_LEAK, site, kind, count=line.num, **facts)

    def remove(self, kind: str, handle: Hashable) -> None:
        """Note that a handle was freed."""
        made = self._made.get((kind, handle))
        if made:
            at = next((index for index, one in enumerate(made) if one() is not None), -1)
            reference = made.pop(at)
            reference.line.num -= 1
            if reference() is None:
                reference.line.num_dropped -= 1
            if not made:
                del self._made[kind, handle]
