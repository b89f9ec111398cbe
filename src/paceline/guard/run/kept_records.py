"""Keeps what a run has recorded, for a report later: the ranks' records as they are, and how to read them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.run.kept_source import keep_lines
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.finding import Finding

_MAX_BYTES = 512 << 20  # of one run; ranks beyond it keep no record
DEFAULT_FOLDER = Path("paceline-out")
_PAGE_BYTES = 4096
WORK_PREFIX = "work."  # files in the run's folder that loaders write, one for each rank


def keep_records(
    out: Path | None, folder: Path, worlds: Sequence[WatchedJob], finding: Finding | None, command: Sequence[str]
) -> Path | None:
    """Copy the records into a new folder and return it; without a finding only if a folder was asked for."""
    if finding is None and out is None:
        return None
    kept = _new_folder(out or DEFAULT_FOLDER)
    left_out = _copy_rings(worlds, kept)
    for path in sorted(folder.glob(f"{WORK_PREFIX}*")):
        shutil.copyfile(path, kept / path.name)
    _write(kept / "run.json", _about(worlds, finding, command, left_out))
    _write(kept / "sources.json", {"version": 1, "lines": keep_lines(_sites(worlds, finding))})
    return kept


def _copy_rings(worlds: Sequence[WatchedJob], kept: Path) -> list[int]:
    """Copy the ranks' records as long as there is room; return the ranks that had none."""
    num_bytes = 0
    left_out = []
    for world in worlds:
        for rank, held in sorted(world.ranks.items()):
            if num_bytes > _MAX_BYTES - layout.RING_BYTES:
                left_out.append(rank)
                continue
            num_bytes += copy_used(held.reader.path, kept / held.reader.path.name)
    return left_out


def copy_used(source: Path, target: Path) -> int:
    """Copy a file without what was never written: zeros take no space. Return the bytes that do."""
    raw = source.read_bytes()
    empty = bytes(_PAGE_BYTES)
    num_bytes = 0
    with target.open("wb") as file:
        for begin in range(0, len(raw), _PAGE_BYTES):
            page = raw[begin : begin + _PAGE_BYTES]
            if page != empty[: len(page)]:
                file.seek(begin)
                num_bytes += file.write(page)
        file.truncate(len(raw))
    return num_bytes


def _about(worlds: Sequence[WatchedJob], finding: Finding | None, command: Sequence[str], left_out: list[int]) -> Any:
    now_ns = time.monotonic_ns()
    decided_ns = finding.decided_ns if finding is not None and finding.decided_ns else now_ns
    return {
        "version": 1,
        "command": list(command),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "ended_ns": decided_ns,
        "wall_minus_clock_ns": time.time_ns() - now_ns,
        "worlds": [
            {"name": world.name, "world_size": world.world_size, "ends": _ends(world, decided_ns)} for world in worlds
        ],
        "ranks_left_out": left_out,
    }


def _ends(world: WatchedJob, decided_ns: int) -> list[dict[str, Any]]:
    """Say how ranks have ended; not of those that the guard has ended after a finding."""
    return [
        {"rank": rank, "kind": end.kind.value, "detail": end.detail, "site": end.site, "at_ns": end.at_ns}
        for rank, end in sorted(world.ends().items())
        if end.at_ns <= decided_ns
    ]


def _sites(worlds: Sequence[WatchedJob], finding: Finding | None) -> list[tuple[str, str]]:
    """Return the places whose source matters, those of the finding first, each with the folder it is shown from."""
    folders = list(dict.fromkeys(held.reader.folder for world in worlds for held in world.ranks.values()))
    groups = [] if finding is None else list(finding.groups)
    if finding is not None and finding.first_difference is not None:
        groups += finding.first_difference.groups
    sites = [(folder, group.site) for group in groups if group.site for folder in folders]
    for world in worlds:
        ends = {rank: end.site for rank, end in world.ends().items() if end.site}
        for rank, held in world.ranks.items():
            sites += [(held.reader.folder, site) for site in (*held.reader.sites(), ends.get(rank, "")) if site]
    return list(dict.fromkeys(sites))


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


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
