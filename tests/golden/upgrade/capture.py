"""Captures the durable state of a version of Penstock: `PYTHONPATH=<old source> python capture.py`.

The files beside this script were written by Penstock before the query id became part of the names of dead letters.
Keep them: tests/spark/test_upgrade.py proves that newer code continues from them. A later change of durable names adds
a folder of its own with its own capture.

The query reads two partitions as JSON, with `mode=DEADLETTER`. Its first batch is finished. In its second batch, the
task of partition 1 fails after it has written its letters, and the task of partition 0 has not run: one core runs one
task after the other. So the batch is in the offset log but not in the commit log, and Spark replays it.

    checkpoint/     Spark's checkpoint: offset log, commit log, metadata with the query id
    state.json      options, records of the source topic, records of the letters topic, notes, transactional ids
    scopes.json     options of other queries, and the scope that the old code computed for each

The letters topic has its letters as readers of committed records see them. `{source}` and `{letters}` in a note stand
for topic ids. Spark does not need the checkpoint's checksum files, so they are left out.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock import EmbeddedKafka

HERE = Path(__file__).parent
SOURCE, LETTERS = "golden-orders", "golden-letters"
PARTITIONS = 2
PREFIX = "penstock-letters:"
BATCHES = (range(12), range(12, 24))
FAILS_AT = 12
"""From this id on, a row of partition 1 fails its task. By then the Python worker has ended, letters included."""
WAIT = 60

OPTIONS = {
    "subscribe": SOURCE,
    "kafka.group.id": "golden-group",
    "startingOffsets": "earliest",
    "keyFormat": "string",
    "valueFormat": "json",
    "valueSchema": "id BIGINT, price DECIMAL(8,2), to STRUCT<city: STRING>",
    "mode": "DEADLETTER",
    "deadLetterTopic": LETTERS,
}

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SCOPES: list[dict[str, str]] = [
    OPTIONS,
    {"subscribe": "a,b", "valueFormat": "json", "valueSchema": "id BIGINT", "timeZone": "Europe/Berlin"},
    {"subscribePattern": "orders-.*", "keyFormat": "string", "valueFormat": "raw"},
    {"assign": '{"a": [0, 2], "b": [1]}', "valueFormat": "avro", "valueSchema": json.dumps(AVRO)},
    {"assign": '{"a": [7]}', "valueFormat": "string"},
    {"subscribe": "a", "valueFormat": "protobuf", "valueSchema": "orders.proto", "kafka.group.id": 'it\'s "g" \\ é'},
    {"subscribe": "a", "valueFormat": "golden_deserializer:Lines"},
    {"subscribe": "a", "valueFormat": "json", "valueSchema": "id BIGINT, tags ARRAY<STRING>", "flatten": "true"},
]


def value_of(number: int) -> bytes:
    if number % 4 >= 2:  # bad records in both partitions
        return b'{"id": %d, "price": ' % number
    return json.dumps({"id": number, "price": number + 0.25, "to": {"city": "Ulm"}}).encode()


def produce(bootstrap: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(SOURCE, value_of(number), b"k%d" % number, number % PARTITIONS)
    producer.flush()


def read(bootstrap: str, topic: str, partition: int) -> list[dict[str, Any]]:
    """The committed records of a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "capture",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while True:
        message = consumer.poll(WAIT)
        assert message is not None, f"{topic}-{partition} has no end"
        if message.error():
            break
        found.append(
            {
                "partition": partition,
                "key": text(message.key()),
                "value": text(message.value()),
                "headers": [[name, text(value)] for name, value in message.headers() or []],
            }
        )
    consumer.close()
    return found


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def notes(admin: AdminClient, topic_ids: dict[str, str]) -> list[dict[str, Any]]:
    """The committed offsets of the private groups."""
    listed = admin.list_consumer_groups(request_timeout=WAIT).result(WAIT).valid
    found = []
    for group in sorted(each.group_id for each in listed if each.group_id.startswith(PREFIX)):
        (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        for place in future.result(WAIT).topic_partitions:
            metadata = place.metadata
            for topic, name in ((SOURCE, "{source}"), (LETTERS, "{letters}")):
                metadata = metadata.replace(topic_ids[topic], name)
            found.append(
                {
                    "group": group,
                    "topic": place.topic,
                    "partition": place.partition,
                    "offset": place.offset,
                    "metadata": metadata,
                }
            )
    return found


def topic_ids(admin: AdminClient) -> dict[str, str]:
    described = admin.describe_topics(TopicCollection([SOURCE, LETTERS]), request_timeout=WAIT)
    encoded = {topic: str(future.result(WAIT).topic_id) for topic, future in described.items()}
    return {topic: str(uuid.UUID(bytes=base64.urlsafe_b64decode(each + "=="))) for topic, each in encoded.items()}


def transactional_ids(bootstrap: str) -> list[str]:
    """The keys of the coordinator's topic: a version of two bytes, a length of two bytes, the id."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "capture",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    topic = "__transaction_state"
    partitions = consumer.list_topics(topic, WAIT).topics[topic].partitions
    found = set()
    for partition in partitions:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(WAIT)
            assert message is not None
            if message.error():
                break
            if message.key():
                found.add(message.key()[4:].decode())
    consumer.close()
    return sorted(each for each in found if each.startswith(PREFIX))


def run(frame: DataFrame, checkpoint: Path, output: Path) -> None:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(str(output))
    query.awaitTermination(300)


def scopes() -> list[dict[str, Any]]:
    """The scopes, computed by the old code."""
    from penstock.formats.resolve import resolve_formats

    # The names of that version.
    parse_options = importlib.import_module("penstock.options").parse_options
    scope_of = importlib.import_module("penstock.spark.stream")._scope_of

    sys.path.insert(0, str(HERE))
    os.chdir(HERE)
    found = []
    for options in SCOPES:
        parsed = parse_options(options | {"kafka.bootstrap.servers": "localhost:9092"})
        plan = resolve_formats(parsed.formats, None, lambda column, count: []).plan()
        found.append({"options": options, "scope": scope_of(parsed, plan)})
    return found


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as scratch, EmbeddedKafka() as kafka:
        bootstrap = kafka.bootstrap_servers
        kafka.create_topic(SOURCE, PARTITIONS)
        kafka.create_topic(LETTERS, 1)
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.local.dir", scratch)
        spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        checkpoint, output = Path(scratch, "checkpoint"), Path(scratch, "output")
        options = OPTIONS | {"kafka.bootstrap.servers": bootstrap}
        frame = spark.readStream.format("penstock").options(**options).load()
        produce(bootstrap, BATCHES[0])
        run(frame, checkpoint, output)
        produce(bootstrap, BATCHES[1])
        fails = (F.col("partition") == 1) & (F.col("value.id") >= FAILS_AT)
        failing = frame.where(F.when(fails, F.raise_error(F.lit("stopped by capture.py"))).isNull())
        stopped = False
        try:
            run(failing, checkpoint, output)
        except StreamingQueryException as error:
            stopped = "stopped by capture.py" in str(error)
        assert stopped, "the second batch did not fail, or for another reason"
        spark.stop()
        time.sleep(2)  # the coordinator writes its markers after its answer
        admin = AdminClient({"bootstrap.servers": bootstrap})
        state = {
            "options": OPTIONS,
            "partitions": PARTITIONS,
            "source": [record for p in range(PARTITIONS) for record in read(bootstrap, SOURCE, p)],
            "letters": read(bootstrap, LETTERS, 0),
            "notes": notes(admin, topic_ids(admin)),
            "transactional_ids": transactional_ids(bootstrap),
        }
        last = sorted(note["offset"] for note in state["notes"])
        assert last == [len(BATCHES[0]) // 2, len(BATCHES[0])], f"one partition has its letters, the other not: {last}"
        (HERE / "state.json").write_text(json.dumps(state, indent=1) + "\n")
        ignore = shutil.ignore_patterns("*.crc", "*.tmp")
        shutil.rmtree(HERE / "checkpoint", ignore_errors=True)
        shutil.copytree(checkpoint, HERE / "checkpoint", ignore=ignore)
    (HERE / "scopes.json").write_text(json.dumps(scopes(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
