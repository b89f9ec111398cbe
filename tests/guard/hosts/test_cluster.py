"""Where hosts cannot be made, it is said why, and the target fails: tests that are skipped would look like success."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guard.hosts.cluster import why_no_hosts


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    why_no_hosts.cache_clear()
    yield
    why_no_hosts.cache_clear()


def test_whoever_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_no_hosts() == "only root can make hosts of this machine"


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "ip" else "/bin/true")
    assert why_no_hosts().endswith(": ip")


def test_the_targets_ask_before_they_test() -> None:
    makefile = (Path(__file__).parents[3] / "Makefile").read_text()
    for target in ("test-hosts", "test-slurm"):
        first = makefile.partition(f"\n{target}:")[2].splitlines()[1]
        assert first == "\t$(BIN)/python -m tests.guard.hosts.cluster"
