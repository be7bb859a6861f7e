"""Batches of the kernel's encoder, through a real broker: librdkafka and Kafka's Java code read them."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from fixtures.produce import Rec
from penstock._kernel import Encoder
from penstock.wire.producer.producer import Producer
from support.configs import client_config, producer_settings

NOW = 1_700_000_000_000
PARTITIONS = 3
DEADLINE = 60.0
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Values of up to 100 kB, so that the blocks of lz4 and snappy end in the middle of a record.
ROWS = [
    Rec(
        key=None if at % 11 == 0 else b"key %d" % at,
        value=None if at % 7 == 0 else (b"%d," % at) * (20_000 if at % 50 == 1 else at % 40),
        headers=[(f"h{each}", None if each else b"\xff%d" % at) for each in range(at % 3)],
        timestamp=NOW + (at * 37) % 1000 - 500,
    )
    for at in range(400)
]


def write(kafka: Any, topic: str, compression: str, level: int | None = None) -> dict[int, list[Rec]]:
    """Encode ROWS and send the batches. Returns the rows of each partition as the encoder placed them."""
    host, port = kafka.bootstrap_servers.split(",")[0].rsplit(":", 1)
    config = client_config(bootstrap=((host, int(port)),))
    encoder = Encoder(
        compression=compression, level=level, batch_size=300_000, max_record_size=1 << 20, buffer_size=1 << 25
    )
    encoder.add_topic(topic, PARTITIONS)
    batch = pa.record_batch(
        {
            "key": pa.array([row.key for row in ROWS], pa.binary()),
            "value": pa.array([row.value for row in ROWS], pa.binary()),
            "timestamp": pa.array([row.timestamp for row in ROWS], pa.timestamp("ms", "UTC")),
            "headers": pa.array([row.headers for row in ROWS], HEADERS),
        }
    )
    placed: dict[int, list[Rec]] = {}
    with Producer(config, producer_settings()) as producer:
        identity = producer.begin()
        encoder.set_producer(identity.producer_id, identity.epoch, False)
        batches = encoder.append(batch, topic=topic, timestamp=NOW) + encoder.flush()
        assert len(batches) > PARTITIONS
        producer.send_all(batches)
        producer.flush()
        for each in batches:
            single = [each]
            while single:
                found = single.pop()
                if found.count > 1:
                    single += reversed(found.split())
                else:
                    placed.setdefault(found.partition, []).append(ROWS[found.first_row])
    return placed


def by_librdkafka(kafka: Any, topic: str, count: int) -> dict[int, list[Rec]]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "nobody", "check.crcs": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[Rec]] = {}
    deadline = time.monotonic() + DEADLINE
    try:
        while sum(map(len, found.values())) < count:
            assert time.monotonic() < deadline, f"librdkafka read {sum(map(len, found.values()))} of {count} records"
            for message in consumer.consume(count, timeout=1.0):
                assert message.error() is None, message.error()
                record = Rec(message.value(), message.key(), message.headers() or [], message.timestamp()[1])
                found.setdefault(message.partition(), []).append(record)
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("compression", CODECS)
def test_W9_librdkafka_reads_what_was_written_in_order(kafka: Any, topic: Any, compression: str) -> None:
    name = topic(partitions=PARTITIONS)
    placed = write(kafka, name, compression)
    assert by_librdkafka(kafka, name, len(ROWS)) == placed


@pytest.mark.parametrize(
    ("compression", "level"),
    [*((codec, None) for codec in CODECS), ("gzip", 9), ("lz4", 1), ("lz4", 17), ("zstd", -5), ("zstd", 19)],
)
def test_kafkas_java_code_reads_what_was_written(kafka: Any, topic: Any, compression: str, level: int | None) -> None:
    # A broker that must change the codec decompresses each batch, validates each record and writes them again.
    other = "gzip" if compression == "none" else "uncompressed"
    name = topic(partitions=PARTITIONS, compression_type=other)
    placed = write(kafka, name, compression, level)
    assert by_librdkafka(kafka, name, len(ROWS)) == placed


def test_W3_keys_go_where_librdkafka_puts_them_with_javas_partitioner(kafka: Any, topic: Any, produce: Any) -> None:
    ours, theirs = topic(partitions=PARTITIONS), topic(partitions=PARTITIONS)
    placed = write(kafka, ours, "none")
    keyed = [Rec(row.value, row.key, partition=-1) for row in ROWS if row.key is not None]
    produce(theirs, keyed, partitioner="murmur2")
    found = by_librdkafka(kafka, theirs, len(keyed))
    for partition in range(PARTITIONS):
        assert [r.key for r in found[partition]] == [r.key for r in placed[partition] if r.key is not None]
