"""A query of an older version goes on under this one: its checkpoint, and its notes about dead letters.

`tests/golden/upgrade/capture.py` says what the older version has left behind.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from fixtures.produce import Rec
from penstock.config.source import parse_options
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster
from penstock.wire.producer.producer import Producer as OwnProducer
from support.configs import producer_settings

CAPTURED = Path(__file__).parents[1] / "golden" / "upgrade"
WAIT = 60


@pytest.fixture
def state():
    return json.loads((CAPTURED / "state.json").read_text())


@pytest.fixture
def restored(kafka, state):
    """Topics, letters and notes as the older version left them. Durable names depend on the names of the topics."""
    source, letters = state["options"]["subscribe"], state["options"]["deadLetterTopic"]
    kafka.create_topic(source, state["partitions"])
    kafka.create_topic(letters, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for topic in ("source", "letters"):
        for record in state[topic]:
            value, key = record["value"].encode("latin-1"), record["key"].encode("latin-1")
            headers = [(name, text.encode("latin-1")) for name, text in record["headers"]]
            name = source if topic == "source" else letters
            producer.produce(name, value, key, record["partition"], headers=headers)
    assert producer.flush(WAIT) == 0
    client = parse_options(kafka.client_options() | {"subscribe": source}).client
    topics = Cluster(client).metadata((source, letters)).topics
    ids = {"source": topics[source].topic_id, "letters": topics[letters].topic_id}
    for note in state["notes"]:
        place = TopicPartition(note["topic"], note["partition"])
        (transactional_id,) = (each for each in state["transactional_ids"] if each == f"{note['group']}:{place}")
        # Not librdkafka's commit: it ends the metadata with a zero byte.
        older = OwnProducer(client, producer_settings(), transactional_id)
        older.begin()
        older.commit_offsets(note["group"], {place: (note["offset"], note["metadata"].format(**ids))})
        older.commit_transaction()
    yield source, letters
    kafka.delete_topic(source)
    kafka.delete_topic(letters)


def letters_in(kafka, topic):
    """Partition and offset of the record of each letter."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([Place(topic, 0, 0)])
    found: Counter[tuple[int, int]] = Counter()
    try:
        while True:
            message = consumer.poll(WAIT)
            assert message is not None, "the end of the topic did not come"
            if message.error():
                return found
            headers = dict(message.headers())
            found[int(headers["penstock.partition"]), int(headers["penstock.offset"])] += 1
    finally:
        consumer.close()


def bad_records(records, partitions):
    """Partition and offset of each record that does not parse."""
    found, ends = set(), dict.fromkeys(range(partitions), 0)
    for record in records:
        partition = record["partition"]
        if not record["value"].endswith("}"):
            found.add((partition, ends[partition]))
        ends[partition] += 1
    return found, ends


def test_a_checkpoint_and_notes_of_the_version_before_lose_no_letter_and_repeat_none(
    spark, kafka, state, restored, produce, tmp_path
):
    source, letters = restored
    bad, ends = bad_records(state["source"], state["partitions"])
    before = letters_in(kafka, letters)
    assert 0 < len(before) < len(bad), "letters of one task of the batch to replay are missing, those of another not"
    shutil.copytree(CAPTURED / "checkpoint", tmp_path / "checkpoint")

    def run():
        """What one run of the query hands to its sink: partition and offset of each row, per batch."""
        batches = {}

        def take(batch, number):
            rows = batch.select("partition", "offset").collect()
            batches[number] = sorted((row.partition, row.offset) for row in rows)

        frame = spark.readStream.format("penstock").options(**state["options"], **kafka.client_options()).load()
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(180)
        return batches

    replayed = [(partition, offset) for partition, end in ends.items() for offset in range(end // 2, end)]
    assert run() == {1: [each for each in replayed if each not in bad]}, (
        "the batch that was not finished, and only that"
    )
    assert letters_in(kafka, letters) == Counter(dict.fromkeys(bad, 1))

    produce(source, [Rec(b"{", partition=0), Rec(b'{"id": 1}', partition=1), Rec(b"{", partition=1)])
    more = {(0, ends[0]), (1, ends[1] + 1)}
    assert run() == {2: [(1, ends[1])]}
    assert letters_in(kafka, letters) == Counter(dict.fromkeys(bad | more, 1))
    query_id = json.loads((CAPTURED / "checkpoint" / "metadata").read_text())["id"]
    client = parse_options(kafka.client_options() | {"subscribe": source}).client
    places = [TopicPartition(source, partition) for partition in ends]
    notes = Cluster(client).committed(f"penstock-letters:v2:query:{query_id}:string:json:{letters}", places)
    assert notes == {TopicPartition(source, 0): 13, TopicPartition(source, 1): 14}, "tasks know the query's id"
