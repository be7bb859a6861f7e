"""Write the parts of the docs that come from code and measurements: `make docs`.

A part stands between `<!-- begin NAME -->` and `<!-- end NAME -->`; the rest of a file is left alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
STREAM_RESULTS = ROOT / "benchmarks" / "results" / "streams.json"
CONSUMER_RESULTS = ROOT / "benchmarks" / "results" / "consumer.json"
FORMAT_RESULTS = ROOT / "benchmarks" / "results" / "formats.json"
EVENT_TIME_RESULTS = ROOT / "benchmarks" / "results" / "event-time.json"

READERS = {
    "spark-penstock": 'PySpark, `format("penstock")`',
    "spark-jvm": "PySpark, Spark's own Kafka source (JVM)",
    "spark-ceiling": "PySpark, ready-made Arrow batches from memory (the ceiling)",
    "python-penstock": "plain Python, Penstock, one thread",
    "java-consumer": "Java, Kafka's ConsumerPerformance",
    "python-confluent": "plain Python, confluent-kafka into Arrow",
    "python-confluent-tuned": "the same, its queues tuned",
}

STREAMS = {
    ("stream-micro-batch", ""): "a micro-batch of 20 rows, p50, ms",
    ("stream-catch-up", "1 M per trigger"): "catching up, 1 M records per trigger, s",
    ("stream-catch-up", "all at once"): "catching up, all at once, s",
    ("stream-planning", ""): "planning a trigger over 2,000 partitions, ms",
    ("stream-planning", "discovery at every trigger"): "the same, looking for new partitions at every trigger, ms",
    ("stream-idle", "every 100 ms"): "CPU of a trigger without data, every 100 ms, ms",
    ("stream-idle", "default trigger"): "the same with the default trigger, ms",
}
SIDES = {"penstock": "Penstock", "jvm": "Spark's JVM source", "flink": "Flink"}

CONSUMERS = {
    ("consumer-batches", ""): "Arrow batches, or many messages at a time, M rows/s",
    ("consumer-messages", ""): "message by message, M rows/s",
    ("consumer-cpu", ""): "CPU seconds per GB: batches",
    ("consumer-cpu", "message by message"): "the same, message by message",
    ("consumer-latency", "p50"): "producer to reader at 1,000 messages/s, p50, ms",
    ("consumer-latency", "p99"): "the same, p99, ms",
}
CONSUMER_SIDES = {
    "penstock": "Penstock",
    "java": "Java's ConsumerPerformance",
    "java-warm": "the same, warm JVM",
    "confluent-tuned": "confluent-kafka, tuned",
    "confluent": "confluent-kafka",
    "kafka-python": "kafka-python",
    "aiokafka": "aiokafka",
}

FORMATS = {
    ("formats-json", ""): "JSON, 5 fields, to a struct (`from_json`)",
    ("formats-json", "flat"): "the same to columns of their own",
    ("formats-json", "all of Kafka's columns"): "the same with all of Kafka's columns beside it",
    ("formats-json-malformed", ""): "JSON, 1% malformed (`from_json`)",
    ("formats-poison", "none malformed"): "JSON, none malformed",
    ("formats-poison", "one in a million malformed"): "JSON, one in a million malformed",
    ("formats-avro", ""): "Avro with a schema registry (`from_avro`, its header cut off in SQL)",
    ("formats-protobuf", ""): "Protobuf (Arrow UDF, Google's protobuf)",
    ("formats-projection", "all of twenty fields"): "JSON, 20 fields",
    ("formats-projection", "one of twenty fields"): "the same, one field asked for",
    ("formats-deserializer", ""): "JSON, Python for each record (UDF)",
    ("formats-deserializer", "pickled"): "the same (UDF without Arrow)",
}
FORMAT_SIDES = {
    "penstock": "Penstock",
    "jvm": "Spark's JVM source + function",
    "udf": "Penstock's raw read + Python UDF",
}

EVENT_TIMES = {
    ("event-time-catch-up", "1 M per trigger, event time off"): "an even topic, 1 M records per trigger, M rows/s",
    ("event-time-catch-up", "1 M per trigger, event time on"): "the same with watermarks, idleness and alignment",
    ("event-time-catch-up", "all at once, event time off"): "an even topic, all at once, M rows/s",
    ("event-time-catch-up", "all at once, event time on"): "the same with watermarks, idleness and alignment",
    ("event-time-planning", "a record in each, event time off"): "planning a trigger, 200 partitions, ms",
    ("event-time-planning", "a record in each, event time on"): "the same with watermarks, idleness and alignment",
    ("event-time-replay", "records lost"): "a skewed topic counted behind `withWatermark`: records lost of 6 M",
    ("event-time-replay", "time"): "the same, s",
}


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def options(described: Iterable[Option]) -> str:
    rows = [(f"`{o.name}`", "" if o.default is None else f"`{o.default}`", o.doc) for o in described]
    return table(("option", "default", "what it does"), rows)


def refused(advised: Mapping[str, str] = REFUSED) -> str:
    return table(("option", "instead"), [(f"`{name}`", advice) for name, advice in advised.items()])


def no_effect(reasons: Mapping[str, str] = NO_EFFECT) -> str:
    return table(("option", "because"), [(f"`{name}`", reason) for name, reason in reasons.items()])


def old_names() -> str:
    return table(("old name", "today's"), [(f"`{old}`", f"`{today}`") for old, today in OLD_NAMES.items()])


def stream_options() -> str:
    return options(STREAM_OPTIONS.values())


def format_options() -> str:
    """Those of keys are those of values, by another name: the page says so."""
    keys = {name.replace("value", "key", 1) for name in FORMAT_OPTIONS if name.startswith("value")}
    return options(o for name, o in FORMAT_OPTIONS.items() if name not in keys and name not in REGISTRY_OPTIONS)


def metrics(described: Iterable[Metric] = METRICS) -> str:
    rows = [
        (f"`{metric.name}`", f"`{metric.prometheus_name}{'_total' if metric.kind == 'counter' else ''}`", metric.help)
        for metric in described
    ]
    return table(("metric", "in Prometheus", "what it is"), rows)


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def side_by_side(
    measured: Sequence[Mapping[str, Any]], cases: Mapping[tuple[str, str], str], sides: Iterable[str]
) -> list[tuple[str, ...]]:
    """A row for every case that somebody was measured in."""
    values = {(one["figure"], one["case"], one["side"]): shown(one["median"]) for one in measured}
    rows = [(text, *(values.get((*case, side), "") for side in sides)) for case, text in cases.items()]
    return [row for row in rows if any(row[1:])]


def benchmark(path: Path = RESULTS) -> str:
    if not path.exists():
        return "*No whole run is recorded yet. `make bench` makes one on your machine.*"
    results: dict[str, Any] = json.loads(path.read_text("utf-8"))
    speeds = {(s["contestant"], s["codec"]): s["rows_per_second"] / 1e6 for s in results["speed"]}
    codecs = list(dict.fromkeys(codec for _, codec in speeds))
    rows = [
        (text, *(f"{speeds[name, codec]:.2f}" if (name, codec) in speeds else "" for codec in codecs))
        for name, text in READERS.items()
        if any((name, codec) in speeds for codec in codecs)
    ]
    figures = [
        (figure["figure"], figure["codec"], f"{figure['value']:.2f}", figure["target"]) for figure in results["figures"]
    ]
    streamed: dict[str, Any] = results if results.get("streams") else json.loads(STREAM_RESULTS.read_text("utf-8"))
    if streamed is not results:
        figures += [(one["figure"], one["codec"], f"{one['value']:.2f}", one["target"]) for one in streamed["figures"]]
    stream_rows = side_by_side(streamed["streams"], STREAMS, SIDES)
    consumed: dict[str, Any] = results
    if not results.get("consumers") and CONSUMER_RESULTS.exists():
        consumed = json.loads(CONSUMER_RESULTS.read_text("utf-8"))
        figures += [(one["figure"], one["codec"], f"{one['value']:.2f}", one["target"]) for one in consumed["figures"]]
    consumer_rows = side_by_side(consumed.get("consumers", []), CONSUMERS, CONSUMER_SIDES)
    typed: dict[str, Any] = results
    if not results.get("formats") and FORMAT_RESULTS.exists():
        typed = json.loads(FORMAT_RESULTS.read_text("utf-8"))
        figures += [(one["figure"], one["codec"], f"{one['value']:.2f}", one["target"]) for one in typed["figures"]]
    format_rows = side_by_side(typed.get("formats", []), FORMATS, FORMAT_SIDES)
    timed: dict[str, Any] = results
    if not results.get("event_time") and EVENT_TIME_RESULTS.exists():
        timed = json.loads(EVENT_TIME_RESULTS.read_text("utf-8"))
        figures += [(one["figure"], one["codec"], f"{one['value']:.2f}", one["target"]) for one in timed["figures"]]
    event_time_sides = {side: SIDES[side] for side in ("penstock", "jvm")}
    event_time_rows = side_by_side(timed.get("event_time", []), EVENT_TIMES, event_time_sides)
    setting, machine = results["setting"], results["machine"]
    versions = {**consumed["versions"], **typed["versions"], **results["versions"]}
    return "\n\n".join(
        (
            f"Million rows per second, median of {setting['rounds']} runs after {setting['warm_ups']} to warm up; "
            f"{setting['rows']:,} records of {setting['record_bytes']:.0f} bytes, {setting['partitions']} partitions:",
            table(("reader", *codecs), rows),
            *(
                (
                    f"Streams, all columns into the noop sink (Flink: the values alone), median of "
                    f"{streamed['setting']['stream_rounds']} rounds ({streamed['date'][:10]}):",
                    table(("", *SIDES.values()), stream_rows),
                )
                if stream_rows
                else ()
            ),
            *(
                (
                    f"A consumer group of one, lz4, four streams or one reader, every value touched, median of "
                    f"{consumed['setting']['stream_rounds']} rounds ({consumed['date'][:10]}):",
                    table(("", *CONSUMER_SIDES.values()), consumer_rows),
                )
                if consumer_rows
                else ()
            ),
            *(
                (
                    f"Typed columns, Spark batch into the noop sink, million rows per second, lz4, median of at least "
                    f"{typed['setting']['stream_rounds']} rounds ({typed['date'][:10]}):",
                    table(("", *FORMAT_SIDES.values()), format_rows),
                )
                if format_rows
                else ()
            ),
            *(
                (
                    f"Event time, uncompressed, median of at least {timed['setting']['stream_rounds']} rounds "
                    f"({timed['date'][:10]}):",
                    table(("", *event_time_sides.values()), event_time_rows),
                )
                if event_time_rows
                else ()
            ),
            "What they come to, beside what was aimed for:",
            table(("figure", "codec", "value", "aim"), figures),
            f"{results['date'][:10]}, {machine['cores']} cores ({machine['cpu']}), broker on the same machine. "
            + ", ".join(f"{name} {version}" for name, version in versions.items())
            + ". How it is measured: [benchmarks](benchmarks/README.md).",
        )
    )


PARTS = {
    "docs/options.md": {
        "options": lambda: options(OPTIONS.values()),
        "stream options": stream_options,
        "event time options": lambda: options(EVENT_TIME_OPTIONS.values()),
        "format options": format_options,
        "registry options": lambda: options(REGISTRY_OPTIONS.values()),
        "kafka options": lambda: options(KAFKA_OPTIONS.values()),
        "refused options": refused,
        "options without effect": no_effect,
        "kafka options without effect": lambda: no_effect(KAFKA_NO_EFFECT),
    },
    "docs/streaming.md": {"metrics": metrics, "stream options": stream_options},
    "docs/consumer.md": {
        "consumer settings": lambda: options(CONSUMER_OPTIONS.values()),
        "old consumer settings": old_names,
        "refused consumer settings": lambda: refused(CONSUMER_REFUSED),
        "consumer settings without effect": lambda: no_effect(CONSUMER_NO_EFFECT),
        "consumer metrics": lambda: metrics(CONSUMER_METRICS),
    },
    "README.md": {"benchmark": benchmark},
}


def generated(file: str, text: str) -> str:
    """A file's text with its parts made anew."""
    for name, make in PARTS[file].items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"{file}: the lines {begin} and {end} are missing")
        text = f"{before}{begin}\n{make()}\n{end}{after}"
    return text


def main() -> int:
    for file in PARTS:
        path = ROOT / file
        old = path.read_text("utf-8")
        new = generated(file, old)
        if new != old:
            path.write_text(new, "utf-8")
        print(f"{file}: {'written' if new != old else 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
