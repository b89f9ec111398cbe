"""Figures of a rank's lines: which steps count, and what an epoch that was broken off still says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.bench.results.figures import RankFigures, figures_of
from paceline.bench.training.step_log import read_log


def step(epoch: int, number: int, load: float) -> dict[str, Any]:
    return {
        "kind": "step", "phase": "train", "epoch": epoch, "step": number, "samples": 4, "bytes": 100,
        "load": load, "compute": 1.0, "sync": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("start", "end", "loads"),
    [(0, 0, [9.0, 1.0, 2.0, 5.0]), (1, 0, [1.0, 2.0, 5.0]), (1, 1, [1.0, 2.0]), (3, 2, [9.0, 1.0, 2.0, 5.0])],
)
def test_first_and_last_steps_do_not_count_unless_none_would_be_left(start: int, end: int, loads: list[float]) -> None:
    lines = [step(0, number, load) for number, load in enumerate([9.0, 1.0, 2.0, 5.0])]
    told = figures_of(lines, exclude_start=start, exclude_end=end)
    epoch = told.epochs["train", 0]
    assert (epoch.whole.steps, epoch.whole.samples, epoch.whole.load) == (4, 16, 17.0)
    assert (epoch.counted.steps, epoch.counted.load) == (len(loads), sum(loads))
    assert epoch.counted.seconds == sum(loads) + 1.5 * len(loads)
    assert told.load_quantiles == loads


def test_an_epoch_without_its_end_has_its_steps_and_is_not_whole() -> None:
    ended = {"kind": "epoch", "phase": "train", "epoch": 0, "seconds": 7.0, "cpu": 0.2, "asked": 10, "from_device": 3}
    lines = [step(0, 0, 1.0), ended, step(1, 0, 2.0), {"kind": "failure", "failure": "file 3 is corrupt"}]
    told = figures_of(lines, exclude_start=0, exclude_end=0)
    assert [(told.epochs["train", number].is_whole, told.epochs["train", number].seconds) for number in (0, 1)] == [
        (True, 7.0), (False, 0.0),
    ]  # fmt: skip
    assert told.epochs["train", 1].whole.samples == 4
    assert told.failure == "file 3 is corrupt"


def test_what_a_rank_says_about_itself_is_taken_over_key_by_key() -> None:
    rank = {
        "rank": 3, "world_size": 4, "host": "h", "carrier": "mpi", "cpu_count": 2, "memory_bytes": 9, "began": 1.5,
    }  # fmt: skip
    lines: list[dict[str, Any]] = [
        {"kind": "rank", **rank, "pid": 7},
        {"kind": "first_batch", "first_batch_seconds": 0.5},
        {"kind": "checkpoint", "name": "epoch-0", "bytes": 10, "save": 0.1, "load": 0.2},
        {"kind": "of a later version", "epochs": "nonsense"},
        {"kind": "end", "ended": 2.5, "epochs": "nonsense"},
    ]
    figures = figures_of(lines, exclude_start=0, exclude_end=0)
    assert {name: getattr(figures, name) for name in rank} == rank
    assert (figures.first_batch_seconds, figures.ended, figures.failure) == (0.5, 2.5, None)
    assert figures.checkpoints == [{"bytes": 10, "save": 0.1, "load": 0.2}]
    assert figures.epochs == {}  # no line can write over what it is not about


@pytest.mark.parametrize(
    "damaged",
    [b"\xff\n", b'{"kind": "st\n', b"17\n", b'{"kind": "step", "phase": "train", "epoch": 0}\n', b'{"kind": 3}\n',
     b'{"kind": "end", "ended": "soon"}\n', b'{"kind": "end", "ended": 1e400}\n', b'{"kind": "end", "ended": true}\n',
     b'{"kind": "end", "ended": 1e12}\n', b'{"kind": "end", "ended": -1}\n'],
)  # fmt: skip
def test_a_damaged_line_is_left_out_and_counted(tmp_path: Path, damaged: bytes) -> None:
    good = b"".join(json.dumps(step(0, number, 1.0)).encode() + b"\n" for number in range(3))
    (tmp_path / "0.jsonl").write_bytes(good + damaged + good[:7])
    told = figures_of(read_log(tmp_path / "0.jsonl"), exclude_start=0, exclude_end=0)
    assert (told.epochs["train", 0].whole.steps, told.num_unreadable) == (3, 1)


def test_figures_travel_as_json() -> None:
    ended = {"kind": "epoch", "phase": "train", "epoch": 0, "seconds": 7.0, "cpu": 0.2, "asked": 10, "from_device": 3}
    lines = [step(0, 0, 1.0), step(1, 0, 2.0), ended, {"kind": "checkpoint", "bytes": 1, "save": 2.0, "load": 3.0}]
    told = figures_of(lines, exclude_start=0, exclude_end=0)
    assert RankFigures.from_json(json.loads(json.dumps(told.to_json()))) == told
