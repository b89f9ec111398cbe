"""A head that is started again finds mirrors of the one before, at whatever stage that one was killed."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from paceline.guard.hosts.link import listen
from paceline.guard.hosts.mirror import RingMirror
from paceline.guard.hosts.remote_process import process_number
from paceline.guard.hosts.taking_over import remove_mirrors
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.run.several_hosts.host_role import HeadRole
from paceline.guard.run.several_hosts.viewers_place import viewers_place

_OURS, _OTHERS = "ring.abc.0.0", "ring.abc.0.1"


class _KilledError(BaseException):
    """Ends a head where it stands: nothing of its own handles it."""


def _die(*_: object, **__: object) -> None:
    raise _KilledError


def _make_mirror(folder: Path) -> RingMirror:
    mirror = RingMirror(folder, process_number(0, 7))
    assert mirror.take_names([_OTHERS, "ring.abd.0.1"]) == ""
    return mirror


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(("module", "step"), [(os, "posix_fallocate"), (mmap, "mmap"), (os, "link")])
def test_a_mirror_that_was_being_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, step: str
) -> None:
    Recorder(tmp_path, "abc.0.0", rank=0, world_size=2)
    before = _names(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module, step, _die)
        with pytest.raises(_KilledError):
            _make_mirror(tmp_path)
    remove_mirrors(tmp_path)
    assert _names(tmp_path) == before
    _make_mirror(tmp_path)


def test_a_mirror_that_had_no_content_yet_is_made_again(tmp_path: Path) -> None:
    Recorder(tmp_path, "abc.0.0", rank=0, world_size=2)
    before = _names(tmp_path)
    mirror = _make_mirror(tmp_path)
    mirror.clear()
    remove_mirrors(tmp_path)
    assert _names(tmp_path) == before
    _make_mirror(tmp_path)


def test_a_ring_of_this_host_stays_and_its_name_cannot_be_taken(tmp_path: Path) -> None:
    Recorder(tmp_path, "abc.0.0", rank=0, world_size=2)
    mirror = RingMirror(tmp_path, process_number(0, 7))
    assert "two processes" in mirror.take_names([_OURS])
    assert _OURS in _names(tmp_path)
    assert mirror.take_names([_OTHERS]) == ""
    remove_mirrors(tmp_path)
    assert _OURS in _names(tmp_path)
    assert _OTHERS not in _names(tmp_path)


def test_notes_of_other_hosts_go_and_those_of_this_host_stay(tmp_path: Path) -> None:
    names = {"start.77", f"start.{process_number(0, 7)}", "start.x"}
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "ring.folder").mkdir()  # what somebody else has put there is in nobody's way
    remove_mirrors(tmp_path)
    assert _names(tmp_path) == {"start.77", "start.x", "ring.folder"}


def test_a_keeper_without_a_head_leaves_no_ranks_of_other_hosts_behind(tmp_path: Path) -> None:
    """They would seem to stand in their last call for ever."""
    listening, viewers = listen("127.0.0.1"), viewers_place("127.0.0.1")
    role = HeadRole(command=(), listening=listening, secret=b"", address="", owns_hosts=True, viewers=viewers)
    viewers.serve(tmp_path).close()
    _make_mirror(tmp_path).close()
    assert len(_names(tmp_path)) > 2
    role.close(tmp_path)
    assert _names(tmp_path) == set()
    assert (listening.fileno(), viewers.listening.fileno()) == (-1, -1)
