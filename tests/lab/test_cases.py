"""What every case of the catalogue has, seen from its files; nothing is run."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from docs.write_breaks import document

from paceline.errors import InputError
from paceline.lab import Case, all_cases, find_case
from paceline.lab.case import CASES
from paceline.lab.check_cases import case_of, copy_to_solve
from paceline.lab.verdicts import find_differences

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
    assert len(all_cases()) >= 36


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
    assert case.is_silent or case.expected.late or case.expected.sites
    for site in case.expected.sites:
        file, _, number = site.partition(":")
        assert file == "broken.py"
        assert lines[int(number) - 1].strip()


@every_case
def test_what_was_measured_is_what_the_case_states(case: Case) -> None:
    found = json.loads(RECORD.read_text())["figures"][case.id]
    for library, endings in case.bare.items():
        assert found[library]["ending"] in endings, library
        finding = found[f"guard on {library}"]["finding"]
        if case.expected.kind is None:
            assert finding is None
        else:
            assert list(find_differences(case, finding)) == [], library


def test_the_document_is_made_of_the_cases_and_the_record() -> None:
    made = document(all_cases(), json.loads(RECORD.read_text()))
    assert (ROOT / "docs" / "breaks.md").read_text() == made, "docs/breaks.md is out of date: run make breaks"
    assert "training hangs at end of epoch" in made


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
