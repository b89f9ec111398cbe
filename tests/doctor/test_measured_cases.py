"""What the doctor said of each case that hangs, as it was measured: never wrong, and as the document has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from docs.write_doctor import BEGIN, END, document

from paceline.lab import Case, all_cases

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks" / "results" / "doctor.json"

_HANGING = [(case, library) for case in all_cases() for library, ends in case.bare.items() if "hang" in ends]


def _record() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(RECORD.read_text())
    return record


@pytest.mark.parametrize(("case", "library"), _HANGING, ids=[f"{case.id}-{library}" for case, library in _HANGING])
def test_the_doctor_names_the_right_ranks_or_says_what_it_cannot_know(case: Case, library: str) -> None:
    result = _record()["figures"][case.id][library]
    answer, named = result["answer"], result.get("named")
    if answer == "ended":
        assert set(case.bare[library]) != {"hang"}, "timing decides how this case ends"
        return
    assert answer in ("right", "differ", "silent")
    assert (answer == "right") == (tuple(named) in case.expected.ranks)
    if answer == "differ":
        assert named == list(range(case.num_ranks))
        assert any(text.startswith("who is out of line") for text in result["cannot"])
    if answer == "silent":
        assert named == []
        assert result["says"]
        assert result["cannot"]


def test_the_record_has_no_case_that_the_catalogue_does_not_have() -> None:
    measured = {(name, library) for name, results in _record()["figures"].items() for library in results}
    assert measured == {(case.id, library) for case, library in _HANGING}


def test_the_table_of_the_document_is_made_of_the_record() -> None:
    text = (ROOT / "docs" / "doctor.md").read_text()
    assert text == document(text, all_cases(), _record()), "docs/doctor.md is out of date: run make breaks"
    table = text.partition(BEGIN)[2].partition(END)[0]
    assert "| [last-rank-short](breaks.md#last-rank-short) | rank 6 | rank 6 | rank 6 |" in table
    assert "0 times wrong ranks are named" in table
