"""Exports the metrics to Prometheus. Requires the extra `penstock[prometheus]`.

A scrape reads the current values of the queries and consumers that run. Nothing is written in between.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from penstock.metrics.consumer import CONSUMER_METRICS, ConsumerMetrics
from penstock.metrics.metric import Metric, Sample
from penstock.metrics.source import METRICS, SourceMetrics

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import CollectorRegistry

SOURCE = ("query", "source")
"""Labels of a source's series: the query's name (or its id, without a name) and the number of the source in it."""

CONSUMER = ("group", "consumer")
"""Labels of a connector's series: its group and its consumer id."""


class Measured(Protocol):
    def samples(self) -> Iterator[Sample]: ...


Read: TypeAlias = Callable[[], Mapping[tuple[str, ...], Measured]]
"""Returns the current metrics, by the values of the labels that all their series have."""


class MetricsCollector:
    """A Prometheus collector. Any thread may scrape it."""

    def __init__(self, read: Read, metrics: Sequence[Metric] = METRICS, labels: Sequence[str] = SOURCE) -> None:
        self._read = read
        self._metrics = metrics
        self._labels = labels

    def describe(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """The names only. A registry finds clashes of two collectors by them."""
        return [self._family(metric) for metric in self._metrics]

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        families = {metric.name: self._family(metric) for metric in self._metrics}
        for whose, measured in self._read().items():
            for metric, labels, value in measured.samples():
                families[metric.name].add_metric([*whose, *labels], value)
        yield from (family for family in families.values() if family.samples)

    def _family(self, metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        return family(metric.prometheus_name, metric.help, labels=[*self._labels, *metric.labels])


def register(
    registry: CollectorRegistry | None, read: Callable[[], Mapping[tuple[str, str], SourceMetrics]]
) -> Callable[[], None]:
    """Register a collector of sources; None means the default registry. Returns a function that unregisters it."""
    chosen = _registry(registry)
    collector = MetricsCollector(read)  # type: ignore[arg-type] # a Mapping's keys are invariant
    try:
        chosen.register(collector)
    except ValueError as error:
        raise ValueError(
            "this Prometheus registry already has a LagListener. One listener serves all queries of a session: use "
            "that one, close() it first, or give this one a CollectorRegistry of its own"
        ) from error
    return lambda: chosen.unregister(collector)


# --- connectors ---------------------------------------------------------------------------------------------------

_consumers: WeakKeyDictionary[Any, dict[tuple[str, str], Callable[[], ConsumerMetrics]]] = WeakKeyDictionary()
"""The connectors of each registry. They share one collector, because a registry accepts each name only once, and a
program may have two connectors."""
_lock = threading.Lock()


def register_consumer(
    registry: CollectorRegistry | None, group: str, consumer_id: str, read: Callable[[], ConsumerMetrics]
) -> Callable[[], None]:
    """Register a connector; None means the default registry. Returns a function that unregisters it.

    `read` is called at each scrape, by the thread that scrapes.
    """
    chosen = _registry(registry)
    whose = (group, consumer_id)
    with _lock:
        readers = _consumers.get(chosen)
        if readers is None:
            readers = {}
            collector = MetricsCollector(_reading(readers), CONSUMER_METRICS, CONSUMER)
            chosen.register(collector)
            _consumers[chosen] = readers
        if whose in readers:
            raise ValueError(
                f"this Prometheus registry already has a consumer {consumer_id!r} of group {group!r}. Shut that one "
                "down first, or give this one another consumer.id or a CollectorRegistry of its own"
            )
        readers[whose] = read

    def unregister() -> None:
        with _lock:
            if readers.get(whose) is read:
                del readers[whose]

    return unregister


def _reading(readers: dict[tuple[str, str], Callable[[], ConsumerMetrics]]) -> Read:
    def read() -> Mapping[tuple[str, ...], Measured]:
        with _lock:
            now = dict(readers)
        return {whose: one() for whose, one in now.items()}  # without the lock: a connector takes its own locks

    return read


def _registry(registry: CollectorRegistry | None) -> CollectorRegistry:
    try:
        from prometheus_client import REGISTRY
    except ImportError as error:
        raise ImportError(
            "metrics for Prometheus require the package prometheus-client: pip install 'penstock[prometheus]'"
        ) from error
    return REGISTRY if registry is None else registry
