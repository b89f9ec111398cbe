"""Keeps what a run has recorded, for a report later: the ranks' rings as they are, and what a reader must know."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.run.kept_source import keep_lines
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.last_output import KEPT_OUTPUT_BYTES, LAST_OUTPUT
from paceline.guard.verdict.finding import Finding
from paceline.process.hidden_secrets import without_secrets
from paceline.process.private_files import open_private, read_private, write_private

_MAX_BYTES = 512 << 20  # of one run; the rings of ranks beyond it are left out
DEFAULT_FOLDER = Path("paceline-out")
_PAGE_BYTES = 4096
WORK_PREFIX = "work."  # files in the run's folder that loaders write, one for each rank


def keep_records(
    out: Path | None, folder: Path, jobs: Sequence[WatchedJob], finding: Finding | None, command: Sequence[str]
) -> Path | None:
    """Copy what ranks have recorded into a new folder and return it; without a finding only if `out` is given."""
    if finding is None and out is None:
        return None
    records = _new_folder(out or DEFAULT_FOLDER)
    try:
        _fill(records, folder, jobs, finding, command)
    except BaseException:
        shutil.rmtree(records, ignore_errors=True)  # a part of it would be taken for the whole
        raise
    return records


def _fill(
    records: Path, folder: Path, jobs: Sequence[WatchedJob], finding: Finding | None, command: Sequence[str]
) -> None:
    left_out = _copy_rings(jobs, records)
    for path in sorted(folder.glob(f"{WORK_PREFIX}*")):
        write_private(records / path.name, read_private(path, most=_MAX_BYTES))
    _copy_outputs(folder, jobs, records)
    _write_json(records / "run.json", _description(jobs, finding, command, left_out))
    _write_json(records / "sources.json", {"version": 1, "lines": keep_lines(_sites(jobs, finding))})


def _copy_rings(jobs: Sequence[WatchedJob], records: Path) -> list[int]:
    """Copy the ranks' rings as long as there is room; return the ranks that are left out."""
    num_bytes = 0
    left_out = []
    for job in jobs:
        for rank, watched in sorted(job.ranks.items()):
            if num_bytes > _MAX_BYTES - layout.RING_BYTES:
                left_out.append(rank)
                continue
            num_bytes += write_used(watched.reader.content(), records / f"ring.{job.name}.{rank}")
    return left_out


def _copy_outputs(folder: Path, jobs: Sequence[WatchedJob], records: Path) -> None:
    """Copy what ranks printed last, as far as it was put aside."""
    for job in jobs:
        for rank, watched in job.ranks.items():
            path = folder / f"{LAST_OUTPUT}{watched.process.pid}"
            if path.exists():
                write_private(records / f"{LAST_OUTPUT}{job.name}.{rank}", _kept_output(path))


def _kept_output(path: Path) -> bytes:
    """Return the start of what a rank printed last, and how much more there was."""
    with open(open_private(path), "rb") as file:
        content = file.read(KEPT_OUTPUT_BYTES)
        more = os.fstat(file.fileno()).st_size - len(content)
    return content + f"\npaceline: {more} more bytes are not kept\n".encode() if more > 0 else content


def write_used(raw: bytes, target: Path) -> int:
    """Write a ring without the pages that were never written; return the bytes that the file takes."""
    empty = bytes(_PAGE_BYTES)
    num_bytes = 0
    with open(open_private(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        for start in range(0, len(raw), _PAGE_BYTES):
            page = raw[start : start + _PAGE_BYTES]
            if page != empty[: len(page)]:
                file.seek(start)
                num_bytes += file.write(page)
        file.truncate(len(raw))
    return num_bytes


def _description(
    jobs: Sequence[WatchedJob], finding: Finding | None, command: Sequence[str], left_out: list[int]
) -> Any:
    """Return what a reader of the records must know: the command, the clocks, the jobs and how their ranks ended."""
    now_ns = time.monotonic_ns()
    decided_ns = finding.decided_ns if finding is not None and finding.decided_ns else now_ns
    return {
        "version": 1,
        "command": without_secrets(command),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "ended_ns": decided_ns,
        "wall_minus_clock_ns": time.time_ns() - now_ns,
        "worlds": [{"name": job.name, "world_size": job.world_size, "ends": _ends(job, decided_ns)} for job in jobs],
        "ranks_left_out": left_out,
    }


def _ends(job: WatchedJob, decided_ns: int) -> list[dict[str, Any]]:
    """Return how ranks ended, without those that the guard ended after a finding."""
    return [
        {"rank": rank, "kind": end.kind.value, "detail": end.detail, "site": end.site, "at_ns": end.at_ns}
        for rank, end in sorted(job.ends().items())
        if end.at_ns <= decided_ns
    ]


def _sites(jobs: Sequence[WatchedJob], finding: Finding | None) -> list[tuple[str, str]]:
    """Return the lines whose source matters, those of the finding first, each with the folder its path starts in."""
    folders = list(dict.fromkeys(watched.reader.folder for job in jobs for watched in job.ranks.values()))
    groups = [] if finding is None else list(finding.groups)
    if finding is not None and finding.first_difference is not None:
        groups += finding.first_difference.groups
    sites = [(folder, group.site) for group in groups if group.site for folder in folders]
    for job in jobs:
        ends = {rank: end.site for rank, end in job.ends().items() if end.site}
        for rank, watched in job.ranks.items():
            sites += [(watched.reader.folder, site) for site in (*watched.reader.sites(), ends.get(rank, "")) if site]
    return list(dict.fromkeys(sites))


def _write_json(path: Path, value: Any) -> None:
    write_private(path, json.dumps(value, indent=2).encode() + b"\n")


def _new_folder(parent: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        path = parent / (stamp if number == 0 else f"{stamp}-{number}")
        try:
            path.mkdir(parents=True)
            path.chmod(0o700)  # it holds the user's source lines and data sizes, whatever the umask says of others
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{parent} already holds a thousand runs of this second")
