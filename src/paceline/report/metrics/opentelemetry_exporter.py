"""Measures for OpenTelemetry: gauges that are sent to a collector over OTLP and HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from paceline.report.metrics.measures import Label, Measure, RunMetric

_SECONDS = 10.0  # between two messages to the collector


class OpenTelemetryExporter:
    """Sends gauges.

    Args:
        endpoint: The collector's address for metrics; None: as the variables `OTEL_EXPORTER_OTLP_...` say.
    """

    def __init__(self, endpoint: str | None) -> None:
        self._endpoint = endpoint
        self._provider: MeterProvider | None = None
        self._gauges: dict[RunMetric, Any] = {}

    def export(self, measures: Sequence[Measure], *, seconds: float) -> None:
        """Set the gauges; a thread sends them now and then."""
        if self._provider is None:
            self._provider = self._connected()
        meter = self._provider.get_meter("paceline")
        for measure in measures:
            metric = measure.metric
            if metric not in self._gauges:
                self._gauges[metric] = meter.create_gauge(metric.name, description=metric.text)
            labels = {metric.label.value: measure.of} if metric.label is not Label.NONE else {}
            self._gauges[metric].set(measure.value, {"world": measure.job, **labels})

    def _connected(self) -> MeterProvider:
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=self._endpoint), export_interval_millis=_SECONDS * 1e3
        )
        # no hook at exit: we shut it down, and a hook would wait for a collector that has gone
        return MeterProvider([reader], resource=Resource({"service.name": "paceline"}), shutdown_on_exit=False)

    def close(self) -> None:
        """Send the last values."""
        if self._provider is not None:
            self._provider.shutdown()
            self._provider = None
