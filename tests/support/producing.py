"""A producer with an encoder, and what is in a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from penstock._kernel import Encoder
from penstock.config.source import parse_options
from penstock.planner.batch import plan_batch
from penstock.wire.api.message import EncodedRequest
from penstock.wire.client_config import ClientConfig
from penstock.wire.producer.producer import Producer
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.pool import POOL
from support.configs import producer_settings
from support.encoded_batches import FakeEncoder
from support.reading import range_reader

TIMESTAMP = 1_700_000_000_000


def client_of(kafka: Any, **changed: str) -> ClientConfig:
    options = {f"kafka.{name.replace('_', '.')}": value for name, value in changed.items()}
    return parse_options(kafka.client_options() | {"subscribe": "t"} | options).client


class Writing:
    """A producer and its encoder, used as a writer does."""

    def __init__(self, producer: Producer, **settings: Any) -> None:
        self.producer = producer
        self.encoder = Encoder(
            **{"batch_size": 16 << 10, "max_record_size": 64 << 20, "buffer_size": 32 << 20} | settings
        )
        self.begin()

    def begin(self) -> None:
        """Take a new identity, with a new encoder if batches are open."""
        self.producer.begin()
        self.adopt()

    def adopt(self) -> None:
        """Encode for the producer's current identity."""
        self.encoder.set_producer(*self.producer.identity, self.producer.transactional_id is not None)

    def write(self, topic: str, values: Sequence[bytes], partition: int | None = None) -> None:
        """Encode and send. The rows of one call are closed into batches."""
        count, available = self.producer.partition_count(topic)
        self.encoder.add_topic(topic, count, available)
        rows = {"value": pa.array(values, pa.binary())}
        if partition is not None:
            rows["partition"] = pa.array([partition] * len(values), pa.int32())
        self.producer.send_all(self.encoder.append(pa.record_batch(rows), topic=topic, timestamp=TIMESTAMP))
        self.producer.send_all(self.encoder.flush())

    def deliver(self, topic: str, values: Sequence[bytes], partition: int | None = None) -> None:
        """Write and flush."""
        self.write(topic, values, partition)
        self.producer.flush()


@contextmanager
def writing(
    client: ClientConfig, transactional_id: str | None = None, encoder: dict[str, Any] | None = None, **settings: Any
) -> Iterator[Writing]:
    with Producer(client, producer_settings(**settings), transactional_id) as producer:
        yield Writing(producer, **encoder or {})


@contextmanager
def batch_by_batch(client: ClientConfig) -> Iterator[Callable[[str, int, Sequence[bytes], int], None]]:
    """`append(topic, partition, values, timestamp)` writes one batch, with any timestamp, and waits for it."""
    with Producer(client, producer_settings()) as producer:
        encoder = FakeEncoder()
        encoder.set_producer(*producer.begin(), False)

        def append(topic: str, partition: int, values: Sequence[bytes], timestamp: int) -> None:
            producer.send(encoder.batch(topic, partition, values, timestamp=timestamp))
            producer.flush()

        yield append


class LateRequests:
    """Keeps the Produce requests of this process back, as a slow network does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._honest = Connection.send
        self._held: list[EncodedRequest] = []
        self._holds = False

        def send(connection: Connection, request: EncodedRequest, timeout: float) -> int:
            if self._holds and request.name == "ProduceRequest":
                self._held.append(request)
                return 0
            return self._honest(connection, request, timeout)

        monkeypatch.setattr(Connection, "send", send)

    def hold(self) -> None:
        self._holds = True

    def arrive(self, client: ClientConfig) -> list[int]:
        """Send them to the first broker. Returns its error codes."""
        self._holds = False
        host, _, port = client.bootstrap_text.partition(":")
        connection = POOL.acquire(client, host, int(port), 60.0, lambda: None)
        answers = [connection.call(request, 60.0) for request in self._held]
        POOL.release(connection)
        return [
            each.error_code for answer in answers for topic in answer.responses for each in topic.partition_responses
        ]


def values_in(kafka: Any, topic: str, committed: bool = True) -> dict[int, list[bytes]]:
    """By partition: the values of all records, in order."""
    level = "read_committed" if committed else "read_uncommitted"
    options = parse_options(kafka.client_options() | {"subscribe": topic, "kafka.isolation.level": level})
    found: dict[int, list[bytes]] = {}
    for range_ in plan_batch(options):
        for batch in range_reader(range_, ["value"], options.client):
            found.setdefault(range_.partition, []).extend(batch.column("value").to_pylist())
    return found
