"""`spark.read.format("penstock")`, as a user writes it."""

import datetime
import subprocess
import sys

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 (everybody calls it that)
from pyspark.sql.types import StructType

from fixtures.produce import Rec

pytestmark = [pytest.mark.spark, pytest.mark.broker]

BASE = 1_700_000_000_000


@pytest.fixture
def events(topic, produce):
    """Three partitions of 100 records, a second apart, every tenth with headers."""
    name = topic(partitions=3)
    produce(
        name,
        [
            Rec(
                b"value %d" % i,
                None if i % 7 == 0 else b"key %d" % i,
                [("n", b"%d" % i), ("none", None)] if i % 10 == 0 else (),
                timestamp=BASE + (i // 3) * 1000,
                partition=i % 3,
            )
            for i in range(300)
        ],
    )
    return name


@pytest.fixture
def reader(spark, kafka):
    def make(topic, **options):
        chosen = spark.read.format("penstock").options(**kafka.client_options())
        return chosen.options(**({"subscribe": topic} | options))

    return make


def failure(action) -> str:
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


def test_the_columns_are_those_of_sparks_kafka_source(reader, events):
    df = reader(events).load()
    assert df.schema == StructType.fromDDL(
        "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
    )
    with_headers = reader(events, includeHeaders="true").load()
    assert with_headers.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"


def test_every_record_arrives_once_with_all_its_parts(reader, events):
    rows = reader(events, includeHeaders="true").load().collect()
    assert len(rows) == 300
    for row in rows:
        i = row.offset * 3 + row.partition
        assert row.value == b"value %d" % i
        assert row.key == (None if i % 7 == 0 else b"key %d" % i)
        assert (row.topic, row.timestampType) == (events, 0)
        assert row.timestamp.timestamp() == BASE / 1000 + row.offset
        headers = None if row.headers is None else [(h.key, h.value) for h in row.headers]
        assert headers == ([("n", b"%d" % i), ("none", None)] if i % 10 == 0 else None)


def test_pip_install_alone_makes_the_format_known(kafka, events):
    """A new interpreter that never imports penstock: the package pyspark_penstock is found by Spark itself."""
    program = f"""
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
options = {kafka.client_options()!r}
print("rows:", spark.read.format("penstock").options(subscribe="{events}", **options).load().count())
"""
    environment = {"PYSPARK_PYTHON": sys.executable}
    import os

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, env=os.environ | environment
    )
    assert "rows: 300" in ran.stdout, ran.stderr[-2000:]


def test_register_makes_it_known_too(spark, reader, events):
    import penstock

    penstock.register(spark)
    assert reader(events).load().count() == 300


def test_a_schema_that_names_some_columns_reads_only_those(reader, events):
    df = reader(events).schema("offset long, value binary").load()
    assert df.columns == ["offset", "value"]
    assert df.where("offset = 0").count() == 3
    headers = reader(events).schema("headers array<struct<key:string,value:binary>>").load()
    assert headers.where("headers is not null").count() == 30


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("value string", "column value is binary"),
        ("offset long, payload binary", "is not a column of Kafka"),
        ("key binary NOT NULL", "Leave NOT NULL out"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(reader, events, schema, words):
    assert words in failure(lambda: reader(events).schema(schema).load().count())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffset": "earliest"}, "Did you mean startingOffsets?"),
        ({"startingOffsets": "first"}, "must be earliest, earliest-local, latest, group, a time or JSON"),
        ({"assign": '{"t": [0]}'}, "only one of subscribe, subscribePattern, assign"),
        ({"kafka.value.deserializer": "x"}, "Set keyFormat and valueFormat"),
        ({"minPartitions": "-1"}, "minPartitions = '-1': must be at least 1"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "the end cannot be the beginning"),
    ],
)
def test_a_wrong_option_fails_when_the_dataframe_is_made(reader, events, options, words):
    assert words in failure(lambda: reader(events, **options).load())
    # With a schema of the user's, Spark asks the source nothing before the first action.
    assert words in failure(lambda: reader(events, **options).schema("offset long").load().count())


def test_what_only_a_batch_refuses_fails_at_the_first_action(reader, events):
    # When the DataFrame is created, Spark does not say whether a batch or a stream follows.
    assert "a batch cannot start at the end" in failure(lambda: reader(events, startingOffsets="latest").load().count())


def test_a_missing_topic_is_named_with_the_nearest(reader, events):
    assert f"did you mean '{events}'" in failure(lambda: reader(events + "x").load().count())


def test_starting_and_ending_offsets(reader, events):
    starting = f'{{"{events}": {{"0": 10, "1": -2, "2": 99}}}}'
    ending = f'{{"{events}": {{"0": 20, "1": 5, "2": -1}}}}'
    df = reader(events, startingOffsets=starting, endingOffsets=ending).load()
    counts = {
        row.partition: (row["min(offset)"], row["max(offset)"])
        for row in df.groupBy("partition").agg(F.min("offset"), F.max("offset")).collect()
    }
    assert counts == {0: (10, 19), 1: (0, 4), 2: (99, 99)}


def test_a_time_span(reader, events):
    df = reader(events, startingTimestamp=str(BASE + 50_000), endingTimestamp=str(BASE + 60_000)).load()
    assert df.count() == 30
    assert {row.offset for row in df.collect()} == set(range(50, 60))


def test_times_as_text(reader, events):
    def text(milliseconds):
        return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).isoformat()

    df = reader(events, startingTimestamp=text(BASE + 50_000), endingTimestamp=text(BASE + 60_000)).load()
    assert {row.offset for row in df.collect()} == set(range(50, 60))


@pytest.mark.parametrize("schema", [None, "offset LONG"])
def test_a_relative_time_counts_from_the_moment_at_which_the_dataframe_is_made(reader, events, produce, schema):
    read = reader(events, endingTimestamp="-0s")
    df = (read.schema(schema) if schema else read).load()
    assert df.count() == 300
    produce(events, [Rec(b"later", partition=n % 3) for n in range(30)])
    assert df.count() == 300
    assert df.union(df).count() == 600
    assert reader(events, endingTimestamp="-0s").load().count() == 330
    assert reader(events, startingTimestamp="-1h").load().count() == 30


def test_min_partitions_makes_tasks(reader, events):
    df = reader(events, minPartitions="12").load()
    assert df.rdd.getNumPartitions() == 12
    assert df.count() == 300


def test_no_data_gives_no_rows(reader, topic):
    assert reader(topic()).load().count() == 0


def test_a_pattern_that_matches_nothing_gives_no_rows(spark, kafka):
    options = kafka.client_options() | {"subscribePattern": "nothing-matches.*"}
    assert spark.read.format("penstock").options(**options).load().count() == 0


@pytest.fixture
def pushdown(spark):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


FILTERS = [
    ("partition = 1", 100),
    ("partition in (0, 2)", 200),
    ("offset >= 90", 30),
    ("offset > 89 and offset < 95 and partition = 2", 5),
    ("offset = 7", 3),
    ("offset <= 4 or partition = 1", 110),
    ("topic = 'other'", 0),
    ("timestamp >= timestamp_millis(1700000090000)", 30),
    ("timestamp > timestamp_millis(1700000090000)", 27),
    ("timestamp < timestamp_millis(1700000090000)", 270),
    ("timestamp = timestamp_millis(1700000090000) and partition = 0", 1),
]


@pytest.mark.parametrize(("condition", "count"), FILTERS)
def test_filters_give_the_same_rows_pushed_down(pushdown, reader, events, condition, count):
    assert reader(events).load().where(condition).count() == count


@pytest.mark.parametrize(("condition", "count"), FILTERS)
def test_filters_give_the_same_rows_not_pushed_down(reader, events, condition, count):
    assert reader(events).load().where(condition).count() == count


def test_a_filter_narrows_what_is_fetched(pushdown, reader, events):
    assert reader(events).load().where("partition = 1").rdd.getNumPartitions() == 1
    late = datetime.datetime.fromtimestamp(BASE / 1000 + 98, datetime.UTC)
    df = reader(events).load().where(F.col("timestamp") >= F.lit(late)).where("partition = 0")
    assert [row.offset for row in df.collect()] == [98, 99]


def test_filters_on_offset_and_timestamp_reach_the_plan(pushdown, reader, events):
    """Spark filters again, so the right rows alone prove nothing: an empty plan is one stand-in task instead of 3."""
    for condition in ("offset > 1000", "timestamp > timestamp'2100-01-01 00:00:00'", "topic = 'other'"):
        assert reader(events).load().where(condition).rdd.getNumPartitions() == 1, condition


def test_a_filter_by_time_loses_no_row_behind_deleted_records(pushdown, reader, topic, produce, operator):
    """The broker finds the time in the first segment, where its record is gone, and says that nothing is so late."""
    name = topic(segment_ms=3_600_000)
    produce(name, [Rec(b"v", timestamp=BASE + 3_000_000), *(Rec(b"v", timestamp=BASE + i) for i in range(99))])
    produce(name, [Rec(b"v", timestamp=BASE + 7_200_000 + i) for i in range(100)])
    operator.delete_records(name, {0: 40})  # not the whole segment, which the broker would remove some time
    for chosen in (reader(name), reader(name, filterPushdown="false")):
        assert chosen.load().where("timestamp >= timestamp_millis(1700002000000)").count() == 100


def test_pushdown_can_be_switched_off(pushdown, reader, events):
    assert reader(events, filterPushdown="false").load().where("partition = 1").rdd.getNumPartitions() == 3


def test_pushdown_by_force_without_sparks_consent_says_what_to_set(reader, events):
    message = failure(lambda: reader(events, filterPushdown="true").load().where("partition = 1").count())
    assert "spark.sql.python.filterPushdown.enabled" in message


def test_an_error_in_a_task_reaches_the_user_with_its_place(reader, events, kafka):
    from kafka import KafkaAdminClient, TopicPartition

    df = reader(events).load()
    df.count()
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    admin.delete_records({TopicPartition(events, 1): 50})
    admin.close()
    starting = reader(events, startingOffsets=f'{{"{events}": 10}}').load()
    assert f"{events}-1: wanted from offset 10, the broker has offsets 50 to 100" in failure(starting.count)
    lenient = reader(events, startingOffsets=f'{{"{events}": 10}}', failOnDataLoss="false").load()
    assert lenient.count() == 90 + 50 + 90


def test_no_secret_shows_in_a_plan_or_an_error(spark, kafka, events):
    jaas = 'x.PlainLoginModule required username="me" password="hush-hush";'
    options = kafka.client_options() | {
        "subscribe": events,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas,
        "kafka.default.api.timeout.ms": "1000",
    }
    df = spark.read.format("penstock").options(**options).load()
    assert "hush" not in failure(df.count)
    assert "hush" not in df._jdf.queryExecution().toString()
