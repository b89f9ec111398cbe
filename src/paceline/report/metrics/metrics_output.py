"""Hands what the live view knows to exporters while a run is in progress. A fault in that never reaches the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from paceline.errors import InputError
from paceline.guard.observe.gauges import Gauges, JobView
from paceline.guard.observe.local_rings import LocalRings
from paceline.report.metrics.exporter import STARTS_PROCESSES, MetricsExporter, make_exporter
from paceline.report.metrics.loader_work import WorkNotes
from paceline.report.metrics.measures import Measure, find_measures
from paceline.report.safe_text import terminal_safe

_SECONDS = 2.0  # between two exports
_SECONDS_PER_RANK = 0.01  # added for each rank, so that many ranks take no larger share of our time


class MetricsOutput:
    """The exporters of one run.

    Args:
        exporters: By the text that has named them.
        tell: Shows a line to the user.
        began: When the run began, by the monotonic clock.
    """

    def __init__(
        self, exporters: dict[str, MetricsExporter], tell: Callable[[str], None], began: float | None = None
    ) -> None:
        self._exporters = dict(exporters)
        self._tell = tell
        self._began = time.monotonic() if began is None else began
        self._gauges = Gauges(began)
        self._notes: WorkNotes | None = None
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look(self, rings: LocalRings) -> None:
        """Take a sample; export if it is time."""
        if not self._exporters:
            return
        try:
            jobs = rings.shown_jobs()
            self._gauges.sample(jobs)
            now = time.monotonic()
            if now < self._next or not jobs:
                return
            self._next = now + _SECONDS + _SECONDS_PER_RANK * sum(len(job.ranks) for job in jobs)
            self._notes = self._notes or WorkNotes(rings.folder)
            measures = find_measures(self._gauges.views(jobs), self._notes.recent())
        except FileNotFoundError:  # the run has just ended and removed its folder
            return
        except Exception as error:
            self._give_up("metrics", list(self._exporters), error)
            return
        self.export_all(measures, seconds=now - self._began)

    def show(self, views: Sequence[JobView], folder: Path | None = None) -> None:
        """Export what the head of a run has seen, if it is time.

        Args:
            views: What it has seen.
            folder: The folder of the run, where loaders leave their notes; None if it is not here.
        """
        now = time.monotonic()
        if not self._exporters or not views or now < self._next:
            return
        self._next = now + _SECONDS + _SECONDS_PER_RANK * sum(len(view.ranks) for view in views)
        if folder is not None:
            self._notes = self._notes or WorkNotes(folder)
        try:
            measures = find_measures(views, self._notes.recent() if self._notes is not None else None)
        except FileNotFoundError:  # the run has just ended and removed its folder
            return
        except Exception as error:
            self._give_up("metrics", list(self._exporters), error)
            return
        self.export_all(measures, seconds=now - self._began)

    def export_all(self, measures: Sequence[Measure], *, seconds: float) -> None:
        """Hand measures to every exporter; one that fails is told, and not asked again."""
        for name, exporter in list(self._exporters.items()):
            try:
                exporter.export(measures, seconds=seconds)
            except Exception as error:  # a port in use, a full disk, whatever a package raises
                self._give_up(name, [name], error)

    def close(self) -> None:
        """Let every exporter hand over what it has."""
        for name, exporter in list(self._exporters.items()):
            try:
                exporter.close()
            except Exception as error:
                self._give_up(name, [name], error)
        self._exporters.clear()

    def _give_up(self, name: str, exporters: Sequence[str], error: Exception) -> None:
        for exporter in exporters:
            del self._exporters[exporter]
        self._tell(f"paceline: {name}: no more metrics: {type(error).__name__}: {terminal_safe(str(error))}")


def metrics_output(
    asked: Sequence[str], tell: Callable[[str], None], *, began: float | None = None, is_guard: bool
) -> MetricsOutput:
    """Return what `--metrics` asks for; it does nothing if that is nothing.

    Args:
        asked: The values of the option.
        tell: Shows a line to the user.
        began: When the run began, by the monotonic clock; now, if it is None.
        is_guard: Whether this process ends all processes below it when it ends the job.
    """
    for text in asked:
        kind = text.partition(":")[0]
        if is_guard and kind in STARTS_PROCESSES:
            raise InputError(f"--metrics {kind} starts processes of its own: use paceline watch --metrics {text}")
    return MetricsOutput({text: make_exporter(text) for text in asked}, tell, began)
