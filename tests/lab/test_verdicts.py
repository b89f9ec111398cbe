"""What is concluded from what was seen of a job: a case that does not do what it states is told apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from paceline.lab import find_case
from paceline.lab.observed_run import ObservedRank, ObservedRun
from paceline.lab.verdicts import ending_of, judge_bare, judge_guard, judge_right
from paceline.report.text.lab_text import guarded_as_text

CASE = find_case("roots-differ")
FINDING: dict[str, Any] = {
    "kind": "mismatch", "field": "root", "ranks": [2], "cause": "root", "summary": "rank 2 names another root",
    "groups": [{"site": CASE.expected.sites[0]}], "divergence": None,
}  # fmt: skip
WARNED = find_case("small-messages-lost")
WARNING: dict[str, Any] = {
    "cause": "message-never-received", "ranks": [1, 3], "summary": "2 messages were never received",
    "sites": ["program/broken.py:16", "program/broken.py:13"],
}  # fmt: skip
LATE = "paceline: ranks 0-1 have waited 0.5 s\n  rank 2 is sleeping"


def ended(
    *lines: str,
    exit_code: int | None = 0,
    finding: dict[str, Any] | None = None,
    said: str = "",
    warnings: list[dict[str, Any]] | None = None,
) -> ObservedRun:
    ranks = tuple(ObservedRank(out=f"begin\n{line}\n", err="", lives=False, site=None) for line in lines)
    outcome = {"finding": finding, "exit_code": exit_code, "warnings": warnings or []}
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
    assert judge_guard(CASE, "mpich", ended(exit_code=90, finding=FINDING)).holds
    others: list[dict[str, Any]] = [
        {"kind": "deadlock"}, {"field": None}, {"ranks": [1]}, {"cause": "call-order"}, {"groups": [{"site": "a.py"}]},
    ]  # fmt: skip
    for other in others:
        assert not judge_guard(CASE, "mpich", ended(exit_code=90, finding={**FINDING, **other})).holds, other
    assert not judge_guard(CASE, "mpich", ended(*CASE.result)).holds


def test_a_guard_that_gives_no_outcome_does_not_hold() -> None:
    silent = find_case("mean-of-means")
    assert judge_guard(silent, "gloo", ended("wrong")).holds
    assert not judge_guard(silent, "gloo", replace(ended("wrong"), outcome=None)).holds
    assert not judge_guard(silent, "gloo", ended(exit_code=90, finding=FINDING)).holds


def test_a_job_without_a_finding_ends_as_it_does_bare() -> None:
    silent = find_case("mean-of-means")
    other = judge_guard(silent, "gloo", ended(*silent.result))
    assert not other.holds
    assert "right result, but bare the case states: wrong result" in other.text
    assert not judge_guard(silent, "gloo", ended("wrong", exit_code=1)).holds


def test_the_stated_warning_holds_and_any_other_does_not() -> None:
    assert judge_guard(WARNED, "mpich", ended("wrong", warnings=[WARNING])).holds
    others: list[dict[str, Any]] = [{"cause": "handle-leak"}, {"ranks": [0]}, {"sites": ["broken.py:1"]}, {"sites": []}]
    for other in others:
        assert not judge_guard(WARNED, "mpich", ended("wrong", warnings=[{**WARNING, **other}])).holds, other
    for warnings in ([], [WARNING, WARNING]):
        verdict = judge_guard(WARNED, "mpich", ended("wrong", warnings=warnings))
        assert f"{len(warnings)} warnings, not one" in verdict.text


def test_a_warning_leaves_the_job_and_its_exit_code_alone() -> None:
    for run in (ended("wrong", exit_code=90, warnings=[WARNING]), ended(*WARNED.result, warnings=[WARNING])):
        assert not judge_guard(WARNED, "mpich", run).holds
    stopped = ended("wrong", exit_code=90, finding=FINDING, warnings=[WARNING])
    assert "a finding that the case does not state" in judge_guard(WARNED, "mpich", stopped).text


def test_a_run_shows_the_warning_and_how_the_job_ended() -> None:
    said = "paceline: warning: 2 messages were never received [message-never-received]"
    shown = guarded_as_text(WARNED, ended("wrong", said=said, warnings=[WARNING]))
    assert shown.endswith(f"{said}\nno finding, 1 warning; exit code 0 after 1.0 s; wrong result")
    assert "\nno finding, 2 warnings; exit code 0" in guarded_as_text(WARNED, ended(warnings=[WARNING, WARNING]))
    assert "\nno finding; exit code 0" in guarded_as_text(CASE, ended(*CASE.result))


def test_a_warning_that_a_case_does_not_state_does_not_hold() -> None:
    silent, slow = find_case("mean-of-means"), find_case("slow-rank")
    for case, library, run in (
        (CASE, "mpich", ended(exit_code=90, finding=FINDING, warnings=[WARNING])),
        (silent, "gloo", ended("wrong", warnings=[WARNING])),
        (slow, "mpich", ended(*slow.result, said=LATE, warnings=[WARNING])),
    ):
        assert "a warning that the case does not state: 2 messages" in judge_guard(case, library, run).text


def test_a_finding_may_be_stated_for_one_library_alone() -> None:
    leak = find_case("communicator-in-every-step")
    warning = {"cause": "handle-leak", "ranks": [0], "summary": "130 communicators", "sites": ["broken.py:22"]}
    failed = {
        "kind": "peer-gone", "field": None, "ranks": [0], "cause": "handle-leak", "summary": "rank 0 raised",
        "groups": [{"site": "broken.py:22"}], "divergence": None,
    }  # fmt: skip
    runs_out = ended(exit_code=90, finding=failed, warnings=[warning])
    ends = ended(*leak.result, warnings=[warning])
    assert judge_guard(leak, "mpich", runs_out).holds
    assert judge_guard(leak, "openmpi", ends).holds
    assert not judge_guard(leak, "mpich", ends).holds
    assert not judge_guard(leak, "openmpi", runs_out).holds


def test_a_late_rank_must_be_shown_and_never_called_stuck() -> None:
    slow = find_case("slow-rank")
    assert judge_guard(slow, "mpich", ended(*slow.result, said=LATE)).holds
    assert not judge_guard(slow, "mpich", ended(*slow.result)).holds
    assert not judge_guard(slow, "mpich", ended(exit_code=90, said=LATE, finding=FINDING)).holds


def test_a_repair_must_end_well_without_a_finding_or_warning_and_with_the_result_on_every_rank() -> None:
    assert judge_right(CASE, "repair", ended(*CASE.result)).holds
    assert not judge_right(CASE, "repair", ended(*CASE.result, exit_code=1)).holds
    assert not judge_right(CASE, "repair", ended(*CASE.result, finding=FINDING)).holds
    assert not judge_right(CASE, "repair", ended(*CASE.result, warnings=[{"summary": "a leak"}])).holds
    assert not judge_right(CASE, "repair", replace(ended(*CASE.result), outcome=None)).holds
    wrong = judge_right(CASE, "repair", ended(CASE.result[0], CASE.result[1], ""))
    assert not wrong.holds
    assert "rank 2 ends with 'begin'" in wrong.text
