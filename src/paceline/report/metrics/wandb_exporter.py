"""Measures for Weights & Biases: an offline run, as files; `wandb sync` sends them, if anybody wants that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import wandb

from paceline.report.metrics.measures import Measure, flat_name


class WandbExporter:
    """Writes an offline run.

    Args:
        folder: Under which `wandb/offline-run-...` is made.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._run: Any = None

    def export(self, measures: Sequence[Measure], *, seconds: float) -> None:
        """Write one point of each curve."""
        if self._run is None:
            settings = wandb.Settings(console="off", x_disable_stats=True, silent=True)
            self._run = wandb.init(
                mode="offline", dir=self._folder, project="paceline", job_type="metrics", settings=settings
            )
        values = {flat_name(measure): measure.value for measure in measures}
        self._run.log({"seconds": seconds, **values})

    def close(self) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None
