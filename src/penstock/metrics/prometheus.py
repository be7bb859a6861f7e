"""Exports the metrics to Prometheus. Requires the extra `penstock[prometheus]`.

A scrape reads the current values of the queries, consumers and writers that run. Nothing is written in between.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from penstock.metrics.consumer import CONSUMER_METRICS, ConsumerMetrics
from penstock.metrics.metric import Metric, Sample
from penstock.metrics.sink import SINK_METRICS, SinkMetrics
from penstock.metrics.source import METRICS, SourceMetrics
from penstock.metrics.writer import WRITER_METRICS, WriterMetrics

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import CollectorRegistry

SOURCE = ("query", "source")
"""Labels of a source's series: the query's name (or its id, without a name) and the number of the source in it."""

SINK = ("query",)

CONSUMER = ("group", "consumer")
"""Labels of a connector's series: its group and its consumer id."""

WRITER = ("writer",)


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
    registry: CollectorRegistry | None,
    sources: Callable[[], Mapping[tuple[str, str], SourceMetrics]],
    sinks: Callable[[], Mapping[tuple[str], SinkMetrics]],
) -> Callable[[], None]:
    """Register collectors of the sources and sinks of queries; None means the default registry. Returns a function that
    unregisters them."""
    chosen = _registry(registry)
    # A Mapping's keys are invariant.
    collectors = (
        MetricsCollector(sources),  # type: ignore[arg-type]
        MetricsCollector(sinks, SINK_METRICS, SINK),  # type: ignore[arg-type]
    )
    try:
        for collector in collectors:
            chosen.register(collector)
    except ValueError as error:
        raise ValueError(
            "this Prometheus registry already has a LagListener. One listener serves all queries of a session: use "
            "that one, close() it first, or give this one a CollectorRegistry of its own"
        ) from error

    def unregister() -> None:
        for collector in collectors:
            chosen.unregister(collector)

    return unregister


# --- connectors and writers -------------------------------------------------------------------------------------------

Readers: TypeAlias = dict[tuple[str, ...], Callable[[], Measured]]

_readers: WeakKeyDictionary[Any, dict[tuple[str, ...], Readers]] = WeakKeyDictionary()
"""By registry and labels: the connectors, and the writers. Those of one kind share a collector, because a registry
accepts each name only once, and a program may have two of them."""
_lock = threading.Lock()


def register_consumer(
    registry: CollectorRegistry | None, group: str, consumer_id: str, read: Callable[[], ConsumerMetrics]
) -> Callable[[], None]:
    """Register a connector; None means the default registry. Returns a function that unregisters it.

    `read` is called at each scrape, by the thread that scrapes.
    """
    clash = (
        f"this Prometheus registry already has a consumer {consumer_id!r} of group {group!r}. Shut that one "
        "down first, or give this one another consumer.id or a CollectorRegistry of its own"
    )
    return _register(registry, CONSUMER_METRICS, CONSUMER, (group, consumer_id), read, clash)


def register_writer(
    registry: CollectorRegistry | None, name: str, read: Callable[[], WriterMetrics]
) -> Callable[[], None]:
    """The same for a writer."""
    clash = (
        f"this Prometheus registry already has a writer {name!r}. Close that one first, or give this one another "
        "name or a CollectorRegistry of its own"
    )
    return _register(registry, WRITER_METRICS, WRITER, (name,), read, clash)


def _register(
    registry: CollectorRegistry | None,
    metrics: Sequence[Metric],
    labels: tuple[str, ...],
    whose: tuple[str, ...],
    read: Callable[[], Measured],
    clash: str,
) -> Callable[[], None]:
    chosen = _registry(registry)
    with _lock:
        kinds = _readers.setdefault(chosen, {})
        readers = kinds.get(labels)
        if readers is None:
            readers = {}
            chosen.register(MetricsCollector(_reading(readers), metrics, labels))
            kinds[labels] = readers
        if whose in readers:
            raise ValueError(clash)
        readers[whose] = read

    def unregister() -> None:
        with _lock:
            if readers.get(whose) is read:
                del readers[whose]

    return unregister


def _reading(readers: Readers) -> Read:
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
