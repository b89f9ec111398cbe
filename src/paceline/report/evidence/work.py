"""How evenly work was shared, and what became of the samples: from what loaders have noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.guard.observe.gauges import mean

_MAX_NUMBER = 1 << 62  # a broken file may name any number
_COUNTS = ("num_steps", "num_used", "num_dropped", "num_padded", "num_repeated", "num_skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStep:
    """One step, over all ranks."""

    loader: int
    epoch: int
    step: int
    at_ns: int
    num_rows: int
    num_real: int
    imbalance_before: float | None
    imbalance_after: float | None
    num_moved: int

    @property
    def padding_share(self) -> float:
        """Which part of the rows was padding."""
        return 1 - self.num_real / self.num_rows if self.num_rows else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEpoch:
    """One pass of a loader: what its summary says, or what is known of a pass that was cut short."""

    loader: int
    epoch: int
    is_complete: bool
    counts: Mapping[str, int]
    imbalance_before: float | None = None
    imbalance_after: float | None = None
    num_moved: int = 0
    padding_share: float = 0.0
    seconds: float | None = None
    seconds_waiting: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of a run."""

    steps: tuple[WorkStep, ...]
    epochs: tuple[WorkEpoch, ...]


@dataclass(slots=True)
class _PassNotes:
    """What all ranks have noted of one pass."""

    begin: Mapping[str, Any]
    steps: dict[int, list[Mapping[str, Any]]] = field(default_factory=dict)  # by number, one note of each rank
    summary: Mapping[str, Any] | None = None


def find_work(notes: Mapping[int, Sequence[Mapping[str, Any]]]) -> Work | None:
    """Put together what the loaders of all ranks have noted; None if there is nothing.

    Args:
        notes: By rank.
    """
    passes: dict[tuple[int, int], _PassNotes] = {}
    for rank in sorted(notes):
        _sort_in(notes[rank], passes)
    if not passes:
        return None
    steps: list[WorkStep] = []
    epochs: list[WorkEpoch] = []
    for (loader, number), of_pass in sorted(passes.items()):
        epoch = _whole(of_pass.begin.get("pass"), number)
        own = [_step(loader, epoch, step, rows) for step, rows in sorted(of_pass.steps.items())]
        steps += own
        epochs.append(_epoch(loader, epoch, of_pass, own))
    return Work(steps=tuple(sorted(steps, key=lambda step: step.at_ns)), epochs=tuple(epochs))


def _sort_in(notes: Sequence[Mapping[str, Any]], passes: dict[tuple[int, int], _PassNotes]) -> None:
    """Sort the notes of a rank into passes; the n-th pass of a loader is the same on all ranks."""
    counts: dict[int, int] = {}
    for note in notes:
        loader = note["loader"]
        if "pass" in note:
            counts[loader] = counts.get(loader, -1) + 1
            passes.setdefault((loader, counts[loader]), _PassNotes(note))
        current = passes.get((loader, counts.get(loader, 0)))
        if current is None:
            continue
        if isinstance(note.get("step"), int) and abs(note["step"]) < _MAX_NUMBER:
            current.steps.setdefault(note["step"], []).append(note)
        elif isinstance(note.get("summary"), dict):
            current.summary = note["summary"]


def _step(loader: int, epoch: int, step: int, notes: Sequence[Mapping[str, Any]]) -> WorkStep:
    first = notes[0]  # what balancing did is the same on all ranks
    before, after = _number(first.get("before")), _number(first.get("after"))
    if before is None or after is None:  # one is nothing without the other
        before = after = None
    return WorkStep(
        loader=loader, epoch=epoch, step=step, at_ns=min(note["at_ns"] for note in notes),
        num_rows=sum(_whole(note.get("rows")) for note in notes),
        num_real=sum(_whole(note.get("real")) for note in notes),
        imbalance_before=before, imbalance_after=after,
        num_moved=_whole(first.get("moved")),
    )  # fmt: skip


def _epoch(loader: int, epoch: int, notes: _PassNotes, steps: Sequence[WorkStep]) -> WorkEpoch:
    summary = notes.summary or {}
    rows, real = sum(step.num_rows for step in steps), sum(step.num_real for step in steps)
    counts = {name: _whole(summary.get(name)) for name in _COUNTS}
    if notes.summary is None:
        counts = {"num_steps": len(steps), "num_used": real, "num_padded": rows - real}
    return WorkEpoch(
        loader=loader, epoch=epoch, is_complete=notes.summary is not None, counts=counts,
        imbalance_before=mean(step.imbalance_before for step in steps),
        imbalance_after=mean(step.imbalance_after for step in steps),
        num_moved=sum(step.num_moved for step in steps), padding_share=1 - real / rows if rows else 0.0,
        seconds=_number(summary.get("seconds")), seconds_waiting=_number(summary.get("seconds_waiting")),
    )  # fmt: skip


def _whole(value: Any, otherwise: int = 0) -> int:
    return value if isinstance(value, int) and abs(value) < _MAX_NUMBER else otherwise


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < _MAX_NUMBER else None
