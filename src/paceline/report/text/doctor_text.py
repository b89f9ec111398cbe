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
from paceline.report.text.text_layout import PLAIN, TextLayout


def diagnosis_as_text(diagnosis: Diagnosis, layout: TextLayout = PLAIN) -> str:
    """Return what was seen of a job: one sentence, the ranks in groups, what follows and what cannot be said."""
    job = diagnosis.job
    if diagnosis.finding is not None:
        lines = layout.headline(f"paceline: {terminal_safe(diagnosis.finding.summary)}")
    else:
        lines = layout.headline("paceline: nothing is provably out of line", "key")
    size = (
        f"{len(job.ranks)} of {job.world_size} ranks" if job.world_size is not None else f"{len(job.ranks)} processes"
    )
    lines += layout.wrap(f"{size} of {terminal_safe(job.name)}; ranks by {job.ranks_from}", indent=2)
    rows = [
        (
            name_ranks(group.ranks),
            group.call or group.state,
            terminal_safe(group.site or ""),
            terminal_safe(group.detail),
        )
        for group in diagnosis.groups
    ]
    for line in table_text(("", "", "", ""), rows).splitlines()[1:]:
        lines += layout.wrap(line, indent=2)
    for label, texts in (("seen", diagnosis.says), ("cannot say", diagnosis.cannot), ("note", job.notes)):
        lines += [line for text in texts for line in layout.labelled(label, terminal_safe(text))]
    if diagnosis.finding is not None:
        lines += layout.labelled("change", terminal_safe(diagnosis.finding.advice))
    return "\n".join(lines)


def flight_as_text(record: FlightRecord, layout: TextLayout = PLAIN) -> str:
    """Return what the Flight Recorder's dumps show."""
    lines = layout.headline(f"Flight Recorder of {name_ranks(record.ranks)}:", "key")
    if record.mismatch is not None:
        lines += [layout.colour("head", line) for line in layout.wrap(terminal_safe(record.mismatch), indent=2)]
    lines += [line for text in record.says for line in layout.wrap(terminal_safe(text), indent=2)]
    if record.mismatch is None and not record.says:
        lines.append("  all calls that several ranks have recorded agree")
    lines += [line for text in record.problems for line in layout.labelled("left out", terminal_safe(text))]
    return "\n".join(lines)


def ras_as_text(communicators: Sequence[RasCommunicator], layout: TextLayout = PLAIN) -> str:
    """Return what NCCL's RAS has answered."""
    texts = [text for communicator in communicators if (text := communicator.text) is not None]
    lines = layout.headline(f"RAS of NCCL, {len(communicators)} communicators:", "key")
    lines += [line for text in texts for line in layout.wrap(terminal_safe(text), indent=2)]
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
