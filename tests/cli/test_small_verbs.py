"""The verbs that need no job: explaining a cause, completing a command line, opening a page."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from paceline.cli.desktop.opened_page import open_page
from paceline.cli.main import main
from paceline.report.text.cause_text import GENERAL_ADVICE, all_causes


def test_every_cause_has_its_advice() -> None:
    assert set(GENERAL_ADVICE) == set(all_causes())


@pytest.mark.parametrize("cause", sorted(set(map(str, all_causes()))))
def test_every_cause_is_explained(cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", cause]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{cause} (")
    assert "  change: " in said


def test_a_cause_that_does_not_exist_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "uneven-step"]) == 2
    assert "did you mean uneven-steps?" in capsys.readouterr().err


def completed(shell: str, script: str, *words: str) -> list[str]:
    """Let bash complete the last of these words."""
    quoted = " ".join(f"'{word}'" for word in words)
    ask = f'{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _paceline; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run([shell, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("paceline", "re"), ["report"]),
        (("paceline", "run", "--li"), ["--live"]),
        (("paceline", "explain", "uneven"), ["uneven-steps"]),
        (("paceline", "lab", "run", "wrong-t"), ["wrong-tag"]),
        (("paceline", "bench", "com"), ["compare"]),
        (("paceline", "completion", "z"), ["zsh"]),
    ],
)
def test_bash_completes_verbs_options_causes_and_cases(
    words: tuple[str, ...], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert shutil.which("bash") is not None
    assert completed("bash", script, *words) == expected


def test_zsh_and_fish_get_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("zsh", "fish"):
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        assert all(verb in script for verb in ("run", "report", "doctor", "uneven-steps", "wrong-tag"))


def test_a_page_is_opened_in_the_browser_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{seen}"\n')
    browser.chmod(0o755)
    page = tmp_path / "a page.html"
    page.write_text("<p>here</p>")
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    assert open_page(page)
    assert seen.read_text() == page.resolve().as_uri()


def test_without_a_display_the_page_is_not_opened_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert not open_page(tmp_path / "page.html")
    assert "there is no display here" in capsys.readouterr().err
