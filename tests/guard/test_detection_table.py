"""What benchmarks/detection.py makes of its scores: counts by category, recall and specificity."""

from __future__ import annotations

from typing import Any

from detection_table import SCORES, by_category, markdown, summarise


def broken(category: str, *right: str, **more: Any) -> dict[str, Any]:
    """Return the score of a broken program of which these parts were right."""
    row = {name: name in right for name in SCORES}
    return {**row, "category": category, "is_missed": False, "alarm": False, **more}


def figures(**rows: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one run; correct programs are those without scores."""
    return {
        "broken": {name: row for name, row in rows.items() if "found" in row},
        "correct": {name: row for name, row in rows.items() if "found" not in row},
    }


LEAK, RACE = "resource_leak", "message_race"
FIRST = figures(
    leaks=broken(LEAK, *SCORES, latency_ms=20.0),
    hides=broken(LEAK, is_missed=True),
    races=broken(RACE, "found", "kind", "line"),
    frees={"category": LEAK, "alarm": False},
)
SECOND = figures(
    leaks=broken(LEAK, "found", "ranks", latency_ms=40.0),
    hides=broken(LEAK, is_missed=True, alarm=True),
    frees={"category": LEAK, "alarm": True},
)


def test_programs_are_counted_by_category_over_all_runs() -> None:
    table = by_category([FIRST, SECOND], [RACE, LEAK, "epoch_lifecycle"])
    assert list(table) == [RACE, LEAK, "all"]
    leak = table[LEAK]
    assert [leak[name] for name in ("programs", "found", "ranks", "line", "cause", "not_expected")] == [
        4,
        2,
        2,
        1,
        1,
        2,
    ]
    assert (leak["recall"], leak["specificity"]) == (0.5, 0.5)
    assert (table["all"]["programs"], table["all"]["found"], table["all"]["correct_programs"]) == (5, 3, 2)


def test_what_is_said_of_a_program_that_cannot_be_judged_is_a_false_alarm() -> None:
    assert by_category([FIRST], [LEAK])[LEAK]["false_alarms"] == 0
    assert by_category([SECOND], [LEAK])[LEAK]["false_alarms"] == 2


def test_a_library_has_counts_and_times() -> None:
    row = summarise(FIRST)
    assert (row["programs"], row["found"], row["median_ms"], row["slowest_ms"]) == (3, 2, 20.0, 20.0)
    assert summarise(figures())["median_ms"] is None


def test_a_category_without_correct_programs_has_no_specificity() -> None:
    lines = markdown(by_category([FIRST], [RACE])).splitlines()
    assert lines[2] == "| message race | 1 | 1 | 0 | 1 | 0 | 1.000 | 0 | 0 |  |"
    assert {line.count("|") for line in lines} == {11}
