"""The memory that ranks share for their alarm belongs to one user, has no name to leave behind, and is not mistaken."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.loader.agreement import alarm_boards
from paceline.loader.agreement.alarm_boards import _make_memory, _open_memory
from paceline.loader.agreement.first_message import gather_json


def path_of(file: object) -> str:
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"  # type: ignore[attr-defined]


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_only_its_user_may_open_the_memory(umask: int) -> None:
    before = os.umask(umask)
    try:
        made = _make_memory("0123", 1000)
    finally:
        os.umask(before)
    assert made is not None
    with made:
        assert stat.S_IMODE(os.fstat(made.fileno()).st_mode) == 0o600
        opened = _open_memory(path_of(made), "0123")
        assert opened is not None
        with opened:
            made.write(b"told")
            assert opened.read(4) == b"told"


def test_memory_of_another_name_is_not_opened(tmp_path: Path) -> None:
    made = _make_memory("0123", 1000)
    assert made is not None
    with made:
        assert _open_memory(path_of(made), "4567") is None


def test_what_the_path_means_on_another_host_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    assert _open_memory(str(tmp_path / "nothing"), "0123") is None
    assert _open_memory(str(tmp_path / "precious"), "0123") is None
    assert _open_memory(str(tmp_path / "pipe"), "0123") is None
    with (tmp_path / "precious").open() as file:
        assert _open_memory(path_of(file), "0123") is None


# a rank that has made the board waits for the others, who may never come
KILLED_WHILE_IT_WAITS = """
import os, signal
from paceline.comm import connect
from paceline.loader.agreement import alarm_boards
alarm_boards.gather_json = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
alarm_boards.make_board(connect())
"""


def test_a_rank_that_is_killed_while_it_makes_the_board_leaves_nothing() -> None:
    def boards() -> set[Path]:
        folders = (Path("/dev/shm"), Path(tempfile.gettempdir()))
        return {path for folder in folders for path in folder.glob("paceline-alarm-*")}

    before = boards()
    ended = subprocess.run([sys.executable, "-c", KILLED_WHILE_IT_WAITS], timeout=120, check=False)
    assert ended.returncode == -9
    assert boards() <= before


def test_the_board_is_made_from_the_device_that_ranks_send_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some carriers send nothing that is in the host's memory."""
    devices: list[str] = []

    def noted(comm: Comm, content: Any, device: torch.device | str = "cpu") -> list[Any]:
        devices.append(f"{device}")
        return gather_json(comm, content)

    monkeypatch.setattr(alarm_boards, "gather_json", noted)
    alarm_boards.make_board(AloneComm(), torch.device("cuda", 1)).close()
    assert devices == ["cuda:1"] * 2
