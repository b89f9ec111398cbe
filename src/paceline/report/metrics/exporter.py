"""Where measures go: one small interface, and the names by which users choose.

A package is imported when its exporter is made, so that one that is missing is told before the job starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from paceline.errors import InputError
from paceline.report.metrics.measures import Measure


class MetricsExporter(Protocol):
    """Hands measures to a tool that draws or keeps them."""

    def export(self, measures: Sequence[Measure], *, seconds: float) -> None:
        """Hand over the measures of now; threads and files are made by the first call, and not before.

        Args:
            measures: All that is known; what was known before and is not among them is no longer so.
            seconds: Since the run began.
        """

    def close(self) -> None:
        """Hand over what is left, and let go of everything."""


def _prometheus(where: str) -> MetricsExporter:
    from paceline.report.metrics.prometheus_exporter import PrometheusExporter

    return PrometheusExporter(where or "127.0.0.1:9400")


def _tensorboard(where: str) -> MetricsExporter:
    from paceline.report.metrics.tensorboard_exporter import TensorBoardExporter

    return TensorBoardExporter(where or "runs")


def _wandb(where: str) -> MetricsExporter:
    from paceline.report.metrics.wandb_exporter import WandbExporter

    return WandbExporter(where or ".")


def _opentelemetry(where: str) -> MetricsExporter:
    from paceline.report.metrics.opentelemetry_exporter import OpenTelemetryExporter

    return OpenTelemetryExporter(where or None)


_KINDS: dict[str, Callable[[str], MetricsExporter]] = {
    "prometheus": _prometheus,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "opentelemetry": _opentelemetry,
}
KIND_NAMES = tuple(_KINDS)
# These start processes of their own. A guard ends every process below it when it ends a job, so they do not live there.
STARTS_PROCESSES = ("wandb",)


def make_exporter(text: str) -> MetricsExporter:
    """Make the exporter that `KIND` or `KIND:WHERE` names; refuse another one with a sentence."""
    kind, _, where = text.partition(":")
    if kind not in _KINDS:
        raise InputError(f"--metrics must be one of {', '.join(KIND_NAMES)}, perhaps with :WHERE, got {text!r}")
    return _KINDS[kind](where)
