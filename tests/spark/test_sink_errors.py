"""Rows and clusters that the sink cannot write to: a clear error within its time-out, and nothing half-visible."""

from __future__ import annotations

import time

import pytest
from pyspark.errors import PySparkException

from penstock import read_batches

pytestmark = [pytest.mark.spark, pytest.mark.broker]

EXACTLY_ONCE = {"deliveryGuarantee": "exactly-once"}


def failure(df, options) -> str:
    with pytest.raises(PySparkException) as caught:
        df.write.format("penstock").options(**options).mode("append").save()
    return str(caught.value)


@pytest.fixture
def visible(kafka):
    def count(topic: str) -> int:
        options = {**kafka.client_options(), "subscribe": topic, "kafka.isolation.level": "read_committed"}
        return sum(batch.num_rows for batch in read_batches(options, columns=["offset"]))

    return count


def test_W8_a_record_above_the_topics_limit(spark, kafka, topic, visible):
    name = topic(partitions=2, max_message_bytes=20_000)
    df = spark.sql("SELECT concat('k', id) AS key, repeat('x', IF(id = 70, 30000, 100)) AS value FROM range(100)")
    text = failure(df, {**kafka.client_options(), "topic": name, **EXACTLY_ONCE})
    assert "row " in text
    assert f"for topic '{name}'" in text
    assert "with key b'k70'" in text
    assert "max.message.bytes" in text
    assert visible(name) == 0


def test_W8_a_record_above_the_largest_request(spark, kafka, topic, visible):
    name = topic()
    df = spark.sql("SELECT 'k' AS key, repeat('x', 2000000) AS value")
    text = failure(df, {**kafka.client_options(), "topic": name, **EXACTLY_ONCE})
    assert "max.request.size" in text
    assert visible(name) == 0


def test_W8_a_partition_that_does_not_exist(spark, kafka, topic, visible):
    name = topic(partitions=2)
    df = spark.sql("SELECT 'k' AS key, 'v' AS value, CAST(id AS INT) AS partition FROM range(5)")
    text = failure(df, {**kafka.client_options(), "topic": name, **EXACTLY_ONCE})
    assert "partition" in text
    assert visible(name) == 0


def test_W8_brokers_that_are_gone(spark):
    df = spark.sql("SELECT 'v' AS value")
    started = time.monotonic()
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "kafka.default.api.timeout.ms": "2000"}
    text = failure(df, options)
    assert "127.0.0.1:1" in text
    assert "Check kafka.bootstrap.servers" in text
    assert time.monotonic() - started < 60
