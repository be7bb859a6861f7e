"""Fixtures that write to Kafka, through librdkafka: a client that shares nothing with the code under test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

DELIVERY_SECONDS = 120
TOGETHER = {"linger.ms": 1000}
"""What is written at once goes out at once, in as few batches as it takes, however slowly it was handed over: a flush
waits for no more."""


@dataclass(frozen=True)
class Rec:
    """A record as a test writes and expects it."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default_factory=tuple)
    timestamp: int = 0
    partition: int = 0


def rdkafka(options: dict[str, str], **more: Any) -> dict[str, Any]:
    """librdkafka's configuration from the options an embedded broker gives (PLAINTEXT only: tests write there)."""
    return {"bootstrap.servers": options["bootstrap.servers"], "linger.ms": 5, "enable.idempotence": True, **more}


def send(producer: Producer, topic: str, records: Iterable[Rec]) -> int:
    count = 0
    for record in records:
        while True:
            try:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    timestamp=record.timestamp,
                    partition=record.partition,
                )
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
    return count


@pytest.fixture
def produce(kafka: Any) -> Callable[..., int]:
    """`produce(topic, records, **{"compression.type": "lz4"})` writes and waits until the broker has it all."""

    def run(topic: str, records: Iterable[Rec], cluster: Any = kafka, **config: Any) -> int:
        producer = Producer(rdkafka(cluster.client_options(prefix=""), **(TOGETHER | config)))
        count = send(producer, topic, records)
        assert producer.flush(DELIVERY_SECONDS) == 0, "the broker did not take all records"
        return count

    return run


def log_ends(options: dict[str, str], places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Where logs end, whatever is committed of them."""
    config = {"group.id": "nobody", "isolation.level": "read_uncommitted"}
    consumer = Consumer(config | {"bootstrap.servers": options["bootstrap.servers"]})
    try:
        return {
            place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=DELIVERY_SECONDS)[1]
            for place in places
        }
    finally:
        consumer.close()


@pytest.fixture
def transaction(kafka: Any) -> Callable[..., Any]:
    """`with transaction("id", commit=False) as send: send(topic, records)`: one transaction, committed or aborted.

    Its markers are written when the block is left: a broker says before that that the transaction is over, and whoever
    writes then may be quicker than they are.
    """

    @contextmanager
    def run(transactional_id: str, commit: bool = True) -> Iterator[Callable[..., int]]:
        options = kafka.client_options(prefix="")
        producer = Producer(rdkafka(options, **TOGETHER, **{"transactional.id": transactional_id}))
        places: set[tuple[str, int]] = set()
        producer.init_transactions(DELIVERY_SECONDS)
        producer.begin_transaction()

        def write(topic: str, records: Iterable[Rec]) -> int:
            records = list(records)
            places.update((topic, record.partition) for record in records)
            count = send(producer, topic, records)
            assert producer.flush(DELIVERY_SECONDS) == 0
            return count

        yield write
        before = log_ends(options, places)
        if commit:
            producer.commit_transaction(DELIVERY_SECONDS)
        else:
            producer.abort_transaction(DELIVERY_SECONDS)
        deadline = time.monotonic() + DELIVERY_SECONDS
        while any(end <= before[place] for place, end in log_ends(options, places).items()):
            assert time.monotonic() < deadline, "the broker has written no marker"

    return run
