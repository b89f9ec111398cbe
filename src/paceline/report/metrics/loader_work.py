"""What the loaders of a run have noted in the last seconds: read while they write, each line once."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.guard.observe.gauges import mean
from paceline.guard.run.kept_records import WORK_PREFIX
from paceline.process.private_files import open_private

_WINDOW_SECONDS = 30.0  # older notes say nothing about now
_MOST_NOTES = 500  # of a rank
_MOST_BYTES = 1 << 20  # of a file in one look; the rest is read in the next ones


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentWork:
    """How evenly work was shared in the last seconds.

    Attributes:
        imbalance_before: Work of the busiest rank over the mean, as samples were dealt; None if nobody balances.
        imbalance_after: The same after balancing.
        padding_share: Which part of the rows is padding.
        waiting_shares: Which part of its time a rank waited for data, by rank.
    """

    imbalance_before: float | None
    imbalance_after: float | None
    padding_share: float | None
    waiting_shares: Mapping[int, float]


@dataclass(slots=True)
class _NotesFile:
    """One file of notes, and how far it has been read."""

    offset: int = 0
    rank: int | None = None
    steps: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=_MOST_NOTES))


class WorkNotes:
    """The notes of all loaders of a run in progress.

    Args:
        folder: The run's own folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, _NotesFile] = {}

    def recent(self) -> RecentWork | None:
        """Read what has been added; return what it says of the last seconds, or None if there is nothing."""
        for path in self._folder.glob(f"{WORK_PREFIX}*.jsonl"):
            _read_on(path, self._files.setdefault(path, _NotesFile()))
        since = time.monotonic_ns() - _WINDOW_SECONDS * 1e9
        notes = {
            file.rank: [note for note in file.steps if note["at_ns"] >= since]
            for file in self._files.values()
            if file.rank is not None
        }
        return summarise_notes({rank: steps for rank, steps in notes.items() if steps})


def _read_on(path: Path, file: _NotesFile) -> None:
    with open(open_private(path), "rb") as opened:
        opened.seek(file.offset)
        text = opened.read(_MOST_BYTES)
    whole = text[: text.rfind(b"\n") + 1]  # a line that is being written is read next time
    file.offset += len(whole)
    for line in whole.splitlines():
        note = json.loads(line)
        if "pass" in note:
            file.rank = int(note["rank"])
        elif "step" in note:
            file.steps.append(note)


def summarise_notes(notes: Mapping[int, Sequence[Mapping[str, Any]]]) -> RecentWork | None:
    """Put together the notes of steps, by rank; None if there are none.

    >>> early = {"at_ns": 0, "rows": 4, "real": 4, "waited_us": 0, "before": 1.5, "after": 1.0}
    >>> late = {"at_ns": 2_000_000, "rows": 4, "real": 2, "waited_us": 500, "before": 1.1, "after": 1.0}
    >>> summarise_notes({0: [early, late]})
    RecentWork(imbalance_before=1.3, imbalance_after=1.0, padding_share=0.25, waiting_shares={0: 0.25})
    """
    steps = [note for of_rank in notes.values() for note in of_rank]
    if not steps:
        return None
    rows, real = sum(note["rows"] for note in steps), sum(note["real"] for note in steps)
    return RecentWork(
        imbalance_before=mean(note.get("before") for note in steps),
        imbalance_after=mean(note.get("after") for note in steps),
        padding_share=1 - real / rows if rows else None,
        waiting_shares={rank: _waiting_share(of_rank) for rank, of_rank in notes.items() if len(of_rank) > 1},
    )


def _waiting_share(steps: Sequence[Mapping[str, Any]]) -> float:
    """Return the share of the time between the first and the last step in which the rank waited for data."""
    passed_ns = steps[-1]["at_ns"] - steps[0]["at_ns"]
    waited_ns = sum(note["waited_us"] for note in steps[1:]) * 1e3
    return float(min(1.0, waited_ns / passed_ns)) if passed_ns > 0 else 0.0
