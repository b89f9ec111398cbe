"""Keeps what a run has recorded, for a report later: the ranks' records as they are, and how to read them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from paceline.guard.finding import Finding
from paceline.guard.worlds import World

_MAX_BYTES = 512 << 20  # of one run; ranks beyond it keep no record
_DEFAULT = Path("paceline-out")


def keep_records(
    out: Path | None, folder: Path, worlds: Sequence[World], finding: Finding | None, command: Sequence[str]
) -> Path | None:
    """Copy the records into a new folder and return it; without a finding only if a folder was asked for."""
    if finding is None and out is None:
        return None
    kept = _new_folder(out or _DEFAULT)
    num_bytes = 0
    left_out = []
    for world in worlds:
        for rank, held in sorted(world.ranks.items()):
            size = held.reader.path.stat().st_size
            if num_bytes + size > _MAX_BYTES:
                left_out.append(rank)
                continue
            num_bytes += size
            shutil.copyfile(held.reader.path, kept / held.reader.path.name)
    about = {
        "version": 1,
        "command": list(command),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "worlds": [{"name": world.name, "world_size": world.world_size} for world in worlds],
        "ranks_left_out": left_out,
    }
    (kept / "run.json").write_text(json.dumps(about, indent=2) + "\n")
    return kept


def _new_folder(parent: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        path = parent / (stamp if number == 0 else f"{stamp}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{parent} holds a thousand runs of the same second")
