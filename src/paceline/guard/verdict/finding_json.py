"""A finding and warnings as JSON, and back. The only place that knows this form; its names are fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.guard.shared_memory.number_ranges import from_ranges, to_ranges
from paceline.guard.verdict.finding import (
    Cause,
    Explanation,
    Finding,
    FindingField,
    FindingKind,
    FirstDifference,
    GroupState,
    RankGroup,
)
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.guard.verdict.rank_names import WorldRank

VERSION = 1
_MOST_LISTED = 1024  # ranks that are listed one by one
_MOST_RANKS = 1 << 20


def outcome_of(exit_code: int | None, finding: Finding | None) -> str:
    """Return how a run ended: `ok`, `finding` or `failed`.

    >>> outcome_of(0, None), outcome_of(3, None)
    ('ok', 'failed')
    """
    return "finding" if finding is not None else "failed" if exit_code else "ok"


def diagnosis_to_json(
    exit_code: int | None, finding: Finding | None, warnings: Sequence[JobWarning] = ()
) -> dict[str, Any]:
    """Return the diagnosis of a run; the exit code is None where only the job's launcher knows it."""
    return {
        "version": VERSION,
        "outcome": outcome_of(exit_code, finding),
        "exit_code": exit_code,
        "finding": None if finding is None else finding_to_json(finding),
        "warnings": [warning_to_json(warning) for warning in warnings],
    }


def warning_to_json(warning: JobWarning) -> dict[str, Any]:
    """Return a warning as plain values."""
    return {
        "cause": str(warning.cause),
        **_ranks_to_json(warning.ranks),
        "summary": warning.summary,
        "advice": warning.advice,
        "sites": list(warning.sites),
    }


def warnings_from_json(diagnosis: Mapping[str, Any]) -> tuple[JobWarning, ...]:
    """Return the warnings that a diagnosis holds; one from before there were warnings holds none.

    Raises:
        ValueError: They are not warnings; the message says which part is wrong.
    """
    return tuple(warning_from_json(value) for value in _objects({"warnings": [], **diagnosis}, "warnings"))


def warning_from_json(value: Mapping[str, Any]) -> JobWarning:
    """Return the warning that a file holds; raise ValueError if it is not one."""
    sites = value.get("sites", [])
    if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites):
        raise ValueError(f"sites is {sites!r}, not a list of texts")
    return JobWarning(
        cause=WarningCause(_text(value, "cause")),  # type: ignore[call-arg]
        ranks=_ranks(value),
        summary=_text(value, "summary"),
        advice=_text(value, "advice"),
        sites=tuple(sites),
    )


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain values."""
    return {
        "kind": str(finding.kind),
        "field": None if finding.field is None else str(finding.field),
        **_ranks_to_json(finding.ranks),
        "summary": finding.summary,
        "cause": str(finding.cause),
        "advice": finding.advice,
        "latency_ms": finding.latency_ms,
        "groups": [group_to_json(group) for group in finding.groups],
        "divergence": None if finding.first_difference is None else _difference_to_json(finding.first_difference),
        "explanations": [_explanation_to_json(explanation) for explanation in finding.explanations],
    } | _world_ranks_to_json(finding.world_ranks)


def _world_ranks_to_json(world_ranks: Mapping[int, WorldRank]) -> dict[str, Any]:
    """Return what people call ranks that are not numbered by the first world; nothing where there are none."""
    shown = {str(number): {"rank": own.rank, "world": own.world} for number, own in sorted(world_ranks.items())}
    return {"world_ranks": shown} if shown else {}


def _explanation_to_json(explanation: Explanation) -> dict[str, Any]:
    return {
        "cause": str(explanation.cause),
        **_ranks_to_json(explanation.ranks),
        "summary": explanation.summary,
        "advice": explanation.advice,
    }


def group_to_json(group: RankGroup) -> dict[str, Any]:
    """Return ranks in the same situation as plain values."""
    return {
        **_ranks_to_json(group.ranks),
        "state": str(group.state),
        "call": group.call,
        "communicator": group.communicator,
        "sequence": group.sequence,
        "site": group.site,
        "count": group.count,
        "dtype": group.dtype,
        "detail": group.detail,
        "has_returned": group.has_returned,
    } | _hosts_to_json(group)


def _hosts_to_json(group: RankGroup) -> dict[str, Any]:
    told: dict[str, Any] = {"hosts": list(group.hosts)} if group.hosts else {}
    return told | ({"num_hosts": group.num_hosts} if group.num_hosts else {})


def _ranks_to_json(ranks: Sequence[int]) -> dict[str, Any]:
    """Return ranks one by one; very many as ranges of begin, end and step.

    >>> _ranks_to_json((0, 1, 5)), _ranks_to_json(range(100_000))
    ({'ranks': [0, 1, 5]}, {'ranges': [[0, 100000, 1]]})
    """
    if len(ranks) <= _MOST_LISTED:
        return {"ranks": list(ranks)}
    return {"ranges": [list(one) for one in to_ranges(ranks)]}


def _difference_to_json(difference: FirstDifference) -> dict[str, Any]:
    groups = [{**_ranks_to_json(group.ranks), "call": group.call, "site": group.site} for group in difference.groups]
    return {"sequence": difference.sequence, "communicator": difference.communicator, "groups": groups}


def finding_from_json(value: Mapping[str, Any]) -> Finding:
    """Return the finding that a file holds.

    Raises:
        ValueError: It is not one; the message says which part is wrong.
    """
    field, difference = value.get("field"), value.get("divergence")
    latency = value.get("latency_ms", 0.0)
    if isinstance(latency, bool) or not isinstance(latency, int | float):
        raise ValueError(f"latency_ms is {latency!r}")
    return Finding(
        kind=FindingKind(_text(value, "kind")),
        field=None if field is None else FindingField(field),
        ranks=_ranks(value),
        summary=_text(value, "summary"),
        cause=Cause(_text(value, "cause")),  # type: ignore[call-arg]
        advice=_text(value, "advice"),
        latency_ms=float(latency),
        groups=tuple(_group(inner) for inner in _objects(value, "groups")),
        first_difference=None if difference is None else _difference(difference),
        explanations=tuple(_explanation(inner) for inner in _objects({"explanations": [], **value}, "explanations")),
        world_ranks=_world_ranks(value.get("world_ranks", {})),
    )


def _world_ranks(value: Any) -> dict[int, WorldRank]:
    if not isinstance(value, Mapping) or not all(isinstance(world_rank, Mapping) for world_rank in value.values()):
        raise ValueError(f"world_ranks is {value!r}")
    world_ranks = {}
    for number, world_rank in value.items():
        rank = _number(world_rank, "rank")
        if rank is None or not str(number).isdecimal():
            raise ValueError(f"world_ranks has {number!r}: {world_rank!r}")
        world_ranks[int(number)] = WorldRank(rank=rank, world=_text(world_rank, "world"))
    return world_ranks


def _explanation(value: Mapping[str, Any]) -> Explanation:
    return Explanation(
        ranks=_ranks(value),
        summary=_text(value, "summary"),
        cause=Cause(_text(value, "cause")),  # type: ignore[call-arg]
        advice=_text(value, "advice"),
    )


def _difference(value: Any) -> FirstDifference:
    if not isinstance(value, Mapping):
        raise ValueError(f"divergence is {value!r}")
    sequence = _number(value, "sequence")
    if sequence is None:
        raise ValueError("divergence has no sequence")
    groups = tuple(_group({"state": "blocked", **inner}) for inner in _objects(value, "groups"))
    return FirstDifference(sequence=sequence, communicator=_text(value, "communicator"), groups=groups)


def _group(value: Mapping[str, Any]) -> RankGroup:
    return RankGroup(
        ranks=_ranks(value),
        state=GroupState(_text(value, "state")),
        call=_optional_text(value, "call"),
        communicator=_optional_text(value, "communicator"),
        sequence=_number(value, "sequence"),
        site=_optional_text(value, "site"),
        count=_number(value, "count"),
        dtype=_optional_text(value, "dtype"),
        detail=_optional_text(value, "detail") or "",
        has_returned=value.get("has_returned") is True,
        hosts=_hosts(value),
        num_hosts=_number(value, "num_hosts") or 0,
    )


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    if not isinstance(text, str):
        raise ValueError(f"{key} is {text!r}, not a text")
    return text


def _optional_text(value: Mapping[str, Any], key: str) -> str | None:
    return None if value.get(key) is None else _text(value, key)


def _number(value: Mapping[str, Any], key: str) -> int | None:
    number = value.get(key)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise ValueError(f"{key} is {number!r}, not a whole number")
    return number


def _ranks(value: Mapping[str, Any]) -> tuple[int, ...]:
    if "ranges" in value:
        ranges = value["ranges"]
        if not isinstance(ranges, list) or not all(isinstance(one, list) for one in ranges):
            raise ValueError(f"ranges is {ranges!r}, not a list of ranges")
        return from_ranges(ranges, most=_MOST_RANKS)
    ranks = value.get("ranks")
    if not isinstance(ranks, list) or any(isinstance(rank, bool) or not isinstance(rank, int) for rank in ranks):
        raise ValueError(f"ranks is {ranks!r}, not a list of ranks")
    return tuple(ranks)


def _hosts(value: Mapping[str, Any]) -> tuple[str, ...]:
    hosts = value.get("hosts", [])
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise ValueError(f"hosts is {hosts!r}, not a list of names")
    return tuple(hosts)


def _objects(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    objects = value.get(key)
    if not isinstance(objects, list) or not all(isinstance(item, Mapping) for item in objects):
        raise ValueError(f"{key} is not a list of objects")
    return objects
