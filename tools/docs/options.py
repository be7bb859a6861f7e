"""Tables of options and metrics, from their declarations in the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tools.docs.markdown import table

from penstock.config.client import KAFKA_NO_EFFECT, KAFKA_OPTIONS
from penstock.config.consumer import CONSUMER_NO_EFFECT, CONSUMER_OPTIONS, CONSUMER_REFUSED, OLD_NAMES
from penstock.config.event_time import EVENT_TIME_OPTIONS
from penstock.config.formats import FORMAT_OPTIONS
from penstock.config.option import Option
from penstock.config.registry import REGISTRY_OPTIONS
from penstock.config.source import NO_EFFECT, OPTIONS, REFUSED
from penstock.config.stream import STREAM_OPTIONS
from penstock.metrics.consumer import CONSUMER_METRICS
from penstock.metrics.source import METRICS, Metric


def options(described: Iterable[Option]) -> str:
    rows = [(f"`{o.name}`", "" if o.default is None else f"`{o.default}`", o.doc) for o in described]
    return table(("option", "default", "what it does"), rows)


def refused(advised: Mapping[str, str]) -> str:
    return table(("option", "instead"), [(f"`{name}`", advice) for name, advice in advised.items()])


def no_effect(reasons: Mapping[str, str]) -> str:
    return table(("option", "because"), [(f"`{name}`", reason) for name, reason in reasons.items()])


def old_names() -> str:
    return table(("old name", "today's"), [(f"`{old}`", f"`{today}`") for old, today in OLD_NAMES.items()])


def stream_options() -> str:
    return options(STREAM_OPTIONS.values())


def format_options() -> str:
    """Options of values only: those of keys differ in the name alone, and the page says so."""
    keys = {name.replace("value", "key", 1) for name in FORMAT_OPTIONS if name.startswith("value")}
    return options(o for name, o in FORMAT_OPTIONS.items() if name not in keys and name not in REGISTRY_OPTIONS)


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
    "format options": format_options,
    "registry options": lambda: options(REGISTRY_OPTIONS.values()),
    "kafka options": lambda: options(KAFKA_OPTIONS.values()),
    "refused options": lambda: refused(REFUSED),
    "options without effect": lambda: no_effect(NO_EFFECT),
    "kafka options without effect": lambda: no_effect(KAFKA_NO_EFFECT),
}
STREAMING_PAGE = {"metrics": lambda: metrics(METRICS), "stream options": stream_options}
CONSUMER_OPERATIONS_PAGE = {"consumer metrics": lambda: metrics(CONSUMER_METRICS)}
CONSUMER_SETTINGS_PAGE = {
    "consumer settings": lambda: options(CONSUMER_OPTIONS.values()),
    "old consumer settings": old_names,
    "refused consumer settings": lambda: refused(CONSUMER_REFUSED),
    "consumer settings without effect": lambda: no_effect(CONSUMER_NO_EFFECT),
}
