"""Measures for Prometheus: a page on a port, which shows the latest ones whenever it is scraped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from paceline.errors import InputError
from paceline.report.metrics.measures import METRICS, Label, Measure


class PrometheusExporter:
    """Serves the latest measures.

    Args:
        where: A port, or a host and a port. A port alone is served to this machine only.
    """

    def __init__(self, where: str) -> None:
        host, _, port = where.rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            raise InputError(f"--metrics prometheus:{where}: this is not a port, or a host and a port")
        self._host, self._port = host or "127.0.0.1", int(port)
        self._latest = _LatestMeasures()
        self._served: tuple[Any, Thread] | None = None

    def export(self, measures: Sequence[Measure], *, seconds: float) -> None:
        """Show these from now on."""
        self._latest.measures = tuple(measures)
        if self._served is None:
            registry = CollectorRegistry()
            registry.register(self._latest)
            self._served = start_http_server(self._port, addr=self._host, registry=registry)

    @property
    def port(self) -> int:
        """The port that is served; the system has chosen it if 0 was asked for."""
        return self._port if self._served is None else int(self._served[0].server_port)

    def close(self) -> None:
        """Serve no more."""
        if self._served is not None:
            server, thread = self._served
            server.shutdown()
            server.server_close()
            thread.join()
            self._served = None


class _LatestMeasures(Collector):  # type: ignore[misc]
    """What is shown when somebody scrapes."""

    def __init__(self) -> None:
        self.measures: tuple[Measure, ...] = ()

    def collect(self) -> Iterator[Any]:
        """Give the measures, metric by metric."""
        for metric in METRICS:
            of_metric = [measure for measure in self.measures if measure.metric is metric]
            if of_metric:
                labels = ["world", *([metric.label.value] if metric.label is not Label.NONE else [])]
                family = GaugeMetricFamily(metric.name, metric.text, labels=labels)
                for measure in of_metric:
                    family.add_metric([str(measure.job), measure.of][: len(labels)], measure.value)
                yield family
