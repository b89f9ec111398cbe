"""A watcher that cannot begin leaves nothing behind, and what one does when its job is ended."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paceline.errors import InputError
from paceline.guard.run.several_hosts import host_watcher


def test_a_watcher_that_cannot_begin_removes_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "paceline-run-x"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("PACELINE_HEAD", "127.0.0.1:1")
    monkeypatch.setenv("PACELINE_KEY", "not a key")
    monkeypatch.setattr(host_watcher, "remove_stale_folders", lambda: None)
    monkeypatch.setattr(host_watcher, "remove_leftovers", lambda before: None)
    with pytest.raises(InputError, match="is not a key"):
        host_watcher.main([str(folder), str(os.getpid()), str(time.time())])
    assert not folder.exists()


class _Process:
    def __init__(self, done: list[str], pid: int, *, has_ended: bool) -> None:
        self.pid, self._done, self._has_ended = pid, done, has_ended

    def has_ended(self) -> bool:
        return self._has_ended

    def send_signal(self, number: int) -> None:
        self._done.append(f"signal {number} to {self.pid}")


@pytest.mark.parametrize("finding", [b"{}", b""])
def test_after_a_finding_files_go_and_the_watcher_leaves_before_ranks_are_killed(
    finding: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that waits for a word would go on without the folder, so it is stopped before."""
    done: list[str] = []
    processes = [_Process(done, 5, has_ended=False), _Process(done, 6, has_ended=True)]
    rings = SimpleNamespace(
        held_rings=lambda: [SimpleNamespace(rank=SimpleNamespace(process=process)) for process in processes],
        started=list, remove_folder=lambda: done.append("folder"),
    )  # fmt: skip
    watching = SimpleNamespace(
        finding=finding, leave_before_ranks=lambda: done.append("leave"), look=lambda: done.append("look")
    )
    monkeypatch.setattr(host_watcher, "remove_segments_of", lambda pids: done.append(f"segments of {list(pids)}"))
    monkeypatch.setattr(host_watcher, "end_all", lambda roots, also: done.append("kill"))
    host_watcher._end_ranks(cast(Any, rings), cast(Any, watching))
    before = [f"signal {int(signal.SIGSTOP)} to 5", "folder", "segments of [5]", "leave"] if finding else []
    assert done == [*before, "kill", "look"]
