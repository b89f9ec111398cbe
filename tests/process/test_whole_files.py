"""A file is the old one or the new one, never a part, and nothing lies beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paceline.process.whole_files import open_whole, write_whole


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with open_whole(path) as file:
        file.write(b"ne")
        file.flush()
        assert path.read_bytes() == b"old"
        file.write(b"w")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("to_disk", [False, True])
def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path, to_disk: bool) -> None:
    path, aside = tmp_path / "state", tmp_path / "state.part"
    path.write_bytes(b"old")
    aside.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"), open_whole(path, aside=aside, to_disk=to_disk) as file:
        file.write(b"new")
    with pytest.raises(TypeError), open_whole(path, to_disk=to_disk) as file:
        file.write("not bytes")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_in_the_way_is_an_error_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(path, b"new")
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_name_are_brought_to_the_disk_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    write_whole(tmp_path / "quick", b"1")
    assert synced == []
    with open_whole(tmp_path / "safe", aside=tmp_path / "safe.part", to_disk=True) as file:
        file.write(b"1")
    assert synced == [str(tmp_path / "safe.part"), str(tmp_path)]
