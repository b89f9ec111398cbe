"""Ray Train with the real package, on a local cluster under the guard: the same losses, and findings through Ray."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tests.examples.test_examples import FINDING_CODE, losses_of_one_process, paceline, run
from tests.guard.program_files import PACKAGES

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1500)]

DEADLINE = 1200.0
UNEVEN = PACKAGES / "ray" / "uneven_workers.py"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "600")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_COLOR_PREFIX", "0")


def test_the_losses_are_those_of_one_process_and_the_guard_is_silent(tmp_path: Path) -> None:
    watched = paceline("run", "--notice", "1000", "--json", str(tmp_path / "outcome.json"), "--")
    said = run(*watched, sys.executable, "ecosystem/ray_train.py", deadline=DEADLINE)
    found = dict(re.findall(r"epoch (\d): 53 samples, loss ([\d.]+)", said))
    assert [float(found[epoch]) for epoch in ("0", "1")] == pytest.approx(losses_of_one_process(), abs=5e-6)
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert (outcome["outcome"], outcome["finding"], outcome["warnings"]) == ("ok", None, [])


def test_a_worker_with_one_batch_less_is_named_with_its_line(tmp_path: Path) -> None:
    watched = paceline("run", "--notice", "1000", "--json", "outcome.json", "--", sys.executable, str(UNEVEN))
    run(*watched, folder=tmp_path, expected=FINDING_CODE, deadline=DEADLINE)
    finding = json.loads((tmp_path / "outcome.json").read_text())["finding"]
    assert finding["cause"] == "uneven-steps"
    lines = UNEVEN.read_text().splitlines()
    (here,) = [number for number, line in enumerate(lines, start=1) if line.endswith("# <- here")]
    assert f"uneven_workers.py:{here}" in {Path(group["site"]).name for group in finding["groups"]}
