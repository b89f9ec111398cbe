"""The file that ranks share for their alarm belongs to one user, whatever the umask, and nothing else is opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from paceline.loader.agreement.alarm_boards import _make_file, _open_own


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_only_its_user_may_open_the_file(umask: int) -> None:
    before = os.umask(umask)
    try:
        path = _make_file(f"test-{os.getpid()}-{umask}", 1000)
    finally:
        os.umask(before)
    assert path is not None
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with _open_own(path) as file:
            assert os.fstat(file.fileno()).st_size == 1000
    finally:
        path.unlink()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "alarm").symlink_to("precious")
    with pytest.raises(OSError, match="symbolic links"):
        _open_own(tmp_path / "alarm")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_a_file_of_another_user_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "alarm"
    path.write_bytes(bytes(1000))
    os.chown(path, 65534, 65534)
    with pytest.raises(PermissionError, match="is not a file of this user"):
        _open_own(path)


def test_a_folder_or_pipe_in_its_place_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "alarm")
    with pytest.raises(PermissionError):
        _open_own(tmp_path / "alarm")
