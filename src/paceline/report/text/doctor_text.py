"""What the doctor saw, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.doctor.flight import FlightRecord, finding_of
from paceline.doctor.nccl_ras import RasCommunicator
from paceline.doctor.observed_job import Diagnosis, SeenRank
from paceline.errors import name_ranks
from paceline.guard.verdict.finding_json import finding_to_json, group_to_json
from paceline.process.native_stacks import Thread
from paceline.report.safe_text import terminal_safe
from paceline.report.text.tables import table_text

_COLOURS = {"head": "\033[1;31m", "key": "\033[1m", "end": "\033[0m"}


def diagnosis_as_text(diagnosis: Diagnosis, *, colours: bool = False) -> str:
    """Return what was seen of a job: one sentence, the ranks in groups, what follows and what cannot be said."""
    head, key, end = (_COLOURS[name] if colours else "" for name in ("head", "key", "end"))
    job = diagnosis.job
    if diagnosis.finding is not None:
        lines = [f"{head}paceline: {terminal_safe(diagnosis.finding.summary)}{end}"]
    else:
        lines = [f"{key}paceline: nothing is provably out of line{end}"]
    size = (
        f"{len(job.ranks)} of {job.world_size} ranks" if job.world_size is not None else f"{len(job.ranks)} processes"
    )
    lines.append(f"  {size} of {terminal_safe(job.name)}; ranks by {job.ranks_from}")
    rows = [
        (
            name_ranks(group.ranks),
            group.call or group.state,
            terminal_safe(group.site or ""),
            terminal_safe(group.detail),
        )
        for group in diagnosis.groups
    ]
    lines += [f"  {line}" for line in table_text(("", "", "", ""), rows).splitlines()[1:]]
    lines += [f"  {key}seen:{end} {terminal_safe(text)}" for text in diagnosis.says]
    lines += [f"  {key}cannot say:{end} {terminal_safe(text)}" for text in diagnosis.cannot]
    lines += [f"  {key}note:{end} {terminal_safe(text)}" for text in job.notes]
    if diagnosis.finding is not None:
        lines.append(f"  {key}change:{end} {diagnosis.finding.advice}")
    return "\n".join(lines)


def flight_as_text(record: FlightRecord, *, colours: bool = False) -> str:
    """Return what the Flight Recorder's dumps show."""
    head, key, end = (_COLOURS[name] if colours else "" for name in ("head", "key", "end"))
    lines = [f"{key}Flight Recorder of {name_ranks(record.ranks)}:{end}"]
    if record.mismatch is not None:
        lines.append(f"  {head}{terminal_safe(record.mismatch)}{end}")
    lines += [f"  {terminal_safe(text)}" for text in record.says]
    if record.mismatch is None and not record.says:
        lines.append("  all calls that several ranks have recorded agree")
    lines += [f"  {key}left out:{end} {terminal_safe(text)}" for text in record.problems]
    return "\n".join(lines)


def ras_as_text(communicators: Sequence[RasCommunicator], *, colours: bool = False) -> str:
    """Return what NCCL's RAS has answered."""
    key, end = (_COLOURS[name] if colours else "" for name in ("key", "end"))
    texts = [text for communicator in communicators if (text := communicator.text) is not None]
    lines = [f"{key}RAS of NCCL, {len(communicators)} communicators:{end}", *(f"  {terminal_safe(t)}" for t in texts)]
    return "\n".join(lines if texts else [*lines, "  all ranks have answered, and have counted the same"])


def doctor_as_json(
    exit_code: int,
    diagnoses: Sequence[Diagnosis],
    record: FlightRecord | None,
    ras: Sequence[RasCommunicator] | None = None,
) -> dict[str, Any]:
    """Return everything as values that json can write: a diagnosis like that of a run, and each job with its stacks."""
    finding = next((diagnosis.finding for diagnosis in diagnoses if diagnosis.finding is not None), None)
    if finding is None and record is not None:
        finding = finding_of(record)
    return {
        "version": 1,
        "outcome": "finding" if exit_code else "ok",
        "exit_code": exit_code,
        "finding": finding_to_json(finding) if finding is not None else None,
        "jobs": [_job_as_json(diagnosis) for diagnosis in diagnoses],
        "flight_recorder": _flight_as_json(record),
        "nccl_ras": None if ras is None else [_ras_as_json(communicator) for communicator in ras],
    }


def _ras_as_json(communicator: RasCommunicator) -> dict[str, Any]:
    return {
        "name": communicator.name,
        "size": communicator.size,
        "behind": list(communicator.behind()),
        "missing": list(communicator.missing),
        "says": communicator.text,
    }


def _job_as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    job = diagnosis.job
    return {
        "name": job.name,
        "world_size": job.world_size,
        "ranks_from": job.ranks_from,
        "finding": finding_to_json(diagnosis.finding) if diagnosis.finding is not None else None,
        "groups": [group_to_json(group) for group in diagnosis.groups],
        "missing": list(job.missing),
        "num_elsewhere": job.num_elsewhere,
        "unseen": [{"rank": rank, "reason": why} for rank, why in sorted(job.unseen.items())],
        "says": list(diagnosis.says),
        "cannot": list(diagnosis.cannot),
        "notes": list(job.notes),
        "stacks": [_rank_as_json(seen) for seen in job.ranks],
    }


def _rank_as_json(seen: SeenRank) -> dict[str, Any]:
    return {
        "rank": seen.rank,
        "pid": seen.pid,
        "has_moved": seen.has_moved,
        "seconds": round(seen.seconds, 2),
        "processor_share": round(seen.processor_share, 3),
        "kernel_state": seen.second.kernel_state,
        "kernel_wait": seen.second.kernel_wait,
        "exit_calls": list(seen.second.exit_calls),
        "threads": [_thread_as_json(thread) for thread in seen.second.threads],
    }


def _thread_as_json(thread: Thread) -> dict[str, Any]:
    frames = [{"function": frame.function, "file": frame.file, "line": frame.line} for frame in thread.frames]
    return {"name": thread.name, "is_main": thread.is_main, "frames": frames}


def _flight_as_json(record: FlightRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {
        "ranks": list(record.ranks),
        "mismatch": record.mismatch,
        "odd_ranks": list(record.odd_ranks),
        "says": list(record.says),
        "look_at": list(record.look_at),
        "problems": list(record.problems),
    }
