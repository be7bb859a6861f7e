"""The figures of docs/performance.md, from recorded runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.docs.bar_chart import Bar, Chart, Group, Kind
from tools.docs.benchmark_tables import CONSUMER_SIDES, STREAM_SIDES, codecs_of, has_filters, speed
from tools.docs.line_chart import Line, LineChart, Panel
from tools.docs.results import Run, run_of
from tools.docs.scale_tables import (
    CHANGES,
    GROUP_STEPS,
    MEMBERS,
    PARTITIONS,
    PLANNED,
    RANGE_COUNTS,
    RANGE_STEPS,
    points,
)

SPARK_READERS = {"spark-penstock": "Penstock", "spark-jvm": "Spark's Kafka source", "spark-ceiling": "ceiling"}
PLAIN_READERS = {
    "python-penstock": "Penstock",
    "java-consumer-warm": "ConsumerPerformance, warm JVM",
    "java-consumer": "ConsumerPerformance as shipped",
    "python-confluent-tuned": "confluent-kafka to Arrow, tuned",
    "python-confluent": "confluent-kafka to Arrow",
}


def spark_batch() -> str:
    return Chart(
        "Spark batch read", "million rows per second, all 7 columns, local[2]; longer is faster",
        _by_codec(SPARK_READERS), one_scale=True,
    ).svg()  # fmt: skip


def one_thread() -> str:
    return Chart(
        "Plain read, one application thread", "million rows per second; longer is faster",
        _by_codec(PLAIN_READERS), one_scale=True,
    ).svg()  # fmt: skip


def streams() -> str:
    run = run_of("streams")
    figures = {
        "catch up on 6 M records, 1 M per trigger, s": ("stream-catch-up", "1 M per trigger"),
        "catch up on 6 M records, one trigger, s": ("stream-catch-up", "all at once"),
        "Yahoo's job over 3 M events, s": ("stream-yahoo", ""),
        "the same with columns and where, s": ("stream-yahoo", "columns and where"),
        "micro-batch of 20 rows, p50, ms": ("stream-micro-batch", ""),
        "plan a trigger over 2,000 partitions, ms": ("stream-planning", ""),
        "CPU of a trigger without data, every 100 ms, ms": ("stream-idle", "every 100 ms"),
    }
    groups = [Group(title, bars(run, *case, STREAM_SIDES)) for title, case in figures.items()]
    measured = [group for group in groups if group.bars]
    return Chart("Spark streams", "a scale for each figure; shorter is better", measured).svg()


def consumer_groups() -> str:
    run = run_of("consumers")
    groups = [
        Group("many records per call", bars(run, "consumer-batches", "", CONSUMER_SIDES)),
        Group("one record per call", bars(run, "consumer-messages", "", CONSUMER_SIDES)),
    ]
    return Chart("Consumer group of one member", "million rows per second, lz4; longer is faster", groups).svg()


def typed_columns() -> str:
    run = run_of("formats")
    jvm = {"penstock": "Penstock", "jvm": "Spark's source + from_json"}
    groups = [
        Group("JSON, 5 fields", bars(run, "formats-json", "", jvm)),
        Group("JSON, 1% malformed", bars(run, "formats-json-malformed", "", jvm)),
        Group("Avro with a registry", bars(run, "formats-avro", "", {**jvm, "jvm": "Spark's source + from_avro"})),
        Group("Protobuf", bars(run, "formats-protobuf", "", {"penstock": "Penstock", "udf": "raw read + Arrow UDF"})),
        Group(
            "JSON by a Python function per record",
            bars(run, "formats-deserializer", "", {"penstock": "Penstock", "udf": "raw read + Python UDF"}),
        ),
    ]
    subtitle = "million rows per second, Spark batch read, lz4; longer is faster"
    return Chart("Typed columns", subtitle, groups, one_scale=True).svg()


def filters() -> str:
    """What needs no scale of its own: rows per second of queries that select or filter."""
    run = run_of("formats")
    jvm = {"jvm": "Spark's source + from_json"}
    groups = [
        Group(
            'JSON, select("value.*")',
            bars(run, "formats-select", "columns", {"penstock": "Penstock with columns=value"})
            + bars(run, "formats-select", "", {"penstock": "Penstock", **jvm}),
        ),
        Group(
            "JSON, one record of 1,000",
            bars(run, "formats-where", "", {"penstock": "Penstock with where"})
            + bars(run, "formats-where", "Spark's filter", {"penstock": "Penstock, Spark's filter", **jvm}),
        ),
    ]
    subtitle = "million rows per second, Spark batch read, lz4; longer is faster"
    return Chart("Columns and filters", subtitle, groups, one_scale=True).svg()


def without_spark() -> str:
    search, sums = run_of("search"), run_of("sail")
    groups = [
        Group(
            "search among 6 M records of JSON, s; shorter is better",
            bars(search, "search", "", {"penstock": "penstock read --where", "kcat": "kcat and jq"})
            + bars(search, "search", "with a queue of 1 M messages", {"kcat": "kcat with a longer queue, jq"}),
        ),
        Group(
            "sum(length(value)), M rows/s; longer is faster",
            bars(sums, "sail", "", {"sail": "Penstock on Sail"}, "penstock")
            + bars(sums, "sail", "", {"penstock": "Penstock on Spark", "jvm": "Spark and its Kafka source"}),
        ),
    ]
    measured = [group for group in groups if group.bars]
    return Chart("Search from a shell, and a batch without a JVM", "a scale for each figure", measured).svg()


def skewed_replay() -> str:
    lost = bars(run_of("event_time"), "event-time-replay", "records lost", STREAM_SIDES)
    return Chart(
        "Skewed replay, counted behind withWatermark", "of 6,000,000 records; shorter is better",
        [Group("records that are in no window", lost)],
    ).svg()  # fmt: skip


def spark_write() -> str:
    run = run_of("write")
    once, exactly, tuned = "at least once", "exactly once", "tuned"
    jvm = {"penstock-same-spark": "Penstock", "jvm": "Spark's sink"}
    groups = [
        Group(
            "4 M rows, at least once, s",
            bars(run, "write-batch", once, jvm)
            + bars(run, "write-batch", tuned, {"jvm": "Spark's sink, larger batches"})
            + bars(
                run,
                "write-batch",
                "discarding writer",
                {"penstock-same-spark": "ceiling: a writer that discards"},
                "bound",
            ),
        ),
        Group(
            "2 M structs as JSON, at least once, s",
            bars(run, "write-json", once, {**jvm, "jvm": "to_json and Spark's sink"})
            + bars(run, "write-json", tuned, {"jvm": "the same, larger batches"}),
        ),
        Group(
            "micro-batch of 20 rows from Kafka to Kafka, p50, ms",
            bars(run, "write-micro-batch", once, {"penstock": "Penstock, at least once"})
            + bars(run, "write-micro-batch", exactly, {"penstock": "Penstock, exactly once"})
            + bars(run, "write-micro-batch", once, {"jvm": "Spark's source and sink"}),
        ),
    ]
    return Chart("Spark writes", "a scale for each figure; shorter is better", groups).svg()


def growth() -> str:
    planned = [Line(text, points("scale-planning", what, PARTITIONS)) for what, text in PLANNED.items()]
    ranges = [Line(text, points("scale-ranges", what, RANGE_COUNTS)) for what, text in RANGE_STEPS.items()]
    changes = [Line(text, points("scale-group", what, MEMBERS, 1000)) for what, text in CHANGES.items()]
    cost = [Line(text, points("scale-group", what, MEMBERS)) for what, text in GROUP_STEPS.items()]
    panels = [
        Panel("Planning: CPU, ms", "partitions", planned),
        Panel("Ranges of a batch: CPU, ms", "ranges", ranges),
        Panel("Rebalance of a group in one process: time, ms", "members", changes),
        Panel("The same: CPU per member, ms", "members", cost),
    ]
    subtitle = "both scales are logarithmic; a line as steep as the dashed one is linear growth"
    measured = [Panel(each.title, each.sizes, [line for line in each.lines if line.points]) for each in panels]
    return LineChart("Cost against size", subtitle, [each for each in measured if each.lines]).svg()


def _by_codec(readers: Mapping[str, str]) -> list[Group]:
    run = run_of("speed")
    groups = []
    for codec in codecs_of(run):
        speeds = {reader: speed(run, reader, codec) for reader in readers}
        groups.append(
            Group(
                "uncompressed" if codec == "none" else codec,
                [Bar(readers[name], value, _kind(name)) for name, value in speeds.items() if value is not None],
            )
        )
    return groups


def bars(run: Run, figure: str, case: str, sides: Mapping[str, str], kind: Kind | None = None) -> list[Bar]:
    values = {side: run.value(figure, case, side) for side in sides}
    return [Bar(sides[side], value, kind or _kind(side)) for side, value in values.items() if value is not None]


def _kind(side: str) -> Kind:
    return "penstock" if "penstock" in side else "bound" if "ceiling" in side else "rival"


FIGURES: dict[str, Callable[[], str]] = {
    "docs/figures/spark-batch.svg": spark_batch,
    "docs/figures/one-thread.svg": one_thread,
    "docs/figures/streams.svg": streams,
    "docs/figures/consumer-groups.svg": consumer_groups,
    "docs/figures/typed-columns.svg": typed_columns,
    "docs/figures/skewed-replay.svg": skewed_replay,
}
if run_of("write").measured:
    FIGURES["docs/figures/spark-write.svg"] = spark_write
if has_filters():
    FIGURES["docs/figures/columns-and-filters.svg"] = filters
if run_of("search").measured or run_of("sail").measured:
    FIGURES["docs/figures/search-and-sail.svg"] = without_spark
if run_of("scale").measured:
    FIGURES["docs/figures/scale.svg"] = growth
