"""The secret of a run: where it is kept, and who may read it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from paceline.errors import InputError
from paceline.guard.hosts import keys


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def test_the_key_of_a_user_is_made_once_and_for_its_user_alone() -> None:
    first = keys.user_secret()
    assert keys.user_secret() == first
    assert stat.S_IMODE(keys.key_file().stat().st_mode) == 0o600
    assert [path.name for path in keys.key_file().parent.iterdir()] == ["key"]


def test_a_key_that_others_can_read_is_refused() -> None:
    keys.user_secret()
    keys.key_file().chmod(0o644)
    with pytest.raises(InputError, match="others can read"):
        keys.user_secret()


@pytest.mark.parametrize("text", ["", "ab", "not hexadecimal" * 8])
def test_what_is_not_a_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(InputError) as refused:
        keys.read_secret(text)
    assert not text or text not in str(refused.value)
