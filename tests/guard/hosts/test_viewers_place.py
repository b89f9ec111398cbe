"""Where a run on several hosts can be looked at: with the user's key from elsewhere, by the run's folder from here."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from paceline.guard.hosts.keys import derive_secret, new_secret, user_secret
from paceline.guard.hosts.viewing.run_viewer import RunViewer
from paceline.guard.run.several_hosts.viewers_place import find_place, viewers_place


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PACELINE_KEY", raising=False)


def test_the_key_of_viewers_follows_from_that_of_the_user_and_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    place = viewers_place("127.0.0.1")
    place.listening.close()
    assert place.secret == derive_secret(user_secret(), "viewers")
    own = new_secret()
    monkeypatch.setenv("PACELINE_KEY", own.hex())
    place = viewers_place("127.0.0.1")
    place.listening.close()
    assert place.secret == derive_secret(own, "viewers")
    assert place.secret.hex() not in repr(place)


def test_a_key_that_cannot_be_used_leaves_the_view_to_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_KEY", "not a key")
    first, second = viewers_place("127.0.0.1"), viewers_place("127.0.0.1")
    first.listening.close()
    second.listening.close()
    assert first.secret != second.secret
    assert first.how_to_look("n1").startswith("nobody on other hosts can look on: PACELINE_KEY is not a key")


def test_who_may_read_the_folder_of_a_run_finds_where_it_is_shown(tmp_path: Path) -> None:
    place = viewers_place("127.0.0.1")
    port = place.listening.getsockname()[1]
    assert place.how_to_look("n1") == f"to look on: paceline watch n1:{port}"
    service = place.serve(tmp_path)
    try:
        assert find_place(tmp_path) == (f"127.0.0.1:{port}", place.secret)
        (file,) = [path for path in tmp_path.iterdir() if path.is_file()]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        viewer = RunViewer(f"127.0.0.1:{port}", place.secret)
        while viewer.views is None:
            viewer.wait(0.01)
            service.turn(list)
        viewer.close()
    finally:
        service._viewers.clear()
        service.close()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"address": "x:1"}', '{"address": "x:1", "key": "short"}', '{"key": 3}']
)
def test_a_place_that_cannot_be_read_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "viewers.json").write_text(content)
    (tmp_path / "viewers.json").chmod(0o600)
    assert find_place(tmp_path) is None
    assert find_place(tmp_path / "nowhere") is None
