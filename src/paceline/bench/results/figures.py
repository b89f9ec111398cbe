"""One rank's figures, made from the lines that it has logged: of constant size, so that they can travel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from paceline.bench.training.step_log import UNREADABLE, CheckpointLine, EpochLine, StepLine

_QUANTILES = 1001


@dataclass(slots=True, kw_only=True)
class StepTotals:
    """What some steps add up to: seconds, samples and bytes."""

    steps: int = 0
    samples: int = 0
    num_bytes: int = 0
    load: float = 0.0
    compute: float = 0.0
    sync: float = 0.0

    def add(self, step: StepLine) -> None:
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
        cpu: Processor seconds of loading, in workers too.
        asked: Bytes that reads asked for; None if the kernel does not say.
        from_device: How many of them came from a device, and not from the page cache.
    """

    whole: StepTotals = field(default_factory=StepTotals)
    counted: StepTotals = field(default_factory=StepTotals)
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
    cpu_count: int = 0
    memory_bytes: int = 0
    began: float = 0.0
    ended: float | None = None
    first_batch_seconds: float | None = None
    epochs: dict[tuple[str, int], EpochFigures] = field(default_factory=dict)  # (phase, epoch) -> one pass
    load_quantiles: list[float] = field(default_factory=list)  # of the steps of training that count
    checkpoints: list[CheckpointLine] = field(default_factory=list)
    failure: str | None = None
    num_unreadable: int = 0  # lines that are damaged

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> RankFigures:
        """Return what `to_json` was made of."""
        epochs = {
            (phase, epoch): EpochFigures(
                **{**figures, "whole": StepTotals(**figures["whole"]), "counted": StepTotals(**figures["counted"])}
            )
            for phase, epoch, figures in content["epochs"]
        }
        return cls(**{**content, "epochs": epochs})

    def to_json(self) -> dict[str, Any]:
        """Return them in a form that travels."""
        epochs = [[phase, epoch, asdict(figures)] for (phase, epoch), figures in self.epochs.items()]
        return {**asdict(self), "epochs": epochs}


def figures_of(lines: Iterable[Any], *, exclude_start: int, exclude_end: int) -> RankFigures:
    """Return the figures of one rank's lines.

    Args:
        lines: What `read_log` yields.
        exclude_start: How many steps at the start of a pass do not count.
        exclude_end: How many steps at its end do not count.
    """
    figures = RankFigures()
    steps: dict[tuple[str, int], list[StepLine]] = defaultdict(list)
    ends: dict[tuple[str, int], EpochLine] = {}
    for line in lines:
        if line["kind"] == "step":
            steps[line["phase"], line["epoch"]].append(line)
        elif line["kind"] == "epoch":
            ends[line["phase"], line["epoch"]] = line
        else:
            _note_event(figures, line)
    loads: list[float] = []
    for key, steps_of_pass in steps.items():
        figures.epochs[key] = _epoch_figures(steps_of_pass, ends.get(key), exclude_start, exclude_end)
        if key[0] == "train":
            loads += [step["load"] for step in _counted(steps_of_pass, exclude_start, exclude_end)]
    if len(loads) > _QUANTILES:
        loads = np.quantile(loads, np.linspace(0, 1, _QUANTILES)).tolist()
    figures.load_quantiles = loads
    return figures


def _note_event(figures: RankFigures, line: dict[str, Any]) -> None:
    """Take over what a line says that is not about a step or a pass; a kind of a later version is skipped."""
    kind = line["kind"]
    if kind == "rank":
        figures.rank, figures.world_size = line["rank"], line["world_size"]
        figures.host, figures.carrier = line["host"], line["carrier"]
        figures.cpu_count, figures.memory_bytes = line["cpu_count"], line["memory_bytes"]
        figures.began = line["began"]
    elif kind == "first_batch":
        figures.first_batch_seconds = line["first_batch_seconds"]
    elif kind == "checkpoint":
        figures.checkpoints.append(CheckpointLine(bytes=line["bytes"], save=line["save"], load=line["load"]))
    elif kind == "end":
        figures.ended = line["ended"]
    elif kind == "failure":
        figures.failure = line["failure"]
    elif kind == UNREADABLE:
        figures.num_unreadable += 1


def _counted(steps: list[StepLine], exclude_start: int, exclude_end: int) -> list[StepLine]:
    """Leave out the first and last steps; all count where nothing would be left."""
    return steps[exclude_start : len(steps) - exclude_end] or steps


def _epoch_figures(steps: list[StepLine], end: EpochLine | None, exclude_start: int, exclude_end: int) -> EpochFigures:
    figures = EpochFigures(is_whole=end is not None)
    for step in steps:
        figures.whole.add(step)
    for step in _counted(steps, exclude_start, exclude_end):
        figures.counted.add(step)
    if end is not None:
        figures.seconds = end["seconds"]
        figures.cpu, figures.asked, figures.from_device = end["cpu"], end["asked"], end["from_device"]
    return figures
