"""Ray Train with an unmodified driver, which starts its own cluster on this machine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.guard.hosts.ray_jobs import BROKEN, DEADLINE, VARIABLES, check_finding, watched_driver

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def _run(problem: str, folder: Path) -> tuple[subprocess.CompletedProcess[str], Any]:
    told = folder / "told.json"
    done = subprocess.run(
        watched_driver(problem, folder, told), env={**os.environ, **VARIABLES, "RAY_ADDRESS": "local"}, cwd=folder,
        timeout=DEADLINE, check=False, capture_output=True, text=True,
    )  # fmt: skip
    return done, json.loads(told.read_text())["finding"]


def test_a_correct_job_ends_as_it_would_bare(tmp_path: Path) -> None:
    done, finding = _run("correct", tmp_path)
    assert (done.returncode, finding) == (0, None), done.stderr
    assert "the driver came to its end" in done.stdout
    assert "paceline:" not in done.stderr  # no port was opened
    assert "PACELINE" not in done.stdout  # the runtime environment is the user's: workers inherit ours


@pytest.mark.parametrize("problem", BROKEN)
def test_a_rank_out_of_line_is_named_with_its_line(problem: str, tmp_path: Path) -> None:
    done, finding = _run(problem, tmp_path)
    assert done.returncode == 90, done.stderr
    check_finding(finding, problem)
