"""Members that called differently in the past are found although they have gone on, and nobody else is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.guard.verdict.simulated import WORLD, collective

from paceline.guard.shared_memory.layout import FAILED, WITHDRAWN
from paceline.guard.verdict.diagnose import find_passed_mismatch
from paceline.guard.verdict.finding import Finding, FindingField
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot

BETWEEN = "inter-1-77ab"


def _calls(*reductions: str, communicator: str = WORLD) -> tuple[Call, ...]:
    return tuple(
        collective(
            "Allreduce", 10 + at, communicator, sequence=at + 1, number=at, reduction=reduction, num_bytes=8, left_ns=1
        )
        for at, reduction in enumerate(reductions)
    )


def _find(*histories: tuple[Call, ...], end: End | None = None) -> Finding | None:
    ranks = [
        RankState(rank=rank, history=history, positions=dict.fromkeys((WORLD, BETWEEN), 99), end=end)
        for rank, history in enumerate(histories)
    ]
    members = tuple(range(len(ranks)))
    known = {
        WORLD: Membership(name="WORLD", ranks=members),
        BETWEEN: Membership(name="Create_intercomm", ranks=members, num_first=1),
    }
    return find_passed_mismatch(Inspection(Snapshot(ranks=ranks, communicators=known)))


def test_the_first_call_that_differs_is_named() -> None:
    usual = _calls("SUM", "SUM", "SUM", "SUM")
    finding = _find(usual, _calls("SUM", "MAX", "MIN", "SUM"), usual)
    assert finding is not None
    assert (finding.ranks, finding.field) == ((1,), FindingField.REDUCTION)
    assert "call 2 on WORLD" in finding.summary


def test_calls_that_only_some_remember_are_not_missed() -> None:
    finding = _find(_calls("SUM", "SUM"), _calls("SUM", "SUM")[1:], _calls("SUM", "MAX")[1:])
    assert finding is not None
    assert finding.ranks == (2,)


@pytest.mark.parametrize("changed", [{"reduction": "unknown"}, {"num_bytes": -1}, {"site": "other.py:3"}])
def test_what_is_not_known_fits_and_so_does_another_line(changed: dict[str, object]) -> None:
    usual = _calls("SUM", "SUM")
    other = (usual[0], replace(usual[1], **changed))  # type: ignore[arg-type]
    assert _find(usual, other, usual) is None


def test_between_two_sides_nothing_is_compared() -> None:
    calls = [_calls(reduction, communicator=BETWEEN) for reduction in ("SUM", "MAX")]
    assert _find(*calls) is None


def test_a_call_that_may_still_be_refused_is_not_compared() -> None:
    refused, made = _calls("MAX", "SUM")
    refused = replace(refused, flags=WITHDRAWN | FAILED)
    made = replace(made, sequence=1)
    (waits,) = _calls("MAX")
    assert _find((refused, made), (replace(waits, left_ns=0),)) is None
    assert _find((refused, made), (waits,)) is not None


def test_a_job_that_its_script_has_aborted_is_left_alone() -> None:
    assert _find(_calls("SUM"), _calls("MAX"), end=End(kind=EndKind.ABORTED)) is None
