"""The metrics for Prometheus: an adapter, and an optional extra (`pip install penstock[prometheus]`).

Nothing is written anywhere as a query or a consumer runs: a scrape asks for the newest values, and one that has ended
is not among them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from penstock.metrics.consumer import CONSUMER_METRICS, ConsumerMetrics
from penstock.metrics.source import METRICS, Metric, Sample, SourceMetrics

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import CollectorRegistry

SOURCE = ("query", "source")
"""Labels of a source's series: the query's name (its id, if it has none) and the number of the source in the query."""

CONSUMER = ("group", "consumer")
"""Labels of a connector's series: its group and its consumer id."""


class Measured(Protocol):
    def samples(self) -> Iterator[Sample]: ...


Read: TypeAlias = Callable[[], Mapping[tuple[str, ...], Measured]]
"""Gives what there is to measure, by the values of the labels that all its series have."""


class MetricsCollector:
    """What a registry asks at each scrape; any thread may scrape."""

    def __init__(self, read: Read, metrics: Sequence[Metric] = METRICS, labels: Sequence[str] = SOURCE) -> None:
        self._read = read
        self._metrics = metrics
        self._labels = labels

    def describe(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """The names alone: by them a registry finds out that two collectors clash."""
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
    """Add a collector of sources to a registry (None: the process's own). Returns how to take it away again."""
    chosen = _registry(registry)
    collector = MetricsCollector(read)  # type: ignore[arg-type] # a Mapping's keys are invariant
    try:
        chosen.register(collector)
    except ValueError as error:
        raise ValueError(
            "this Prometheus registry has a LagListener already. One listener serves all queries of a session: use "
            "that one, close() it first, or give this one a CollectorRegistry of its own"
        ) from error
    return lambda: chosen.unregister(collector)


# --- connectors ---------------------------------------------------------------------------------------------------

_consumers: WeakKeyDictionary[Any, dict[tuple[str, str], Callable[[], ConsumerMetrics]]] = WeakKeyDictionary()
"""By registry the connectors that are in it: they share one collector, because a registry takes a name only once, and a
program may well have two connectors."""
_lock = threading.Lock()


def register_consumer(
    registry: CollectorRegistry | None, group: str, consumer_id: str, read: Callable[[], ConsumerMetrics]
) -> Callable[[], None]:
    """Add a connector to a registry (None: the process's own). Returns how to take it away again.

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
                f"this Prometheus registry has a consumer {consumer_id!r} of group {group!r} already. Shut that one "
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
        return {whose: one() for whose, one in now.items()}  # without the lock: a connector has its own

    return read


def _registry(registry: CollectorRegistry | None) -> CollectorRegistry:
    try:
        from prometheus_client import REGISTRY
    except ImportError as error:
        raise ImportError(
            "metrics for Prometheus need the package prometheus-client: pip install 'penstock[prometheus]'"
        ) from error
    return REGISTRY if registry is None else registry
