"""What a loader notes for a report where a run is watched; nothing where nobody watches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline import Loader, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.guard.rank.watched_process import RUN_FOLDER as OF_THE_GUARD
from paceline.loader.epochs.run_notes import RUN_FOLDER

DATASET = [{"words": list(range(number % 7))} for number in range(10)]


def notes_in(folder: Path) -> list[list[dict[str, Any]]]:
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(folder.glob("work.*"))]


def iterate(comm: Comm) -> int:
    cost = None if comm.world_size == 1 else (lambda batch: batch["words"].lengths)
    with Loader(DATASET, batch_size=2, shuffle=False, jagged=["words"], comm=comm, cost=cost) as loader:
        return sum(1 for _ in loader)


def test_the_guard_and_the_loader_mean_the_same_folder() -> None:
    assert RUN_FOLDER == OF_THE_GUARD


def test_a_watched_loader_notes_its_steps_and_its_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_FOLDER, str(tmp_path))
    with Loader(DATASET, batch_size=4, jagged=["words"], comm=AloneComm()) as loader:
        list(loader)
    (notes,) = notes_in(tmp_path)
    assert [next(key for key in ("pass", "step", "summary") if key in note) for note in notes] == [
        "pass", "step", "step", "step", "summary",
    ]  # fmt: skip
    assert [(note["rows"], note["real"]) for note in notes[1:4]] == [(4, 4), (4, 4), (4, 2)]
    assert notes[4]["summary"]["num_used"] == 10
    times = [note["at_ns"] for note in notes]
    assert times == sorted(times)


def test_ranks_note_what_balancing_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_FOLDER, str(tmp_path))
    outcomes = run_ranks(iterate, 2, carrier="torch", deadline=60)
    assert [outcome.value for outcome in outcomes] == [3, 3]
    ranks = notes_in(tmp_path)
    assert sorted(notes[0]["rank"] for notes in ranks) == [0, 1]
    steps = [[note for note in notes if "step" in note] for notes in ranks]
    assert [(note["before"], note["after"], note["moved"]) for note in steps[0]] == [
        (note["before"], note["after"], note["moved"]) for note in steps[1]
    ]
    assert all(note["before"] >= note["after"] >= 1 for note in steps[0])


def test_an_unwatched_loader_notes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_FOLDER, raising=False)
    monkeypatch.chdir(tmp_path)
    assert iterate(AloneComm()) == 5
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_has_gone_does_not_hurt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_FOLDER, str(tmp_path / "gone"))
    assert iterate(AloneComm()) == 5
