"""What every case of the catalogue has, seen from its files; nothing is run."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
from docs.write_breaks import document, warnings_in

from paceline.errors import InputError
from paceline.guard.verdict.job_warning import WarningCause
from paceline.lab import Case, all_cases, find_case
from paceline.lab.case import CASES
from paceline.lab.check_cases import case_of, copy_to_solve
from paceline.lab.verdicts import find_differences, find_other_warnings

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks" / "results" / "lab.json"

every_case = pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.id)


def imports_of(program: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(program.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    return found


def test_the_catalogue_has_all_its_cases() -> None:
    assert {case.id for case in all_cases()} == {path.name for path in CASES.iterdir() if path.is_dir()}
    assert len(all_cases()) >= 41


@every_case
def test_a_broken_program_is_short_and_knows_nothing_of_us(case: Case) -> None:
    assert 15 <= len(case.program("broken").read_text().splitlines()) <= 60
    for name in ("broken", "fixed"):
        assert "paceline" not in imports_of(case.program(name))
    if case.has("paceline"):
        assert "paceline" in imports_of(case.program("paceline"))


@every_case
def test_a_case_says_all_that_a_reader_needs(case: Case) -> None:
    texts = (case.title, case.symptom, case.recognise, case.cause, case.prevention, *case.hints, *case.search)
    assert all(texts)
    assert case.search
    assert case.fix().count("\n") < 60
    assert case.is_silent == case.has("seen")


@every_case
def test_the_expected_line_is_in_the_program(case: Case) -> None:
    lines = case.program("broken").read_text().splitlines()
    expected = case.expected
    sites = [*expected.sites, *(expected.warning.sites if expected.warning else ())]
    assert case.is_silent or expected.late or sites
    for site in sites:
        file, _, number = site.partition(":")
        assert file == "broken.py"
        assert lines[int(number) - 1].strip()


@every_case
def test_what_was_measured_is_what_the_case_states(case: Case) -> None:
    found = json.loads(RECORD.read_text())["figures"][case.id]
    for library, endings in case.bare.items():
        assert found[library]["ending"] in endings, library
        guarded = found[f"guard on {library}"]
        assert list(find_other_warnings(case, warnings_in(guarded))) == [], library
        if case.expected.has_finding(library):
            assert list(find_differences(case, guarded["finding"])) == [], library
        else:
            assert guarded["finding"] is None, library


def test_the_document_is_made_of_the_cases_and_the_record() -> None:
    made = document(all_cases(), json.loads(RECORD.read_text()))
    assert (ROOT / "docs" / "breaks.md").read_text() == made, "docs/breaks.md is out of date: run make breaks"
    assert "training hangs at end of epoch" in made


def test_the_document_has_the_warnings() -> None:
    made = document(all_cases(), json.loads(RECORD.read_text()))
    rows = {line.partition("](#")[0]: line for line in made.splitlines() if line.startswith("| [")}
    assert "| warning buffer-in-use, rank 0 |" in rows["| [buffer-reused-too-early"]
    both = rows["| [communicator-in-every-step"]
    assert (
        "| peer-gone, rank 0, cause handle-leak; warning handle-leak, rank 0 or warning handle-leak, rank 0 |" in both
    )


@every_case
def test_a_warning_has_a_cause_that_the_guard_knows(case: Case) -> None:
    if case.expected.warning is not None:
        assert case.expected.warning.cause in set(WarningCause)


@pytest.mark.parametrize("library", ["gloo", "another"])
def test_a_finding_is_of_a_library_that_the_case_runs_on(library: str) -> None:
    case = find_case("communicator-in-every-step")
    assert case.expected.libraries == ("mpich",)
    assert find_case("wrong-tag").expected.libraries == ("mpich", "openmpi")
    with pytest.raises(InputError, match=r"\[finding\] may name mpich and openmpi as its library"):
        replace(case, expected=replace(case.expected, libraries=(library,)))


def test_a_case_is_found_by_its_name_or_the_beginning_of_it() -> None:
    assert find_case("last-rank-short").id == "last-rank-short"
    assert find_case("last").id == "last-rank-short"
    with pytest.raises(
        InputError, match="'wrong': did you mean wrong-source or wrong-tag\\? `paceline lab list` shows all"
    ):
        find_case("wrong")
    with pytest.raises(InputError, match="there is no case 'zzz'; `paceline lab list` shows all"):
        find_case("zzz")


def test_a_copy_to_solve_remembers_its_case(tmp_path: Path) -> None:
    case = find_case("wrong-tag")
    path = copy_to_solve(case, tmp_path)
    assert case_of(path) == case
    assert path.read_text().endswith(case.program("broken").read_text())
    with pytest.raises(InputError, match="is here already"):
        copy_to_solve(case, tmp_path)


def test_a_program_of_no_case_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("print(1)\n")
    with pytest.raises(InputError, match="does not say its case"):
        case_of(path)
