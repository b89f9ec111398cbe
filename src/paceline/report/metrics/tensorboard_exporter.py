"""Measures for TensorBoard: event files with a scalar for each of them, over the seconds of the run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from paceline.report.metrics.measures import Measure, flat_name


class TensorBoardExporter:
    """Writes an event file.

    Args:
        folder: What `tensorboard --logdir` is given.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._writer: EventFileWriter | None = None

    def export(self, measures: Sequence[Measure], *, seconds: float) -> None:
        """Write one point of each curve."""
        if self._writer is None:
            self._writer = EventFileWriter(str(self._folder), filename_suffix=".paceline")
        values = [Summary.Value(tag=flat_name(measure), simple_value=measure.value) for measure in measures]
        self._writer.add_event(Event(wall_time=time.time(), step=round(seconds), summary=Summary(value=values)))
        self._writer.flush()

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
