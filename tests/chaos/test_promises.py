"""The suite that injects faults reads what the guard says: it must see what was said, and no more."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.chaos.injector import reach
from tests.chaos.lives import _strike
from tests.chaos.promises import killed_together
from tests.chaos.scenarios import Fault, Place

from paceline.guard.verdict.snapshot import End, EndKind
from paceline.report.text.finding_text import failures_as_text

KILLED = End(kind=EndKind.KILLED, detail="by SIGKILL", signal=9)
GROWN = End(kind=EndKind.KILLED, detail="by SIGKILL; its memory had grown", signal=9)
RAISED = End(kind=EndKind.RAISED, detail="OSError: no ranks 7-9 killed", site="train.py:3")


@pytest.mark.parametrize(
    ("ends", "killed"),
    [
        ([KILLED, KILLED, KILLED], {0, 1, 2}),
        ([KILLED, GROWN, KILLED], {0, 1, 2}),
        ([KILLED, RAISED, KILLED], {0, 2}),
        ([], set()),
    ],
)
def test_ranks_that_the_guard_saw_killed_together_are_read_from_its_words(ends: list[End], killed: set[int]) -> None:
    assert killed_together(failures_as_text(9, list(enumerate(ends)))) == killed


def test_a_job_that_is_ended_by_a_finding_has_no_ranks_that_were_killed_together() -> None:
    assert killed_together("rank 1 fell out of line: it was killed (by SIGKILL)\n  ranks 0-1 killed") == set()


@pytest.mark.parametrize(("fault", "code"), [(Fault.KILL, -9), (Fault.TERMINATE, -15), (Fault.STOP, 0)])
def test_a_living_process_is_struck(fault: Fault, code: int) -> None:
    process = subprocess.Popen(["sh", "-c", "read word"], stdin=subprocess.PIPE)
    assert _strike(process.pid, fault)
    process.communicate(b"go on\n", timeout=60)
    assert process.returncode == code


@pytest.mark.parametrize("fault", [Fault.KILL, Fault.TERMINATE, Fault.STOP])
def test_a_process_that_has_ended_cannot_be_struck(fault: Fault) -> None:
    process = subprocess.Popen(["true"])
    os.waitid(
        os.P_PID, process.pid, os.WEXITED | os.WNOWAIT
    )  # its parent has not asked yet: the number is still its own
    assert not _strike(process.pid, fault)
    process.wait()


@pytest.mark.timeout(60)
def test_a_rank_that_reads_a_file_that_was_cut_off_waits_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"place": Place.WORKER, "fault": Fault.CUT_FILE, "victim": 0, "step": 1, "folder": str(tmp_path)}
    monkeypatch.setenv("PACELINE_CHAOS", json.dumps(told))
    monkeypatch.setenv("RANK", "0")
    reach(Place.WORKER, 1, sample=5)
    assert (tmp_path / "here").exists(), "it was there"
