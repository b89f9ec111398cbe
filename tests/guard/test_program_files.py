"""The programs of the guard's tests: every category has wrong and correct ones, and each says what it must."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from tests.guard.broken_programs import (
    marked_lines,
    missed_programs,
    one_in_every,
    read_world_size,
    repaired,
    why_not_found,
)
from tests.guard.program_files import (
    CARRIERS,
    CATEGORIES,
    ENQUEUING,
    INITIATIVE,
    KINDS,
    PACKAGES,
    PROGRAMS,
    category_of,
    find_program,
    programs,
)

ALL = [path for carrier in CARRIERS for kind in KINDS for path in programs(carrier, kind)]
WRONG = [path for carrier in CARRIERS for kind in ("broken", "warned") for path in programs(carrier, kind)]
ONLY_OF_MPI = {"epoch_lifecycle", "global_concurrency"}  # they are about windows, which torch has none of on a CPU


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_each_category_has_wrong_and_correct_programs_in_several_manners(category: str, carrier: str) -> None:
    num_wrong = sum(category_of(path) == category for kind in ("broken", "warned") for path in programs(carrier, kind))
    num_correct = sum(category_of(path) == category for path in programs(carrier, "correct"))
    if carrier == "torch":
        assert (num_wrong >= 2 and num_correct >= 1) != (category in ONLY_OF_MPI)
    else:
        assert num_wrong >= 5
        assert num_correct >= 3


def test_there_are_more_than_120_programs_in_the_categories_of_the_initiative() -> None:
    assert sum(category_of(path) in INITIATIVE for path in ALL) >= 120


def test_every_program_is_in_a_category() -> None:
    found = {path for path in PROGRAMS.rglob("*.py") if path != ENQUEUING and PACKAGES not in path.parents}
    package = find_program("torch", "correct", "package_of_a_user")
    assert {path for path in found if package not in path.parents} == set(ALL)
    assert {category_of(path) for path in ALL} == set(CATEGORIES)


def test_names_are_unique_within_a_carrier() -> None:
    names = Counter((path.parts[-3], path.stem) for path in ALL)
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("program", WRONG, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_a_wrong_program_marks_a_line_and_its_repair_is_a_program(program: Path) -> None:
    ast.parse(program.read_text())
    ast.parse(repaired(program))
    assert marked_lines(program)
    assert read_world_size(program) > 0


def test_a_program_that_is_not_found_expects_nothing_else_and_says_why() -> None:
    missed = [program for carrier in CARRIERS for program in missed_programs(carrier)]
    assert missed
    for program in missed:
        assert len((why_not_found(program) or "").split()) > 5, program.name
        assert not any(line.startswith(("# finding:", "# cause:")) for line in program.read_text().splitlines())
    assert not [program for carrier in CARRIERS for program in programs(carrier, "warned") if why_not_found(program)]


def test_a_program_is_found_by_its_name() -> None:
    assert category_of(find_program("mpi", "broken", "wrong_tag")) == "parameter_matching"
    with pytest.raises(ValueError, match="unpack"):
        find_program("mpi", "correct", "wrong_tag")


def test_one_in_every_few_leaves_out_no_category(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_EVERY", "5")
    chosen = Counter(map(category_of, one_in_every(WRONG, key=category_of)))
    assert chosen == {category: -(-count // 5) for category, count in Counter(map(category_of, WRONG)).items()}
    monkeypatch.setenv("PACELINE_EVERY", "1")
    assert one_in_every(WRONG, key=category_of) == WRONG
