"""What is concluded from what was seen of a job: a case that does not do what it states is told apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from paceline.lab import find_case
from paceline.lab.observed_run import ObservedRank, ObservedRun
from paceline.lab.verdicts import ending_of, judge_bare, judge_finding, judge_right

CASE = find_case("roots-differ")
FINDING: dict[str, Any] = {
    "kind": "mismatch", "field": "root", "ranks": [2], "cause": "root", "summary": "rank 2 names another root",
    "groups": [{"site": CASE.expected.sites[0]}], "divergence": None,
}  # fmt: skip


def ended(*lines: str, exit_code: int | None = 0, finding: dict[str, Any] | None = None, said: str = "") -> ObservedRun:
    ranks = tuple(ObservedRank(out=f"begin\n{line}\n", err="", lives=False, site=None) for line in lines)
    outcome = {"finding": finding, "exit_code": exit_code}
    return ObservedRun(
        exit_code=exit_code,
        seconds=1.0,
        start_seconds=0.5,
        quiet_seconds=0.0,
        ranks=ranks,
        output=said,
        outcome=outcome,
    )


def test_the_four_endings() -> None:
    assert ending_of(CASE, ended(*CASE.result)) == "right result"
    assert ending_of(CASE, ended(CASE.result[0], CASE.result[1], "rank 2: writes 20")) == "wrong result"
    assert ending_of(CASE, ended(*CASE.result, exit_code=1)) == "abort"
    assert ending_of(CASE, ended(*CASE.result, exit_code=None)) == "hang"


def test_an_exit_code_of_0_without_results_is_a_wrong_result() -> None:
    assert ending_of(CASE, ended("", "", "")) == "wrong result"


def test_another_symptom_than_the_stated_one_is_seen() -> None:
    assert judge_bare(CASE, "mpich", ended(*CASE.result, exit_code=None)).holds
    assert not judge_bare(CASE, "mpich", ended(*CASE.result)).holds


def test_the_stated_finding_holds_and_any_other_does_not() -> None:
    assert judge_finding(CASE, ended(exit_code=90, finding=FINDING)).holds
    others: list[dict[str, Any]] = [
        {"kind": "deadlock"}, {"field": None}, {"ranks": [1]}, {"cause": "call-order"}, {"groups": [{"site": "a.py"}]},
    ]  # fmt: skip
    for other in others:
        assert not judge_finding(CASE, ended(exit_code=90, finding={**FINDING, **other})).holds, other
    assert not judge_finding(CASE, ended(*CASE.result)).holds


def test_a_guard_that_gives_no_outcome_does_not_hold() -> None:
    silent = find_case("mean-of-means")
    assert judge_finding(silent, ended(*silent.result)).holds
    assert not judge_finding(silent, replace(ended(*silent.result), outcome=None)).holds
    assert not judge_finding(silent, ended(exit_code=90, finding=FINDING)).holds


def test_a_late_rank_must_be_shown_and_never_called_stuck() -> None:
    slow = find_case("slow-rank")
    shown = "paceline: ranks 0-1 have waited 0.5 s\n  rank 2 is sleeping"
    assert judge_finding(slow, ended(*slow.result, said=shown)).holds
    assert not judge_finding(slow, ended(*slow.result)).holds
    assert not judge_finding(slow, ended(exit_code=90, said=shown, finding=FINDING)).holds


def test_a_repair_must_end_well_without_a_finding_and_with_the_result_on_every_rank() -> None:
    assert judge_right(CASE, "repair", ended(*CASE.result)).holds
    assert not judge_right(CASE, "repair", ended(*CASE.result, exit_code=1)).holds
    assert not judge_right(CASE, "repair", ended(*CASE.result, finding=FINDING)).holds
    wrong = judge_right(CASE, "repair", ended(CASE.result[0], CASE.result[1], ""))
    assert not wrong.holds
    assert "rank 2 ends with 'begin'" in wrong.text
