"""One rank's figures, made of the lines that it has written: of constant size, so that they can travel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_QUANTILES = 1001


@dataclass(slots=True, kw_only=True)
class Spent:
    """What some steps have taken and given."""

    steps: int = 0
    samples: int = 0
    num_bytes: int = 0
    load: float = 0.0
    compute: float = 0.0
    sync: float = 0.0

    def add(self, step: dict[str, Any]) -> None:
        """Count a step."""
        self.steps += 1
        self.samples += step["samples"]
        self.num_bytes += step["bytes"]
        self.load += step["load"]
        self.compute += step["compute"]
        self.sync += step["sync"]

    @property
    def seconds(self) -> float:
        """All of their time."""
        return self.load + self.compute + self.sync


@dataclass(slots=True, kw_only=True)
class EpochFigures:
    """One pass of one rank.

    Attributes:
        whole: All its steps.
        counted: Those that count: without the first and last ones that the workload leaves out.
        is_whole: Whether the pass has come to its end.
        seconds: All of it, with what lies between steps; known at its end.
        cpu: Processor seconds of loading, also in workers.
        asked: Bytes that were asked for by reads; None if the kernel does not say.
        from_device: Those of them that came from a device, and not from the page cache.
    """

    whole: Spent = field(default_factory=Spent)
    counted: Spent = field(default_factory=Spent)
    is_whole: bool = False
    seconds: float = 0.0
    cpu: float = 0.0
    asked: int | None = None
    from_device: int | None = None


@dataclass(slots=True, kw_only=True)
class RankFigures:
    """All figures of one rank."""

    rank: int = -1
    world_size: int = 0
    host: str = ""
    carrier: str = ""
    pid: int = 0
    cpu_count: int = 0
    memory_bytes: int = 0
    began: float = 0.0
    ended: float | None = None
    first_batch_seconds: float | None = None
    epochs: dict[tuple[str, int], EpochFigures] = field(default_factory=dict)
    load_quantiles: list[float] = field(default_factory=list)  # of the steps of training that count
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    failure: str | None = None


def figures_of(lines: Iterable[dict[str, Any]], *, exclude_start: int, exclude_end: int) -> RankFigures:
    """Return the figures of one rank's lines."""
    told = RankFigures()
    steps: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    ends: dict[tuple[str, int], dict[str, Any]] = {}
    for line in lines:
        kind = line.pop("kind")
        if kind == "step":
            steps[line["phase"], line["epoch"]].append(line)
        elif kind == "epoch":
            ends[line["phase"], line["epoch"]] = line
        elif kind == "checkpoint":
            told.checkpoints.append(line)
        elif kind in ("rank", "first_batch", "end", "failure"):
            for name, value in line.items():
                setattr(told, name, value)
    loads: list[float] = []
    for place, made in steps.items():
        told.epochs[place] = _epoch(made, ends.get(place), exclude_start, exclude_end)
        if place[0] == "train":
            loads += [step["load"] for step in _counted(made, exclude_start, exclude_end)]
    if len(loads) > _QUANTILES:
        loads = np.quantile(loads, np.linspace(0, 1, _QUANTILES)).tolist()
    told.load_quantiles = loads
    return told


def _counted(steps: list[dict[str, Any]], exclude_start: int, exclude_end: int) -> list[dict[str, Any]]:
    """Leave out the first and last steps; all count where nothing would be left."""
    return steps[exclude_start : len(steps) - exclude_end] or steps


def _epoch(
    steps: list[dict[str, Any]], end: dict[str, Any] | None, exclude_start: int, exclude_end: int
) -> EpochFigures:
    made = EpochFigures(is_whole=end is not None)
    for step in steps:
        made.whole.add(step)
    for step in _counted(steps, exclude_start, exclude_end):
        made.counted.add(step)
    if end is not None:
        made.seconds = end["seconds"]
        made.cpu, made.asked, made.from_device = end["cpu"], end["asked"], end["from_device"]
    return made
