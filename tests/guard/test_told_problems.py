"""What cannot be watched is told while the job runs, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.run import told_problems
from paceline.guard.run.told_problems import ToldProblems


def test_a_problem_is_told_while_the_job_runs_and_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_problems, "_EVERY_SECONDS", 0.0)
    told: list[str] = []
    rings = LocalRings(tmp_path)
    try:
        problems = ToldProblems(rings, told.append)
        (tmp_path / "problem.1").touch()  # the rank is about to write
        problems.look()
        (tmp_path / "problem.1").write_text("rank 0 cannot be watched: no room")
        problems.look()
        assert told == []
        problems.look()
        problems.look()
        assert told == ["rank 0 cannot be watched: no room"]
        (tmp_path / "problem.2").touch()
        assert len(problems.tell_rest()) == 2
        assert told[1:] == ["process 2 cannot be watched: there was no room to say why"]
    finally:
        rings.close()
