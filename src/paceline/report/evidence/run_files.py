"""Finds and reads the files of a run: what ran, how it ended, the finding, and the ranks' records."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from paceline.errors import InputError, name_ranks
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.finding_json import finding_from_json, warnings_from_json
from paceline.guard.verdict.job_warning import JobWarning
from paceline.process.foreign_files import read_foreign, read_json
from paceline.report.evidence.bench_result import RECORDS, BenchResult, read_bench_result
from paceline.report.evidence.ring_file import RankRecord, read_ring

_MAX_PROBLEMS = 20
_MAX_RANKS = 1 << 20
_MAX_DIGITS = 8
_MAX_NUMBER = 1 << 62
_MAX_NOTES_BYTES = 64 << 20


@dataclass(slots=True, kw_only=True)
class RunFiles:
    """What is in the folder of a run.

    Attributes:
        folder: The folder.
        about: What run.json says; empty if it cannot be read.
        diagnosis: What diagnosis.json says; None if it cannot be read.
        sources: Lines of the user's source, by file and number of the line.
        world_size: Ranks of the job that is shown.
        ranks: The records that could be read, by rank.
        work: What loaders have noted, by pid.
        finding: The finding, if there is one that can be read.
        warnings: What did not stop the job.
        bench: What a benchmark has measured.
        missing: What is not there, as sentences.
    """

    folder: Path
    about: dict[str, Any] = field(default_factory=dict)
    diagnosis: dict[str, Any] | None = None
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    world_size: int = 0
    ranks: dict[int, RankRecord] = field(default_factory=dict)
    ends: dict[int, dict[str, Any]] = field(default_factory=dict)
    work: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    finding: Finding | None = None
    warnings: tuple[JobWarning, ...] = ()
    bench: BenchResult | None = None
    missing: list[str] = field(default_factory=list)


def find_run(path: Path) -> Path:
    """Return the folder of a run: this one, the latest in it, or the latest of the benchmark whose figures it holds."""
    if not path.is_dir():
        raise InputError(f"there is no folder {str(path)!r}" if not path.exists() else f"{str(path)!r} is not a folder")
    if _is_run(path):
        return path
    runs = sorted((inner for inner in path.iterdir() if inner.is_dir() and _is_run(inner)), key=_order)
    if not runs and (path / RECORDS).is_dir():
        return find_run(path / RECORDS)
    if not runs:
        raise InputError(f"there is no run in {str(path)!r}: record one with paceline run --out {path} ...")
    return runs[-1]


def _order(folder: Path) -> tuple[float, str]:
    return folder.stat().st_mtime, folder.name


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file() or (path / "diagnosis.json").is_file() or any(path.glob("ring.*"))


def read_run(folder: Path) -> RunFiles:
    """Read a run. What cannot be read is listed in `missing`."""
    run = RunFiles(folder=folder)
    run.about = _json(run, "run.json", "the command and the end of the run are not known")
    run.diagnosis = _json(run, "diagnosis.json", "the outcome is not known") or None
    run.finding = _finding(run)
    run.warnings = _warnings(run)
    sources = _json(run, "sources.json", "lines of source are not shown").get("lines")
    if isinstance(sources, dict):
        run.sources = {str(file): lines for file, lines in sources.items() if isinstance(lines, dict)}
    _read_rings(run)
    for path in sorted(folder.glob("work.*.jsonl")):
        _read_work(run, path)
    run.bench = read_bench_result(folder)
    left_out = _ranks_left_out(run)
    if left_out:
        run.missing.append(f"{name_ranks(left_out)}: no record was kept, because the run had too many ranks")
    return run


def _json(run: RunFiles, name: str, consequence: str) -> dict[str, Any]:
    try:
        value = read_json(run.folder / name)
        if not isinstance(value, dict):
            raise ValueError("not an object")
    except FileNotFoundError:
        run.missing.append(f"{name} is not there: {consequence}")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is truncated or corrupt"
        run.missing.append(f"{name} cannot be read ({reason}): {consequence}")
    else:
        return value
    return {}


def _finding(run: RunFiles) -> Finding | None:
    value = (run.diagnosis or {}).get("finding")
    if not isinstance(value, dict):
        return None
    try:
        return finding_from_json(value)
    except ValueError as error:
        run.missing.append(f"the finding in diagnosis.json cannot be read: {error}")
        return None


def _warnings(run: RunFiles) -> tuple[JobWarning, ...]:
    try:
        return warnings_from_json(run.diagnosis or {})
    except ValueError as error:
        run.missing.append(f"the warnings in diagnosis.json cannot be read: {error}")
        return ()


def _read_rings(run: RunFiles) -> None:
    """Read the records of one job: the latest, if ranks were started several times."""
    jobs: dict[str, dict[int, Path]] = {}
    for path in run.folder.glob("ring.*"):
        job, _, rank = path.name.removeprefix("ring.").rpartition(".")
        if rank.isdecimal() and _is_rank(int(rank[:_MAX_DIGITS])):
            jobs.setdefault(job, {})[int(rank)] = path
    read = {name: _read_job(run, paths) for name, paths in jobs.items()}
    if not read:
        run.missing.append("there is no record of any rank: no call can be shown")
        return
    shown = max(read, key=lambda name: max((record.joined_ns for record in read[name].values()), default=-1))
    if len(read) > 1:
        run.missing.append(f"the run started ranks {len(read)} times: the last start is shown")
    run.ranks = read[shown]
    _read_about(run, shown)
    missing = [rank for rank in range(run.world_size) if rank not in run.ranks]
    if missing and _ranks_left_out(run) != missing:
        run.missing.append(f"{name_ranks(missing)}: no record can be shown")


def _read_job(run: RunFiles, paths: dict[int, Path]) -> dict[int, RankRecord]:
    records: dict[int, RankRecord] = {}
    problems: dict[str, list[int]] = {}
    for rank, path in sorted(paths.items()):
        record = read_ring(path, rank)
        if isinstance(record, str):
            problems.setdefault(record.partition(": ")[2], []).append(rank)
            continue
        records[rank] = record
        for problem in record.problems:
            problems.setdefault(problem, []).append(rank)
    for problem, ranks in list(problems.items())[:_MAX_PROBLEMS]:
        run.missing.append(f"{name_ranks(ranks)}: {problem}")
    return records


def _read_about(run: RunFiles, name: str) -> None:
    """Take the size of the job and how ranks ended from run.json, or else from the records."""
    sizes = [record.world_size for record in run.ranks.values()]
    run.world_size = max(
        max(sizes, default=0) if max(sizes, default=0) < _MAX_RANKS else 0, max(run.ranks, default=-1) + 1
    )
    for job in _list(run.about.get("worlds")):
        if isinstance(job, dict) and job.get("name") == name:
            size = job.get("world_size")
            run.world_size = max(run.world_size, size if _is_rank(size) else 0)
            ends = [end for end in _list(job.get("ends")) if isinstance(end, dict) and _is_rank(end.get("rank"))]
            run.ends = {end["rank"]: _with_known_time(end) for end in ends}


def _with_known_time(end: dict[str, Any]) -> dict[str, Any]:
    at_ns = end.get("at_ns")
    return end if isinstance(at_ns, int) and 0 <= at_ns < _MAX_NUMBER else {**end, "at_ns": None}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_rank(value: Any) -> TypeGuard[int]:
    """Say whether this may be the number of a rank, or of ranks: a file may name any number."""
    return isinstance(value, int) and 0 <= value < _MAX_RANKS


def _ranks_left_out(run: RunFiles) -> list[int]:
    return sorted({rank for rank in _list(run.about.get("ranks_left_out")) if _is_rank(rank)})


def _read_work(run: RunFiles, path: Path) -> None:
    pid = path.name.split(".")[1]
    num_broken = 0
    notes = []
    try:
        lines = read_foreign(path, most=_MAX_NOTES_BYTES).splitlines()
    except OSError as error:
        run.missing.append(f"{path.name} cannot be read: {error.strerror}")
        return
    for line in lines:
        try:
            note = json.loads(line)
            at_ns, loader = int(note["at_ns"]), int(note["loader"])
            if not 0 <= at_ns < _MAX_NUMBER or not 0 <= loader < _MAX_NUMBER:
                raise ValueError("a number out of range")
            notes.append({**note, "at_ns": at_ns, "loader": loader})
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            num_broken += 1
    if num_broken:
        run.missing.append(f"{num_broken} notes of the loader in {path.name} cannot be read")
    if pid.isdecimal():
        run.work[int(pid)] = notes
