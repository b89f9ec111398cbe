"""`paceline lab` with real ranks: a few cases here, all of them in `make test-lab`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.lab import find_case
from paceline.lab.check_cases import check_case

QUICK = ("float64-received-as-float32", "receive-too-small", "small-messages-lost")


def lab(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", "lab", *arguments]
    return subprocess.run(
        command, cwd=folder, env=dict(os.environ), capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize("name", QUICK)
def test_a_case_fails_bare_is_diagnosed_and_passes_when_repaired(name: str) -> None:
    verdicts = check_case(find_case(name))
    assert {"bare", "guard", "fixed"} <= {verdict.part for verdict in verdicts}
    assert all(verdict.holds for verdict in verdicts), verdicts


def test_a_repair_is_told_from_what_only_looks_like_one(tmp_path: Path) -> None:
    assert lab("solve", "wrong-tag", folder=tmp_path).returncode == 0
    program = tmp_path / "wrong-tag.py"
    unrepaired = lab("check", program.name, folder=tmp_path)
    assert unrepaired.returncode == 90
    assert "NOT repaired: a finding" in unrepaired.stdout
    broken = program.read_text()
    program.write_text(broken.replace("dest=0, tag=TAG_WORK", "dest=0, tag=TAG_RESULT"))
    repaired = lab("check", program.name, folder=tmp_path)
    assert (repaired.returncode, repaired.stderr) == (0, "")
    assert "the repair holds" in repaired.stdout
    program.write_text(broken.replace("sum(work), dest=0, tag=TAG_WORK", "0, dest=0, tag=TAG_RESULT"))
    wrong = lab("check", program.name, folder=tmp_path)
    assert wrong.returncode == 90
    assert "rank 0 ends with 'rank 0: results [0, 0]'" in wrong.stdout


def test_run_shows_the_finding_and_bare_what_was_observed(tmp_path: Path) -> None:
    guarded = lab("run", "last-rank-short", folder=tmp_path)
    assert guarded.returncode == 90
    assert "paceline: rank 6 fell out of line" in guarded.stdout, guarded.stdout
    bare = lab("run", "last-rank-short", "--bare", folder=tmp_path)
    assert bare.returncode == 0
    assert ": hang" in bare.stdout
    assert "at broken.py:20 " in bare.stdout, bare.stdout
    assert "no rank made progress for" in bare.stdout
    assert list(tmp_path.iterdir()) == []


def test_list_show_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list"]) == 0
    listed = capsys.readouterr().out
    assert "uneven shares\n  half-fixed-shares" in listed
    assert main(["lab", "show", "wrong-tag"]) == 0
    shown = capsys.readouterr().out
    assert find_case("wrong-tag").symptom in shown
    assert find_case("wrong-tag").cause not in shown
    assert main(["lab", "hint", "wrong-tag", "3"]) == 0
    assert find_case("wrong-tag").hints[2] in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["show", "no-such-case"], ["check", "no-such-file.py"], ["check", "--jobs", "0"]]
)
def test_wrong_usage_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", *arguments]) == 2
    assert "paceline lab: " in capsys.readouterr().err
