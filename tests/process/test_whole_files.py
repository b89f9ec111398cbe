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


def test_a_link_stays_a_link_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    disk, latest = tmp_path / "disk", tmp_path / "latest"
    disk.mkdir()
    (disk / "state").write_bytes(b"old")
    latest.symlink_to(Path("disk") / "state")
    write_whole(latest, b"new")
    assert latest.is_symlink()
    assert (disk / "state").read_bytes() == b"new"
    assert sorted(path.name for path in disk.iterdir()) == ["state"]


def test_a_link_to_nothing_leads_to_the_new_file(tmp_path: Path) -> None:
    latest = tmp_path / "latest"
    latest.symlink_to("state")
    write_whole(latest, b"new")
    assert (tmp_path / "state").read_bytes() == b"new"
    assert latest.is_symlink()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_has_the_permissions_of_the_one_it_replaces(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "state"
    path.touch()
    path.chmod(mode)
    with open_whole(path) as file:
        beside = next(other for other in tmp_path.iterdir() if other != path)
        assert beside.stat().st_mode & 0o777 == mode, "nobody may read it before it is there, either"
        file.write(b"new")
    assert path.stat().st_mode & 0o777 == mode


def test_two_who_write_the_same_file_are_not_in_each_others_way(tmp_path: Path) -> None:
    """Such as processes of two hosts, which may have the same number."""
    path = tmp_path / "state"
    with open_whole(path) as first, open_whole(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"  # its block ended last
    assert list(tmp_path.iterdir()) == [path]
