"""Files of one user in shared places: nobody else may read them, and what others have put there is not used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.process.foreign_files import read_foreign, read_json
from paceline.process.private_files import (
    is_in_use,
    is_locked,
    is_private_folder,
    lock_file,
    make_private_folder,
    open_private,
    read_private,
    write_private,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
HOLDS = """
import sys
from paceline.process.private_files import lock_file
lock_file(sys.argv[1])
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=[0o000, 0o002, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_what_is_made_is_for_its_user_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    folder = make_private_folder(tmp_path, "run-")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert is_private_folder(folder)
    write_private(folder / "file", b"one")
    write_private(folder / "file", b"two", append=True)
    assert (folder / "file").stat().st_mode & 0o777 == 0o600
    assert read_private(folder / "file", most=6) == b"onetwo"
    with pytest.raises(OSError, match="more than 5 bytes"):
        read_private(folder / "file", most=5)


def test_a_link_is_neither_followed_nor_emptied(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "link").symlink_to("precious")
    with pytest.raises(OSError, match="symbolic links"):
        write_private(tmp_path / "link", b"")
    with pytest.raises(OSError, match="symbolic links"):
        read_foreign(tmp_path / "link", most=100)
    assert (tmp_path / "precious").read_text() == "mine"
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "to-folder").symlink_to("folder")
    assert is_private_folder(tmp_path / "folder")
    assert not is_private_folder(tmp_path / "to-folder")


@pytest.mark.timeout(10)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError):
        open_private(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_json(tmp_path / "pipe")


@as_root
def test_what_belongs_to_another_user_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("theirs")
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("file", "folder"):
        os.chown(tmp_path / name, 65534, 65534)
    with pytest.raises(PermissionError):
        write_private(tmp_path / "file", b"")
    assert (tmp_path / "file").read_text() == "theirs"
    assert not is_private_folder(tmp_path / "folder")


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_a_folder_that_others_may_enter_is_not_private(tmp_path: Path, mode: int) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder").chmod(mode)
    assert not is_private_folder(tmp_path / "folder")


def test_a_lock_holds_as_long_as_its_process_lives(tmp_path: Path) -> None:
    path = tmp_path / "judge"
    assert not is_locked(path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert is_locked(path)
        assert is_locked(path)  # asking takes nothing away
        assert lock_file(path, wait=False) is None
        process.kill()
        process.wait()
        assert not is_locked(path)
    lock = lock_file(path, wait=False)
    assert lock is not None
    os.close(lock)


def test_a_file_that_is_open_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10))
    with (tmp_path / "file").open("rb"):
        assert is_in_use(tmp_path / "file")
    assert not is_in_use(tmp_path / "file")


def test_json_that_is_too_large_or_too_deep_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b" " * 101)
    with pytest.raises(OSError, match="more than 100 bytes"):
        read_json(tmp_path / "large", most=100)
    (tmp_path / "deep").write_bytes(b"[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "deep")
