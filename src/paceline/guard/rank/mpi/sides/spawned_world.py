"""What tells the ranks that were spawned together from their parents, and from others that were spawned.

They have a world of their own. Its name must be the same on all of them, without a message: some may not be watched,
and would not answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_NAMESPACE = "PMIX_NAMESPACE"  # Open MPI has one for each spawn
# The ranks of one world that MPICH has started on one machine share a piece of memory, whose name no other world has.
_SEGMENT = re.compile(r"\s(/dev/shm/mpich\S+)")


def name_of_spawned(environ: Mapping[str, str], maps: Path = Path("/proc/self/maps")) -> str | None:
    """Return a name for the world that this process was spawned into; None if nothing tells it from others."""
    if _NAMESPACE in environ:
        return f"spawned {environ[_NAMESPACE]}"
    segments = sorted(set(_SEGMENT.findall(maps.read_text(errors="replace"))))
    return f"spawned {segments[0]}" if segments else None
