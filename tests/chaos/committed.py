"""The records of a topic that readers of committed records find, read with librdkafka."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from chaos.processes import until

SECONDS = 120


def committed(kafka: Any, topic: str) -> Counter[str]:
    """The committed values, with their number of occurrences."""
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": uuid.uuid4().hex,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    found: Counter[str] = Counter()
    consumer = Consumer(config)
    try:
        unread = set(partitions(kafka, topic))
        consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])
        while unread:
            message = consumer.poll(SECONDS)
            assert message is not None, f"librdkafka did not reach the end of {topic} {unread}"
            error = message.error()
            if error is None:
                found[message.value().decode()] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
            else:
                assert error.retriable() or error.code() == KafkaError._ALL_BROKERS_DOWN, error
        return found
    finally:
        consumer.close()


def await_no_open_transaction(kafka: Any, topic: str, seconds: float) -> None:
    """Wait until no transaction holds back readers."""

    def held_back() -> dict[int, tuple[int, int]]:
        stable = ends(kafka, topic, IsolationLevel.READ_COMMITTED)
        last = ends(kafka, topic, IsolationLevel.READ_UNCOMMITTED)
        return {each: (stable[each], last[each]) for each in last if stable[each] != last[each]}

    assert until(lambda: not held_back(), seconds, 0.5), f"open transactions in {topic}: {held_back()}"


def ends(kafka: Any, topic: str, isolation: IsolationLevel) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions(kafka, topic)}
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=SECONDS)
    return {place.partition: future.result(SECONDS).offset for place, future in answers.items()}


def partitions(kafka: Any, topic: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    return sorted(admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions)
