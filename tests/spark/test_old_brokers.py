"""Spark on brokers of several Kafka versions: batch and stream, read and written exactly once.

.venv/bin/python -m pytest -m old_brokers tests/spark/test_old_brokers.py -k 2.8.2
"""

from __future__ import annotations

import pytest

from fixtures.produce import Rec
from support.old_brokers import VERSIONS, old_broker

pytestmark = [pytest.mark.old_brokers, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(600)]

COUNT = 1000


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request):
    with old_broker(request.param) as cluster:
        yield cluster


@pytest.fixture
def source(topic, produce):
    name = topic(partitions=3)
    produce(name, [Rec(b"%d" % n, b"key %d" % n, partition=n % 3) for n in range(COUNT)])
    return name


@pytest.fixture
def committed(spark, kafka):
    """The committed values of a topic, as numbers."""

    def read(name):
        options = kafka.client_options() | {"subscribe": name, "kafka.isolation.level": "read_committed"}
        return sorted(int(row.value) for row in spark.read.format("penstock").options(**options).load().collect())

    return read


def test_W7_batch_writes_are_visible_once_with_and_without_a_batch_id(spark, kafka, source, topic, committed):
    rows = spark.read.format("penstock").options(**kafka.client_options(), subscribe=source).load()
    plain, named = topic(partitions=2), topic(partitions=2)
    for target, more in ((plain, {}), (named, {"queryId": f"load-{named}", "batchId": "1"})):
        for _ in range(2):
            write = rows.select("key", "value").write.format("penstock").options(**kafka.client_options())
            write.options(topic=target, deliveryGuarantee="exactly-once", **more).mode("append").save()
    assert committed(plain) == sorted([*range(COUNT), *range(COUNT)])
    assert committed(named) == list(range(COUNT))  # the second write found the notes of the first


def test_W5_a_stream_writes_each_row_once_over_many_batches_and_a_restart(
    spark, kafka, source, topic, produce, committed, tmp_path
):
    target = topic(partitions=2)

    def run():
        stream = spark.readStream.format("penstock").options(**kafka.client_options(), subscribe=source)
        rows = stream.options(startingOffsets="earliest", maxOffsetsPerTrigger="300").load().select("key", "value")
        sink = rows.writeStream.format("penstock").options(**kafka.client_options(), topic=target)
        sink = sink.options(deliveryGuarantee="exactly-once", checkpointLocation=str(tmp_path))
        query = sink.trigger(availableNow=True).start()
        assert query.awaitTermination(300)

    run()
    assert committed(target) == list(range(COUNT))
    produce(source, [Rec(b"%d" % n, partition=n % 3) for n in range(COUNT, COUNT + 500)])
    # As after a driver that died before Spark recorded its last batch.
    (newest := max((tmp_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name))).unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    run()
    assert committed(target) == list(range(COUNT + 500))
