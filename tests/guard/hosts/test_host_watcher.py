"""A watcher that cannot begin leaves nothing behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

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
