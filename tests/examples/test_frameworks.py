"""Frameworks that make every call from one line of the user: `paceline run` names that line, the rank, and why.

The programs are in tests/guard/programs/packages. Each runs with shards of uneven length and, if told `even`, with
equal ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.guard.program_files import PACKAGES

pytestmark = pytest.mark.packages

DEADLINE = 120.0
FINDING_CODE = 90
FRAMEWORKS = {"accelerate_loop": "accelerate", "lightning_fit": "lightning", "trainer_train": "transformers"}


def run(folder: Path, program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return watched(folder, "-n", "2", "--carrier", "torch", str(program), *arguments)


def watched(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline", "run", "--json", "outcome.json", "--notice", "100", *command],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


def marked_site(program: Path) -> str:
    lines = program.read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, start=1) if line.endswith("# <- here")]
    return f"{program.name}:{number}"


def test_every_program_is_in_the_table() -> None:
    assert {path.stem for path in PACKAGES.glob("*.py")} == set(FRAMEWORKS)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_rank_with_one_batch_less_is_named_with_the_line_of_the_user(name: str, tmp_path: Path) -> None:
    pytest.importorskip(FRAMEWORKS[name])
    program = PACKAGES / f"{name}.py"
    check_finding(run(tmp_path, program), program, tmp_path)


def test_ranks_that_lightning_starts_by_itself_are_watched(tmp_path: Path) -> None:
    program = PACKAGES / "lightning_fit.py"
    check_finding(watched(tmp_path, "--", sys.executable, str(program)), program, tmp_path)


def check_finding(ended: subprocess.CompletedProcess[str], program: Path, folder: Path) -> None:
    assert ended.returncode == FINDING_CODE, ended.stderr
    finding = json.loads((folder / "outcome.json").read_text())["finding"]
    assert finding["cause"] == "uneven-steps", finding
    assert finding["ranks"] in ([1], [0, 1]), finding  # of two ranks nothing tells which is right
    sites = {rank: Path(group["site"]).name for group in finding["groups"] for rank in group["ranks"]}
    assert sites[0] == marked_site(program)
    # where both ranks are at one line of the user, functions of the library tell their calls apart
    assert sites[0] != sites[1] or ", in " in finding["summary"], finding


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_with_equal_shards_the_guard_says_nothing(name: str, tmp_path: Path) -> None:
    pytest.importorskip(FRAMEWORKS[name])
    ended = run(tmp_path, PACKAGES / f"{name}.py", "even")
    assert ended.returncode == 0, ended.stderr
    assert "rank 0 trained" in ended.stdout
    assert "rank 1 trained" in ended.stdout
    assert "paceline:" not in ended.stderr
