"""`df.write.format("penstock")` and `df.writeStream.format("penstock")`, as a user writes it."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 (everybody calls it that)

from fixtures.consumer import eventually
from fixtures.produce import Rec
from penstock.spark import LagListener

pytestmark = [pytest.mark.spark, pytest.mark.broker]

EXACTLY_ONCE = {"deliveryGuarantee": "exactly-once"}


@pytest.fixture
def options(kafka):
    def make(topic=None, **more):
        return {**kafka.client_options(), **({} if topic is None else {"topic": topic}), **more}

    return make


@pytest.fixture
def committed(spark, kafka):
    """The committed records of a topic."""

    def read(topic):
        reader = spark.read.format("penstock").options(**kafka.client_options())
        reader = reader.options(
            **{"subscribe": topic, "includeHeaders": "true", "kafka.isolation.level": "read_committed"}
        )
        return reader.load().collect()

    return read


def failure(action) -> str:
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_W1_and_W4_rows_arrive_with_all_their_parts(spark, topic, options, committed, guarantee):
    name = topic(partitions=3)
    rows = [
        (b"k%d" % i if i % 3 else None, b"v%d" % i if i % 5 else None, i % 3 if i % 2 else None, f"n{i}", b"h%d" % i)
        for i in range(100)
    ]
    df = spark.createDataFrame(rows, "key binary, value binary, partition int, name string, header binary")
    df = df.select(
        "key",
        "value",
        "partition",
        F.array(F.struct(F.col("name").alias("key"), F.col("header").alias("value"))).alias("headers"),
        F.timestamp_millis(F.lit(1_700_000_000_123)).alias("timestamp"),
    )
    df.write.format("penstock").options(**options(name, deliveryGuarantee=guarantee)).mode("append").save()
    found = committed(name)
    assert sorted((r.key or b"", r.value or b"", r.headers[0].key, r.headers[0].value) for r in found) == sorted(
        (key or b"", value or b"", name, header) for key, value, _, name, header in rows
    )
    wanted = {row[3]: row[2] for row in rows}
    assert all(wanted[r.headers[0].key] in (None, r.partition) for r in found)
    assert {r.timestamp.timestamp() for r in found} == {1_700_000_000.123}


def test_W1_the_topic_comes_from_the_column(spark, topic, options, committed):
    first, second = topic(partitions=1), topic(partitions=2)
    rows = [(first, "a"), (second, "b"), (first, "c")]
    df = spark.createDataFrame(rows, "topic string, value string").coalesce(1)  # order holds within a task
    df.write.format("penstock").options(**options()).mode("append").save()
    assert [row.value for row in committed(first)] == [b"a", b"c"]
    assert [row.value for row in committed(second)] == [b"b"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("CAST(id AS STRING) AS payload", "column value: is missing"),
        ("id AS value", "column value: is int64, and must be binary or string"),
        ("CAST(id AS STRING) AS value, id AS partition", "column partition: is int64, and must be int"),
    ],
)
def test_W1_wrong_columns_fail_before_anything_is_written(spark, topic, options, committed, columns, said):
    name = topic()
    df = spark.range(10).selectExpr(*columns.split(", "))
    writer = df.write.format("penstock").options(**options(name)).mode("append")
    text = failure(writer.save)
    assert said in text
    assert text.count("\n  File ") == 1  # Spark's wrapper shows the line that raised
    assert committed(name) == []


def test_save_modes_without_a_meaning_are_refused(spark, topic, options):
    writer = spark.range(1).selectExpr("'x' AS value").write.format("penstock").options(**options(topic()))
    assert "a topic cannot be overwritten" in failure(writer.mode("overwrite").save)
    for mode in ("error", "ignore"):
        assert "append" in failure(writer.mode(mode).save).lower()


def test_an_unknown_topic_fails_when_the_write_starts(spark, options):
    df = spark.range(1).selectExpr("'x' AS value")
    text = failure(df.write.format("penstock").options(**options("no-such-topic")).mode("append").save)
    assert "topic 'no-such-topic' does not exist" in text


def test_W7_a_failed_job_leaves_nothing_visible(spark, topic, options, committed):
    name = topic(partitions=2)
    df = spark.range(0, 1000, 1, 4).select(
        F.when(F.col("id") == 990, F.raise_error(F.lit("row 990"))).otherwise(F.col("id").cast("string")).alias("value")
    )
    text = failure(df.write.format("penstock").options(**options(name, **EXACTLY_ONCE)).mode("append").save)
    assert "row 990" in text
    assert committed(name) == []


def test_W7_a_batch_write_is_visible_when_it_returns(spark, topic, options, committed):
    name = topic(partitions=2)
    df = spark.range(0, 1000, 1, 4).selectExpr("CAST(id AS STRING) AS value")
    df.write.format("penstock").options(**options(name, **EXACTLY_ONCE)).mode("append").save()
    assert sorted(int(row.value) for row in committed(name)) == list(range(1000))


def start(df, options, checkpoint, **trigger):
    writer = df.writeStream.format("penstock").options(**options).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


@pytest.fixture
def source(spark, kafka, topic, produce):
    """A topic with records, and a stream that reads it."""

    def make(count=30, partitions=3, **options):
        name = topic(partitions=partitions)
        produce(name, [Rec(b"%d" % i, b"k%d" % i, partition=i % partitions) for i in range(count)])
        reader = spark.readStream.format("penstock").options(**kafka.client_options())
        return reader.options(subscribe=name, startingOffsets="earliest", **options).load()

    return make


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_W4_and_W5_a_stream_from_topic_to_topic(source, topic, options, committed, tmp_path, guarantee):
    df = source(maxOffsetsPerTrigger="10")
    target = topic(partitions=2)
    query = start(df.select("key", "value"), options(target, deliveryGuarantee=guarantee), tmp_path)
    assert query.awaitTermination(120)
    assert query.lastProgress.batchId == 2
    assert sorted(int(row.value) for row in committed(target)) == list(range(30))
    assert all(row.key == b"k" + row.value for row in committed(target))
    assert query.lastProgress.sink.numOutputRows == 10


def test_W10_the_listener_adds_up_the_rows_of_the_sink(spark, source, topic, options, tmp_path):
    listener = LagListener(prometheus=(registry := CollectorRegistry()))
    spark.streams.addListener(listener)
    try:
        df = source(maxOffsetsPerTrigger="10").select("key", "value")
        query = start(df, options(topic(partitions=2)), tmp_path, processingTime="0 seconds")
        try:
            labels = {"query": query.id}
            written = lambda: registry.get_sample_value("penstock_num_records_out_total", labels)  # noqa: E731
            eventually(lambda: written() == 30, lambda: f"30 rows, not {written()}")
        finally:
            query.stop()
    finally:
        spark.streams.removeListener(listener)
        listener.close()


def test_W6_a_batch_that_spark_did_not_record_is_not_written_twice(source, topic, options, committed, tmp_path):
    """As after a crash between the sink's commit and Spark's commit log."""
    df = source()
    target = topic(partitions=2)
    settings = options(target, **EXACTLY_ONCE)
    assert start(df.select("key", "value"), settings, tmp_path).awaitTermination(120)
    commits = [file for file in (tmp_path / "commits").iterdir() if file.name.strip(".").startswith("0")]
    for file in commits:
        file.unlink()
    assert start(df.select("key", "value"), settings, tmp_path).awaitTermination(120)
    assert sorted(int(row.value) for row in committed(target)) == list(range(30))
    assert (tmp_path / "commits" / "0").exists()


def test_W6_a_replay_with_other_rows_is_refused(source, topic, options, committed, tmp_path):
    df = source()
    target = topic(partitions=2)
    settings = options(target, **EXACTLY_ONCE)
    assert start(df.select("key", "value"), settings, tmp_path).awaitTermination(120)
    for file in (tmp_path / "commits").glob("*0*"):
        file.unlink()
    for file in (tmp_path / "commits").glob(".0*"):
        file.unlink()
    query = start(df.where("value != '7'").select("key", "value"), settings, tmp_path)
    with pytest.raises(StreamingQueryException, match="replay has other contents: 30 rows before and 29 now"):
        query.awaitTermination(120)
    assert sorted(int(row.value) for row in committed(target)) == list(range(30))


def test_W4_foreach_batch_writes_exactly_once(spark, source, topic, options, committed, tmp_path):
    df = source()
    target = topic(partitions=2)
    settings = options(target, **EXACTLY_ONCE)

    def write(batch, batch_id):
        for _ in range(2):  # as if the batch came again
            writer = batch.select("key", "value").write.format("penstock").options(**settings).mode("append")
            writer.options(batchId=batch_id, queryId="orders").save()

    query = df.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    assert sorted(int(row.value) for row in committed(target)) == list(range(30))


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ({"continuous": "1 second"}, "penstock does not support continuous"),
        ({"realTime": "5 minutes"}, "Real-Time Mode"),
    ],
    ids=["continuous", "real-time"],
)
def test_triggers_without_batches_are_refused_by_name(source, topic, options, tmp_path, trigger, said):
    with pytest.raises(PySparkException) as caught:
        start(source().select("value"), options(topic()), tmp_path, **trigger).awaitTermination(120)
    assert said.lower() in str(caught.value).lower()


def test_W2_all_columns_become_a_json_value(spark, topic, options, committed):
    name = topic()
    df = spark.sql("SELECT 'k' AS key, 7 AS id, 'x' AS name, named_struct('a', 1.5D, 'b', array(1, 2)) AS deep")
    writer = df.write.format("penstock").options(**options(name, valueFormat="json", flatten="true"))
    writer.mode("append").save()
    (row,) = committed(name)
    expected = df.select(F.to_json(F.struct("id", "name", "deep"))).first()[0]
    assert (row.key, row.value.decode()) == (b"k", expected)


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_W2_rows_that_cannot_be_encoded_become_dead_letters(spark, topic, options, committed, guarantee):
    name, letters = topic(), topic()
    df = spark.sql("SELECT named_struct('n', IF(id = 3, NULL, id)) AS value FROM range(6)")
    typed = {
        "valueFormat": "avro",
        "valueSchema": '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}',
    }
    failed = df.write.format("penstock").options(**options(topic(), **typed)).mode("append")
    text = failure(failed.save)
    assert "cannot be written: its value cannot be encoded" in text
    settings = options(name, mode="DEADLETTER", deadLetterTopic=letters, deliveryGuarantee=guarantee, **typed)
    df.write.format("penstock").options(**settings).mode("append").save()
    assert sorted(row.value for row in committed(name)) == [bytes([2 * n]) for n in (0, 1, 2, 4, 5)]
    (letter,) = committed(letters)
    assert letter.value == b'{"value":{"n":null}}'
    headers = {header.key: header.value for header in letter.headers}
    assert headers["penstock.stage"] == b"value"
    assert headers["penstock.error"] == b"UnencodableRow"
