"""The steps of each rank: as its loader noted them, or as the calls from one site in its loop show them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.guard.shared_memory.operations import BY_CODE, Family, shown_name
from paceline.report.evidence.call_table import Calls

_FEWEST = 3  # steps that a distribution is shown of


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """When steps began and how long they took.

    Attributes:
        source: Where steps were seen, in words.
        marks: When each step began on the first rank of which that is known, in nanoseconds of the run.
        epochs: When each epoch began, and its number.
        seconds: How long steps took, by rank.
    """

    source: str
    marks: tuple[int, ...]
    epochs: tuple[tuple[int, int], ...]
    seconds: Mapping[int, NDArray[np.float64]]


def find_steps(calls: Calls, notes: Mapping[int, Sequence[Mapping[str, Any]]]) -> Steps | None:
    """Return the steps of a run.

    Args:
        calls: The calls of all ranks.
        notes: What loaders have noted, by rank.
    """
    return _noted(notes, calls.begin_ns) or _from_calls(calls)


def _noted(notes: Mapping[int, Sequence[Mapping[str, Any]]], begin_ns: int) -> Steps | None:
    loader = _main_loader(notes)
    if loader is None:
        return None
    marks: list[int] = []
    epochs: dict[int, int] = {}
    seconds: dict[int, NDArray[np.float64]] = {}
    for rank in sorted(notes):
        own = [note for note in notes[rank] if note["loader"] == loader]
        begins = [note["at_ns"] - begin_ns for note in own if "step" in note]
        marks = marks or begins
        for note in own:
            if isinstance(note.get("pass"), int):
                at = note["at_ns"] - begin_ns
                epochs[note["pass"]] = min(epochs.get(note["pass"], at), at)
        times = [
            (after["at_ns"] - note["at_ns"]) / 1e9
            for note, after in pairwise(own)
            if "step" in note and ("step" in after or "summary" in after)
        ]
        seconds[rank] = np.array(times, np.float64)
    return Steps(
        source="from one batch of the loader to the next",
        marks=tuple(marks),
        epochs=tuple(sorted((at, epoch) for epoch, at in epochs.items())),
        seconds=seconds,
    )


def _main_loader(notes: Mapping[int, Sequence[Mapping[str, Any]]]) -> int | None:
    """Return the loader that took the most time, by the spans of its passes on all ranks."""
    spans: Counter[int] = Counter()
    for own in notes.values():
        by_loader: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
        for note in own:
            by_loader[note["loader"]].append(note)
        for loader, of_loader in by_loader.items():
            for note, after in pairwise(of_loader):
                if "summary" not in note:
                    spans[loader] += after["at_ns"] - note["at_ns"]
    return spans.most_common(1)[0][0] if spans else None


def _from_calls(calls: Calls) -> Steps | None:
    """Take the site of most collectives for the loop: a step lasts from one of them to the next."""
    rows = np.flatnonzero(calls.is_of(Family.COLLECTIVE) & (calls.site > 0))
    if not len(rows):
        return None
    sites, counts = np.unique(calls.site[rows], return_counts=True)
    site = int(sites[counts.argmax()])
    rows = rows[calls.site[rows] == site]
    seconds: dict[int, NDArray[np.float64]] = {}
    marks: tuple[int, ...] = ()
    for rank in calls.ranks:
        entered = calls.entered[rows[calls.rank[rows] == rank]]
        seconds[rank] = np.diff(entered) / 1e9
        if len(entered) > len(marks):
            marks = tuple(entered.tolist())
    if len(marks) < _FEWEST:
        return None
    name = shown_name(BY_CODE[int(calls.operation[rows[0]])].name)
    return Steps(source=f"from one {name} at {calls.sites[site]} to the next", marks=marks, epochs=(), seconds=seconds)
