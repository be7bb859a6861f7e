"""Captures golden batches from a real broker: `python capture.py HOST:PORT`.

The broker should compact often (`log.cleaner.backoff.ms=200`). librdkafka (`pip install confluent-kafka`, needed only
here) produces the records and reads the expected ones, so that the kernel is compared with another reader. A topic's
`compression.type` makes the broker compress: so the captures contain both Java's codecs (snappy in xerial's framing)
and librdkafka's (raw snappy).

Each capture is a pair. NAME.bin is the records field of one fetch response from offset 0. NAME.json has the high
watermark and the aborted transactions of the response, and the records that a reader must find.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock._kernel import scan
from penstock.wire.api.fetch import FetchPosition
from penstock.wire.api.fetch_client import PartitionFetch
from penstock.wire.transport.connection import Connection
from support.configs import client_config

HERE = Path(__file__).parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIME = 1_700_000_000_000
LARGEST = 50_000
PATIENCE = 90.0

SHAPES: list[dict[str, Any]] = [
    {"key": b"plain", "value": b"value"},
    {"key": None, "value": b"no key"},
    {"key": b"tombstone", "value": None},
    {"key": None, "value": None},
    {"key": b"", "value": b"empty key"},
    {"key": b"empty value", "value": b""},
    {"key": b"", "value": b""},
    {"key": b"one header", "value": b"v", "headers": [("h", b"x")]},
    {"key": b"headers", "value": b"v", "headers": [("a", None), ("b", b""), ("a", b"again"), ("", b"no name")]},
    {"key": "clé".encode(), "value": "größe 水".encode(), "headers": [("naïve 水", "水".encode())]},
    {"key": bytes(range(256)), "value": bytes(reversed(range(256)))},
    {"key": b"long", "value": b"the pipe that carries water under pressure " * 150},
]


class Capture:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.run = uuid.uuid4().hex[:6]

    def topic(self, name: str, **config: str) -> str:
        full = f"golden-{name}-{self.run}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        # A segment is as old as its records, and these are old: the default would roll one at the first marker.
        settings.setdefault("segment.ms", str(2**40))
        for future in self.admin.create_topics([NewTopic(full, 1, 1, config=settings)]).values():
            future.result()
        return full

    def producer(self, **config: Any) -> Producer:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 50, **settings})

    def send(self, producer: Producer, topic: str, records: list[dict[str, Any]], time_from: int = TIME) -> None:
        """Send one batch per call."""
        for at, content in enumerate(records):
            producer.produce(topic, partition=0, timestamp=time_from + at, **content)
        producer.flush()

    def save(self, name: str, topic: str, *, committed: bool = False) -> None:
        fetched, records = self.fetch(topic, committed), self.read(topic, committed)
        data = bytes(fetched.records)
        assert len(data) < LARGEST, f"{name} has {len(data)} bytes"
        assert scan(data, 0) == fetched.high_watermark, f"{name} ends at {scan(data, 0)}"
        expected = {
            "high_watermark": fetched.high_watermark,
            "aborted": fetched.aborted if committed else None,
            "records": records,
        }
        (HERE / f"{name}.bin").write_bytes(data)
        (HERE / f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n")
        print(f"{name}: {len(data)} bytes, {len(records)} records, aborted {expected['aborted']}")  # noqa: T201

    def fetch(self, topic: str, committed: bool) -> Any:
        host, port = self.bootstrap.rsplit(":", 1)
        config = client_config(bootstrap=((host, int(port)),), read_committed=committed)
        connection = Connection(host, int(port), config, 10)
        try:
            fetch = PartitionFetch(connection, None)
            offset, data = 0, b""
            while True:
                fetch.ask(FetchPosition(topic, 0, offset), 1 << 20)
                (partition,) = fetch.answer(bytearray(1 << 21), 10.0).partitions
                assert partition.error_code == 0
                # One response holds at most one segment; a compacted topic needs several.
                data += bytes(partition.records)
                assert not (offset and partition.aborted), "one response does not have all aborted transactions"
                offset = scan(partition.records, offset)
                if offset >= partition.high_watermark:
                    partition.records = memoryview(data)
                    return partition
        finally:
            connection.close()

    def read(self, topic: str, committed: bool) -> list[dict[str, Any]]:
        """The records that librdkafka reads."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.run,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while True:
            message = consumer.poll(10)
            assert message is not None, "librdkafka did not reach the end of the partition"
            if message.error():
                if message.error().code() == -191:  # the end of the partition
                    break
                raise KafkaException(message.error())
            kind, timestamp = message.timestamp()
            found.append(
                {
                    "offset": message.offset(),
                    "key": shown(message.key()),
                    "value": shown(message.value()),
                    "timestamp": timestamp,
                    "timestampType": kind - 1,  # librdkafka: 1 CreateTime, 2 LogAppendTime
                    "headers": [[name, shown(value)] for name, value in message.headers() or []] or None,
                }
            )
        consumer.close()
        return found


def shown(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def shapes(capture: Capture) -> None:
    for codec in CODECS:
        by_client = capture.topic(f"librdkafka-{codec}", compression_type="producer")
        by_broker = capture.topic(f"broker-{codec}", compression_type="uncompressed" if codec == "none" else codec)
        for topic, packed in ((by_client, codec), (by_broker, "none")):
            producer = capture.producer(compression_type=packed)
            capture.send(producer, topic, SHAPES)
            capture.send(producer, topic, SHAPES[::-1], TIME + 86_400_000)
            capture.send(producer, topic, SHAPES[:1])
        capture.save(f"librdkafka-{codec}", by_client)
        capture.save(f"broker-{codec}", by_broker)


def log_append_time(capture: Capture) -> None:
    for codec in ("none", "zstd"):
        topic = capture.topic(f"append-{codec}", message_timestamp_type="LogAppendTime")
        producer = capture.producer(compression_type=codec)
        for _ in range(3):
            capture.send(producer, topic, SHAPES)
        capture.save(f"log-append-time-{codec}", topic)


def transactions(capture: Capture) -> None:
    topic = capture.topic("transactions")
    first, second = (capture.producer(transactional_id=f"{capture.run}-{at}") for at in (1, 2))
    for producer in (first, second):
        producer.init_transactions()

    def batch(producer: Producer, text: bytes) -> None:
        capture.send(producer, topic, [{"key": b"%d" % at, "value": text} for at in range(3)])

    batch(capture.producer(), b"outside of any transaction")
    first.begin_transaction()
    batch(first, b"committed")
    second.begin_transaction()
    batch(second, b"aborted, between committed ones")
    batch(first, b"committed")
    first.commit_transaction()
    batch(second, b"aborted")
    second.abort_transaction()
    second.begin_transaction()
    batch(second, b"committed after an abort of the same producer")
    second.commit_transaction()
    first.begin_transaction()
    batch(first, b"aborted after a commit of the same producer")
    first.abort_transaction()
    batch(capture.producer(compression_type="lz4"), b"outside of any transaction")
    capture.save("transactions-committed", topic, committed=True)
    capture.save("transactions-uncommitted", topic)


def compacted(capture: Capture) -> None:
    for codec in ("none", "zstd"):
        topic = capture.topic(
            f"compacted-{codec}",
            cleanup_policy="compact",
            segment_ms="1000",
            min_cleanable_dirty_ratio="0.01",
            delete_retention_ms="0",
            max_compaction_lag_ms="1000",
        )
        producer = capture.producer(compression_type=codec)
        # Timestamps a minute apart roll a segment per batch; all but the last one are compacted.
        for turn in range(4):
            keys = range(turn * 2, 10)
            values = [{"key": b"%d" % key, "value": b"turn %d " % turn * 20} for key in keys]
            capture.send(producer, topic, values, TIME + turn * 60_000)
        # The last batch of an idempotent producer outlives its records, because it holds the sequence numbers: it stays
        # without a record when another producer writes the same keys.
        once = capture.producer(compression_type=codec, enable_idempotence=True)
        capture.send(once, topic, [{"key": b"%d" % key, "value": b"once"} for key in range(5)], TIME + 300_000)
        values = [{"key": b"%d" % key, "value": b"again " * 20} for key in range(5)]
        capture.send(producer, topic, values, TIME + 360_000)
        capture.send(producer, topic, [{"key": b"last", "value": b"rolls"}], TIME + 420_000)
        deadline = time.monotonic() + PATIENCE
        while any(record["value"] == b"once".hex() for record in capture.read(topic, False)):
            assert time.monotonic() < deadline, "the broker did not compact"
            time.sleep(1)
        capture.save(f"compacted-{codec}", topic)


def main() -> None:
    capture = Capture(sys.argv[1])
    shapes(capture)
    log_append_time(capture)
    transactions(capture)
    compacted(capture)


if __name__ == "__main__":
    main()
