"""Fixtures that write to Kafka, through librdkafka: a client that shares nothing with the code under test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Producer

DELIVERY_SECONDS = 60


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
        producer = Producer(rdkafka(cluster.client_options(prefix=""), **config))
        count = send(producer, topic, records)
        assert producer.flush(DELIVERY_SECONDS) == 0, "the broker did not take all records"
        return count

    return run


@pytest.fixture
def transaction(kafka: Any) -> Callable[..., Any]:
    """`with transaction("id", commit=False) as send: send(topic, records)`: one transaction, committed or aborted."""

    @contextmanager
    def run(transactional_id: str, commit: bool = True) -> Iterator[Callable[..., int]]:
        config = rdkafka(kafka.client_options(prefix=""), **{"transactional.id": transactional_id})
        producer = Producer(config)
        producer.init_transactions(DELIVERY_SECONDS)
        producer.begin_transaction()

        def write(topic: str, records: Iterable[Rec]) -> int:
            count = send(producer, topic, records)
            assert producer.flush(DELIVERY_SECONDS) == 0
            return count

        yield write
        if commit:
            producer.commit_transaction(DELIVERY_SECONDS)
        else:
            producer.abort_transaction(DELIVERY_SECONDS)

    return run
