"""Jobs of Ray Train under `paceline run`: how their driver is started, and what must be found in a broken one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.guard.program_files import PACKAGES

DEADLINE = 600.0
DRIVER = PACKAGES / "ray" / "train_driver.py"
NUM_WORKERS = 3
VARIABLES = {
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_COLOR_PREFIX": "0",
    "RAY_AUTH_MODE": "disabled",
    "OMP_NUM_THREADS": "1",
}
# what is wrong with the last rank: kind of the finding, cause, and the mark of its line
BROKEN = {
    "mismatch": ("mismatch", "rank-conditional-call", "mismatch"),
    "raises": ("peer-gone", "exception", "raises"),
    "killed": ("peer-gone", "killed", None),
    "returns": ("peer-gone", "early-exit", None),
}


def watched_driver(problem: str, folder: Path, told: Path) -> list[str]:
    """Return the command of a watched driver that keeps its files in a folder."""
    run = [sys.executable, "-P", "-m", "paceline", "run", "--notice", "1000", "--json", str(told), "--"]
    return [*run, sys.executable, str(DRIVER), problem, str(folder)]


def check_finding(finding: Mapping[str, Any], problem: str) -> None:
    """Check that the last rank is named with its line, and where the others are."""
    kind, cause, mark = BROKEN[problem]
    last = NUM_WORKERS - 1
    assert (finding["kind"], finding["cause"], finding["ranks"]) == (kind, cause, [last]), finding
    sites = {rank: Path(group["site"] or "").name for group in finding["groups"] for rank in group["ranks"]}
    expected = dict.fromkeys(range(last), f"{DRIVER.name}:{_line('others')}")
    assert sites == expected | {last: f"{DRIVER.name}:{_line(mark)}" if mark else ""}, finding


def _line(mark: str) -> int:
    lines = DRIVER.read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, start=1) if line.endswith(f"# <- {mark}")]
    return found
