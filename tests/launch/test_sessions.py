"""What Open MPI's launcher leaves when it is killed is removed; what belongs to another job is not."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from paceline.launch.sessions import remove_left_sessions, sessions_now


def test_only_folders_of_launchers_that_have_gone_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = [subprocess.Popen(["true"]) for _ in range(2)]
    for process in gone:
        process.wait()
    earlier, left, of_another = (tmp_path / f"ompi.{pid}" for pid in (gone[0].pid, gone[1].pid, os.getpid()))
    earlier.mkdir()
    before = sessions_now()
    assert before == {earlier}
    for folder in (left / "0" / "1", of_another, tmp_path / "ompi.txt"):
        folder.mkdir(parents=True)
    (left / "pmix.tool").write_text("")
    remove_left_sessions(before)
    assert {path.name for path in tmp_path.iterdir()} == {earlier.name, of_another.name, "ompi.txt"}
