"""The diagnosis of a run as JSON, and the file that holds it among the records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.guard.verdict.finding import Divergence, Finding, RankGroup

DIAGNOSIS = "diagnosis.json"
_VERSION = 1


def outcome_of(exit_code: int | None, finding: Finding | None) -> str:
    """Return how a run ended: `ok`, `finding` or `failed`.

    >>> outcome_of(0, None), outcome_of(3, None)
    ('ok', 'failed')
    """
    return "finding" if finding is not None else "failed" if exit_code else "ok"


def diagnosis_to_json(exit_code: int | None, finding: Finding | None) -> dict[str, Any]:
    """Return the diagnosis of a run; the exit code is None where nobody but the job's launcher knows it."""
    return {
        "version": _VERSION,
        "outcome": outcome_of(exit_code, finding),
        "exit_code": exit_code,
        "finding": finding_to_json(finding) if finding is not None else None,
    }


def write_diagnosis(path: Path, exit_code: int | None, finding: Finding | None) -> None:
    """Write the diagnosis of a run."""
    path.write_text(json.dumps(diagnosis_to_json(exit_code, finding), indent=2) + "\n")


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON has it."""
    return {
        "kind": finding.kind,
        "field": finding.field,
        "ranks": list(finding.ranks),
        "summary": finding.summary,
        "cause": finding.cause,
        "advice": finding.advice,
        "latency_ms": finding.latency_ms,
        "groups": [group_to_json(group) for group in finding.groups],
        "divergence": _divergence_to_json(finding.divergence),
    }


def group_to_json(group: RankGroup) -> dict[str, Any]:
    """Return ranks in the same situation as JSON has them."""
    return {
        "ranks": list(group.ranks),
        "state": group.state,
        "call": group.call,
        "communicator": group.communicator,
        "sequence": group.sequence,
        "site": group.site,
        "count": group.count,
        "dtype": group.dtype,
        "detail": group.detail,
        "has_returned": group.has_returned,
    }


def _divergence_to_json(divergence: Divergence | None) -> dict[str, Any] | None:
    if divergence is None:
        return None
    groups = [{"ranks": list(group.ranks), "call": group.call, "site": group.site} for group in divergence.groups]
    return {"sequence": divergence.sequence, "communicator": divergence.communicator, "groups": groups}


def finding_from_json(value: Mapping[str, Any]) -> Finding:
    """Return the finding that JSON holds; raise KeyError or TypeError if it holds none."""
    divergence = value["divergence"]
    return Finding(
        kind=value["kind"],
        field=value["field"],
        ranks=tuple(value["ranks"]),
        summary=value["summary"],
        cause=value["cause"],
        advice=value["advice"],
        latency_ms=value["latency_ms"],
        groups=_groups_from_json(value["groups"]),
        divergence=None
        if divergence is None
        else Divergence(
            sequence=divergence["sequence"],
            communicator=divergence["communicator"],
            groups=_groups_from_json(divergence["groups"]),
        ),
    )


def _groups_from_json(groups: Sequence[Mapping[str, Any]]) -> tuple[RankGroup, ...]:
    """Return groups of ranks; those of a first difference say neither state nor sizes."""
    return tuple(
        RankGroup(
            ranks=tuple(group["ranks"]),
            state=group.get("state", ""),
            call=group["call"],
            communicator=group.get("communicator"),
            sequence=group.get("sequence"),
            site=group["site"],
            count=group.get("count"),
            dtype=group.get("dtype"),
            detail=group.get("detail", ""),
            has_returned=group.get("has_returned", False),
        )
        for group in groups
    )
