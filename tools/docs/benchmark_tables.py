"""Tables of benchmark figures, from recorded runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tools.docs.bar_chart import number
from tools.docs.markdown import table
from tools.docs.results import Run, all_runs, run_of

Case = tuple[str, str]
"""A figure and one case of it, as the results name them."""

SPARK_READERS = {
    "spark-penstock": '`format("penstock")`',
    "spark-jvm": 'Spark\'s Kafka source, `format("kafka")`',
    "spark-ceiling": "ceiling: ready-made Arrow batches from memory",
}
PLAIN_READERS = {
    "python-penstock": "Penstock",
    "python-penstock-ahead": "Penstock with its prefetch thread",
    "java-consumer-warm": "ConsumerPerformance, warm JVM",
    "java-consumer": "ConsumerPerformance as shipped",
    "python-confluent-tuned": "confluent-kafka to Arrow, tuned",
    "python-confluent": "confluent-kafka to Arrow, defaults",
}
SPARK_SIDES = {"penstock": "Penstock", "jvm": "Spark's Kafka source"}
STREAM_SIDES = {**SPARK_SIDES, "flink": "Flink"}
CONSUMER_SIDES = {
    "penstock": "Penstock",
    "java-warm": "ConsumerPerformance, warm JVM",
    "java": "ConsumerPerformance as shipped",
    "confluent-tuned": "confluent-kafka, tuned",
    "confluent": "confluent-kafka, defaults",
    "kafka-python": "kafka-python",
    "aiokafka": "aiokafka",
}
SHORT_WAIT, CONFIGURED = "fetch.max.wait.ms=10", "configure"
FORMAT_SIDES = {"penstock": "Penstock", "jvm": "Spark's Kafka source + function", "udf": "raw read + Python UDF"}

STREAMS: dict[Case, str] = {
    ("stream-catch-up", "1 M per trigger"): "catch up on 6 M records, 1 M per trigger, s",
    ("stream-catch-up", "all at once"): "catch up on 6 M records, one trigger, s",
    ("stream-yahoo", ""): "Yahoo's job over 3 M events, s",
    ("stream-yahoo", "columns"): "the same with `columns`, s",
    ("stream-yahoo", "columns and where"): "the same with `columns` and `where`, s",
    ("stream-micro-batch", ""): "micro-batch of 20 rows, p50, ms",
    ("stream-micro-batch", CONFIGURED): "the same in a session by `configure`, ms",
    ("stream-micro-batch", SHORT_WAIT): f"the same with `kafka.{SHORT_WAIT}`, ms",
    ("stream-micro-batch-steady", ""): "20 rows every 150 ms, trigger p50, ms",
    ("stream-micro-batch-steady", CONFIGURED): "the same in a session by `configure`, ms",
    ("stream-micro-batch-steady", SHORT_WAIT): f"the same with `kafka.{SHORT_WAIT}`, ms",
    ("stream-planning", ""): "plan a trigger over 2,000 partitions, ms",
    ("stream-planning", "discovery at every trigger"): "the same, with partition discovery at every trigger, ms",
    ("stream-idle", "every 100 ms"): "CPU of a trigger without data, every 100 ms, ms",
    ("stream-idle", "default trigger"): "CPU of a trigger without data, default trigger, ms",
}
CONSUMERS: dict[Case, str] = {
    ("consumer-batches", ""): "many records per call, M rows/s",
    ("consumer-messages", ""): "one record per call, M rows/s",
    ("consumer-cpu", ""): "CPU seconds per GB, many records per call",
    ("consumer-cpu", "message by message"): "CPU seconds per GB, one record per call",
    ("consumer-latency", "p50"): "latency at 1,000 records/s, p50, ms",
    ("consumer-latency", "p99"): "latency at 1,000 records/s, p99, ms",
}
FORMATS: dict[Case, str] = {
    ("formats-json", ""): "JSON, 5 fields, to a struct",
    ("formats-json", "flat"): "JSON, 5 fields, to top-level columns (`flatten`)",
    ("formats-json", "all of Kafka's columns"): "JSON, 5 fields, with Kafka's other columns",
    ("formats-json-malformed", ""): "JSON, 1% malformed",
    ("formats-poison", "one in a million malformed"): "JSON, one record in a million malformed",
    ("formats-poison", "none malformed"): "JSON, none malformed (the same 7 rounds)",
    ("formats-avro", ""): "Avro with a schema registry",
    ("formats-protobuf", ""): "Protobuf",
    ("formats-projection", "all of twenty fields"): "JSON, 20 fields, all selected",
    ("formats-projection", "one of twenty fields"): "JSON, 20 fields, one selected",
    ("formats-deserializer", ""): "JSON by a Python function per record",
    ("formats-deserializer", "pickled"): "the same, UDF without Arrow",
}
COLUMNS_AND_FILTERS: dict[Case, str] = {
    ("formats-select", ""): 'JSON, `select("value.*")`',
    ("formats-select", "columns"): "the same with `columns=value`",
    ("formats-where", "Spark's filter"): "JSON, one record of 1,000, by Spark's filter",
    ("formats-where", ""): "the same by `where`",
    ("formats-string", "binary"): "the value as bytes",
    ("formats-string", "binary, cast to string in Spark"): "the value as bytes, cast to a string in Spark",
    ("formats-string", "string"): "the value as a string (`valueFormat=string`)",
}
SEARCHES: dict[Case, str] = {
    ("search", ""): "count the matches among 6 M records, s",
    ("search", "with a schema"): "the same with a schema, s",
    ("search", "with a queue of 1 M messages"): "the same, kcat with a queue of 1 M messages, s",
}
SEARCH_SIDES = {"penstock": "`penstock read --where`", "kcat": "kcat and jq"}
GROUPS = {
    "consumer": "`group.protocol=consumer`",
    "cooperative-sticky": "`classic`, `cooperative-sticky`",
    "range": "`classic`, `range`",
}
SHARES: dict[Case, str] = {
    ("consumer-share", "max.poll.records=500"): "default settings, M rows/s",
    ("consumer-share", "max.poll.records=2000"): "`max.poll.records=2000`, M rows/s",
}
SHARE_SIDES = {"penstock": "Penstock", "java-warm": "Java's KafkaShareConsumer, warm JVM"}
TABLES: dict[Case, str] = {
    ("streamer-delta", "Delta"): "into Delta Lake, M rows/s",
    ("streamer-delta", "Parquet"): "into Parquet files, M rows/s",
}
TABLE_SIDES = {"penstock": "Streamer", "jvm": "Spark's Kafka source"}
SUMS: dict[Case, str] = {
    ("sail", ""): "`sum(length(value))`, M rows/s",
    ("sail", "columns"): "the same with `columns=value`, M rows/s",
}
ENGINES = {"sail": "Penstock on Sail", "penstock": "Penstock on Spark", "jvm": "Spark and its Kafka source"}
EVENT_TIMES: dict[Case, str] = {
    ("event-time-replay", "records lost"): "skewed replay behind `withWatermark`: records lost of 6 M",
    ("event-time-replay", "time"): "skewed replay: time, s",
}
EVENT_TIME_COST: dict[Case, str] = {
    ("event-time-catch-up", "1 M per trigger"): "catch up on an even topic, 1 M per trigger, M rows/s",
    ("event-time-catch-up", "all at once"): "catch up on an even topic, one trigger, M rows/s",
    ("event-time-planning", "a record in each"): "plan a trigger, 200 partitions, one record in each, ms",
    ("event-time-planning", "most held back"): "plan a trigger, 200 partitions, 124 of them held back, ms",
    ("event-time-planning", "catching up"): "plan a trigger, 200 partitions, catching up, ms",
}


def headline() -> str:
    """The five rows of the README."""
    batch, streams, formats = run_of("speed"), run_of("streams"), run_of("formats")
    event_time, consumers = run_of("event_time"), run_of("consumers")
    read, lost = ("stream-catch-up", "1 M per trigger"), ("event-time-replay", "records lost")
    rows = [
        (
            "Spark batch read, all columns, M rows/s",
            *(shown(speed(batch, reader, "lz4")) for reader in ("spark-penstock", "spark-jvm")),
            "Spark's Kafka source",
        ),
        (
            "Spark stream, catch up on 6 M records, 1 M per trigger, s",
            *_pair(streams, *read, "jvm"),
            "Spark's Kafka source",
        ),
        (
            "Spark batch read, JSON to typed columns, M rows/s",
            *_pair(formats, "formats-json", "", "jvm"),
            "Spark's Kafka source and `from_json`",
        ),
        (
            "Spark stream, skewed replay behind `withWatermark`, records lost of 6 M",
            *_pair(event_time, *lost, "jvm"),
            "Spark's Kafka source",
        ),
        (
            "Python consumer group, one message per call, M rows/s",
            *_pair(consumers, "consumer-messages", "", "confluent-tuned"),
            "confluent-kafka, tuned",
        ),
    ]
    return table(("", "Penstock", "alternative", "which alternative"), rows)


def machine() -> str:
    """Where and when the figures were measured."""
    runs = list(all_runs())
    described = runs[0].data["machine"]
    versions = {name: version for run in reversed(runs) for name, version in run.data["versions"].items()}
    rows = []
    for run in runs:
        name, rounds = f"`benchmarks/results/{run.file}.json`", run.setting.get("stream_rounds", run.setting["rounds"])
        rows.append((name, *_when_and_where(run.data), str(rounds), str(run.data["load_before"])))
        for earlier in run.data.get("earlier", []):
            figures = f"of it {', '.join(f'`{figure}`' for figure in earlier['figures'])}"
            rows.append((figures, *_when_and_where(earlier), str(earlier["rounds"]), str(earlier["load_before"])))
    return "\n\n".join(
        (
            f"{described['cores']} cores, {described['memory_gb']:.0f} GB of memory, "
            f"{described['system'].split('-')[0]}; the broker runs on the same machine.",
            table(("recorded run", "date", "processor", "rounds", "load average before the run"), rows),
            "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".",
        )
    )


def _when_and_where(facts: Mapping[str, Any]) -> tuple[str, str]:
    return str(facts["date"])[:10], str(facts["machine"]["cpu"])


def spark_batch() -> str:
    return _by_codec("reader, M rows/s", SPARK_READERS)


def one_thread() -> str:
    return _by_codec("reader, M rows/s", PLAIN_READERS)


def streams() -> str:
    run = run_of("streams")
    rows = side_by_side(run, STREAMS, STREAM_SIDES)
    texts = [row[0] for row in rows]
    for figure in ("stream-micro-batch-steady", "stream-micro-batch"):
        if (measured := STREAMS[figure, ""]) in texts:
            tasks = [run.recorded(figure, "", side, "addBatch") for side in STREAM_SIDES]
            rows.insert(texts.index(measured) + 1, ("of it in tasks and sink (`addBatch`), ms", *map(shown, tasks)))
    return table(("", *STREAM_SIDES.values()), rows)


def consumer_groups() -> str:
    """A row for each client: seven columns of clients would not fit a page."""
    run = run_of("consumers")
    measured = side_by_side(run, CONSUMERS, CONSUMER_SIDES)
    clients = zip(CONSUMER_SIDES.values(), *(row[1:] for row in measured), strict=True)
    return table(("client", *(row[0] for row in measured)), clients)


def group_protocols() -> str:
    run = run_of("consumers")
    speeds = {"consumer": "consumer", "range": "classic"}
    rows = [
        (
            "four streams, Arrow batches, M rows/s",
            *(shown(run.value("consumer-protocols", speeds.get(group, ""), "penstock")) for group in GROUPS),
        ),
        (
            "a member joins eight: partitions that stay wait longer by, ms",
            *(shown(run.value("consumer-join", group, "penstock")) for group in GROUPS),
        ),
    ]
    return recorded_table(("", *GROUPS.values()), [row for row in rows if any(row[1:])])


def share_groups() -> str:
    return recorded_table(("", *SHARE_SIDES.values()), side_by_side(run_of("consumers"), SHARES, SHARE_SIDES))


def streamer() -> str:
    return recorded_table(("", *TABLE_SIDES.values()), side_by_side(run_of("streamer"), TABLES, TABLE_SIDES))


def formats() -> str:
    return table(("M rows/s", *FORMAT_SIDES.values()), side_by_side(run_of("formats"), FORMATS, FORMAT_SIDES))


def columns_and_filters() -> str:
    rows = side_by_side(run_of("formats"), COLUMNS_AND_FILTERS, FORMAT_SIDES)
    sides = (FORMAT_SIDES["penstock"], FORMAT_SIDES["jvm"])
    recorded = recorded_table(("M rows/s", *sides), [row[: 1 + len(sides)] for row in rows])
    chart = "![Columns and filters: rows per second with and without them](figures/columns-and-filters.svg)\n\n"
    return chart + recorded if has_filters() else recorded


def has_filters() -> bool:
    """Whether the recorded run of the formats has queries that select or filter."""
    run = run_of("formats")
    return any(one["figure"] in ("formats-select", "formats-where") for one in run.measured)


def search() -> str:
    rows = side_by_side(run_of("search"), SEARCHES, SEARCH_SIDES)
    chart = "![Search from a shell, and a batch on Sail](figures/search-and-sail.svg)\n\n" if rows else ""
    return chart + recorded_table(("", *SEARCH_SIDES.values()), rows)


def sail() -> str:
    return recorded_table(("", *ENGINES.values()), side_by_side(run_of("sail"), SUMS, ENGINES))


def event_time() -> str:
    return table(("", *SPARK_SIDES.values()), side_by_side(run_of("event_time"), EVENT_TIMES, SPARK_SIDES))


def event_time_cost() -> str:
    run = run_of("event_time")
    rows = [
        (text, *(shown(run.value(figure, f"{case}, event time {state}", "penstock")) for state in ("off", "on")))
        for (figure, case), text in EVENT_TIME_COST.items()
    ]
    return table(("Penstock", "event time off", "event time on"), rows)


def memory() -> str:
    rows = [
        (
            peak["where"],
            peak["codec"],
            f"{peak['partition_mb']:,.0f}",
            f"{peak['idle_mb']:.0f}",
            f"{peak['peak_mb']:.0f}",
            f"{peak['over_idle_mb']:.0f}",
        )
        for peak in run_of("memory").measured
    ]
    return table(("process", "codec", "bytes read, MB", "idle, MB", "peak, MB", "peak over idle, MB"), rows)


def stream_memory() -> str:
    rows = [(one["what"], f"{one['first_mb']:.1f}", f"{one['last_mb']:.1f}") for one in _stream_memory()]
    return table(("over 500 micro-batches", "first 100, MB", "last 100, MB"), rows)


def targets() -> str:
    """All targets in the order of the benchmark: names such as "the same / its defaults" refer to the row above."""
    figures = [figure for run in all_runs() for figure in run.data["figures"]]
    missed = sum(not one["reached"] for one in figures)
    rows = [
        (
            one["figure"],
            one["codec"],
            f"{one['value']:,.2f}",
            one["target"],
            "reached" if one["reached"] else "**missed**",
        )
        for one in figures
    ]
    return f"{missed} of {len(figures)} targets are missed.\n\n" + table(
        ("figure", "codec", "measured", "target", ""), rows
    )


def speed(run: Run, reader: str, codec: str) -> float | None:
    """Million rows per second."""
    found = (one for one in run.measured if (one["contestant"], one["codec"]) == (reader, codec))
    return next((one["rows_per_second"] / 1e6 for one in found), None)


def codecs_of(run: Run) -> list[str]:
    return list(dict.fromkeys(one["codec"] for one in run.measured))


def side_by_side(run: Run, cases: Mapping[Case, str], sides: Iterable[str]) -> list[tuple[str, ...]]:
    """A row for every case that was measured for at least one side."""
    names = list(sides)
    rows = [(text, *(shown(run.value(*case, side)) for side in names)) for case, text in cases.items()]
    return [row for row in rows if any(row[1:])]


def recorded_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; a sentence if no recorded run has any row of it."""
    return table(header, rows) if rows else "No run of this is recorded yet: `make bench` writes one."


def shown(value: float | None) -> str:
    return "" if value is None else number(value)


def _by_codec(header: str, readers: Mapping[str, str]) -> str:
    run = run_of("speed")
    codecs = codecs_of(run)
    rows = [(text, *(_hundredths(speed(run, reader, codec)) for codec in codecs)) for reader, text in readers.items()]
    return table((header, *codecs), [row for row in rows if any(row[1:])])


def _pair(run: Run, figure: str, case: str, rival: str) -> tuple[str, str]:
    return shown(run.value(figure, case, "penstock")), shown(run.value(figure, case, rival))


def _hundredths(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _stream_memory() -> list[dict[str, Any]]:
    return run_of("stream_memory").measured
