"""Tables of options and metrics, from their declarations in the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tools.docs.markdown import table

from penstock.config.client import KAFKA_NO_EFFECT, KAFKA_OPTIONS
from penstock.config.consumer import CONSUMER_NO_EFFECT, CONSUMER_OPTIONS, CONSUMER_REFUSED, OLD_NAMES
from penstock.config.event_time import EVENT_TIME_OPTIONS
from penstock.config.formats import FORMAT_OPTIONS
from penstock.config.option import Option, OptionTable
from penstock.config.producer import PRODUCER_NO_EFFECT, PRODUCER_OPTIONS
from penstock.config.registry import REGISTRY_OPTIONS
from penstock.config.sink import REFUSED as SINK_REFUSED
from penstock.config.sink import SINK_OPTIONS_OWN
from penstock.config.source import NO_EFFECT, OPTIONS, REFUSED
from penstock.config.stream import STREAM_OPTIONS
from penstock.config.write_formats import WRITE_FORMAT_OPTIONS
from penstock.metrics.consumer import CONSUMER_METRICS
from penstock.metrics.sink import SINK_METRICS
from penstock.metrics.source import METRICS, Metric
from penstock.metrics.writer import WRITER_METRICS


def options(described: Iterable[Option]) -> str:
    rows = [(f"`{o.name}`", f"`{o.default}`" if o.default else "", o.doc) for o in described]
    return table(("option", "default", "what it does"), rows)


def refused(advised: Mapping[str, str]) -> str:
    return table(("option", "instead"), [(f"`{name}`", advice) for name, advice in advised.items()])


def no_effect(reasons: Mapping[str, str]) -> str:
    return table(("option", "because"), [(f"`{name}`", reason) for name, reason in reasons.items()])


def refused_in_writes() -> str:
    return refused({name: advice for name, advice in SINK_REFUSED.items() if name not in REFUSED})


def old_names() -> str:
    return table(("old name", "today's"), [(f"`{old}`", f"`{today}`") for old, today in OLD_NAMES.items()])


def stream_options() -> str:
    return options(STREAM_OPTIONS.values())


def format_options(table: OptionTable) -> str:
    """Options of values only: those of keys differ in the name alone, and the page says so."""
    keys = {name.replace("value", "key", 1) for name in table if name.startswith("value")}
    return options(o for name, o in table.items() if name not in keys and name not in REGISTRY_OPTIONS)


def metrics(described: Iterable[Metric]) -> str:
    rows = [
        (f"`{metric.name}`", f"`{metric.prometheus_name}{'_total' if metric.kind == 'counter' else ''}`", metric.help)
        for metric in described
    ]
    return table(("metric", "in Prometheus", "what it is"), rows)


OPTIONS_PAGE = {
    "options": lambda: options(OPTIONS.values()),
    "stream options": stream_options,
    "event time options": lambda: options(EVENT_TIME_OPTIONS.values()),
    "format options": lambda: format_options(FORMAT_OPTIONS),
    "sink options": lambda: options(SINK_OPTIONS_OWN.values()),
    "producer options": lambda: options(PRODUCER_OPTIONS.values()),
    "write format options": lambda: format_options(WRITE_FORMAT_OPTIONS),
    "registry options": lambda: options(REGISTRY_OPTIONS.values()),
    "kafka options": lambda: options(KAFKA_OPTIONS.values()),
    "refused options": lambda: refused(REFUSED),
    "refused sink options": refused_in_writes,
    "options without effect": lambda: no_effect(NO_EFFECT),
    "kafka options without effect": lambda: no_effect(KAFKA_NO_EFFECT),
    "producer options without effect": lambda: no_effect(PRODUCER_NO_EFFECT),
}
STREAMING_PAGE = {
    "metrics": lambda: metrics(METRICS),
    "sink metrics": lambda: metrics(SINK_METRICS),
    "stream options": stream_options,
}
WRITER_PAGE = {"writer metrics": lambda: metrics(WRITER_METRICS)}
CONSUMER_OPERATIONS_PAGE = {"consumer metrics": lambda: metrics(CONSUMER_METRICS)}
CONSUMER_SETTINGS_PAGE = {
    "consumer settings": lambda: options(CONSUMER_OPTIONS.values()),
    "old consumer settings": old_names,
    "refused consumer settings": lambda: refused(CONSUMER_REFUSED),
    "consumer settings without effect": lambda: no_effect(CONSUMER_NO_EFFECT),
}
