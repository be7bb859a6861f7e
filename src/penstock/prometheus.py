"""The metrics for Prometheus: an adapter, and an optional extra (`pip install penstock[prometheus]`).

Nothing is written anywhere as the query runs: a scrape asks for the newest values, and a query that has ended is not
among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.metrics import METRICS, Metric, SourceMetrics

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import CollectorRegistry

SOURCE = ("query", "source")
"""Labels of every series: the query's name (its id, if it has none) and the number of the source in the query."""


class MetricsCollector:
    """What a registry asks at each scrape. `read` gives the metrics by query and source; any thread may scrape."""

    def __init__(self, read: Callable[[], Mapping[tuple[str, str], SourceMetrics]]) -> None:
        self._read = read

    def describe(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """The names alone: by them a registry finds out that two collectors clash."""
        return [_family(metric) for metric in METRICS]

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        families = {metric.name: _family(metric) for metric in METRICS}
        for source, metrics in self._read().items():
            for metric, labels, value in metrics.samples():
                families[metric.name].add_metric([*source, *labels], value)
        yield from (family for family in families.values() if family.samples)


def register(
    registry: CollectorRegistry | None, read: Callable[[], Mapping[tuple[str, str], SourceMetrics]]
) -> Callable[[], None]:
    """Add a collector to a registry (None: the process's own). Returns how to take it away again."""
    try:
        from prometheus_client import REGISTRY
    except ImportError as error:
        raise ImportError(
            "metrics for Prometheus need the package prometheus-client: pip install 'penstock[prometheus]'"
        ) from error
    chosen = REGISTRY if registry is None else registry
    collector = MetricsCollector(read)
    try:
        chosen.register(collector)
    except ValueError as error:
        raise ValueError(
            "this Prometheus registry has a LagListener already. One listener serves all queries of a session: use "
            "that one, close() it first, or give this one a CollectorRegistry of its own"
        ) from error
    return lambda: chosen.unregister(collector)


def _family(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return family(metric.prometheus_name, metric.help, labels=[*SOURCE, *metric.labels])
