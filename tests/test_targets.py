"""No test is left out: what `make test` leaves to another target is in a folder that this target is given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
# packages that are fetched, and minutes; clusters that start for minutes; packages that need environments of their own
BY_HAND = ("test-slurm", "test-ray", "test-deepspeed", "test-streaming", "test-pythons")
LEFT_OUT = re.findall(r"not (\w+)", MAKEFILE.partition("\npytest:")[2].partition("\n\n")[0])


def test_targets_are_seen() -> None:
    assert {
        "programs",
        "examples",
        "packages",
        "browser",
        "bench",
        "hosts",
        "slurm",
        "openmpi4",
        "mpi4py",
        "wheel",
        "ray",
        "deepspeed",
        "streaming",
    } == set(LEFT_OUT)
    targets = [
        target for target in re.findall(r"^(test-[\w-]+):", MAKEFILE, flags=re.MULTILINE) if target not in BY_HAND
    ]
    checked = re.findall(r"make (test-[\w-]+)", (ROOT / ".ci" / "run").read_text())
    assert sorted(checked) == sorted(targets)


@pytest.mark.parametrize("mark", LEFT_OUT)
def test_marked_tests_are_in_the_folders_of_their_target(mark: str) -> None:
    (target,) = re.findall(
        rf"^\t.*pytest .*-m '?[\w ]*\b{mark}\b[\w ]*'?(?: tests/\S+)+$", MAKEFILE, flags=re.MULTILINE
    )
    folders = re.findall(r" (tests/\S+)", target)
    tests = (ROOT / "tests").rglob("test_*.py")
    marked = [path for path in tests if re.search(rf"pytest\.mark\.{mark}\b", path.read_text())]
    assert marked
    for path in marked:
        assert any(path.is_relative_to(ROOT / folder) for folder in folders), f"{path} is not run by {target.strip()}"
