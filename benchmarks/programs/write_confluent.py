"""Rows into Kafka with confluent-kafka: a loop around `produce`, or `produce_batch` with many messages per call.

The keys and values are Python objects before the clock starts. Programs that have an Arrow table also pay for that
conversion, which the answer has as `convert_seconds`.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from confluent_kafka import Producer
from serving import serve_requests
from written_rows import rows_table

FLUSH_SECONDS = 300.0
BATCH = 10_000
"""Messages per call of `produce_batch`."""

table = functools.cache(rows_table)


def run(request: dict[str, Any]) -> dict[str, Any]:
    rows = table(request["rows"])
    began = time.perf_counter()
    keys, values = (rows[name].to_pylist() for name in ("key", "value"))
    convert_seconds = time.perf_counter() - began
    producer = Producer({"bootstrap.servers": request["bootstrap"], **request["settings"]})
    producer.list_topics(request["topic"])  # connects
    began = time.perf_counter()
    if request["many"]:
        messages = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
        convert_seconds += time.perf_counter() - began
        began = time.perf_counter()
        _produce_batches(producer, request["topic"], messages)
    else:
        _produce(producer, request["topic"], keys, values)
    left = producer.flush(FLUSH_SECONDS)
    seconds = time.perf_counter() - began
    if left:
        raise RuntimeError(f"{left} records were not delivered within {FLUSH_SECONDS:g} s")
    return {"seconds": seconds, "convert_seconds": convert_seconds}


def _produce(producer: Producer, topic: str, keys: list[bytes], values: list[bytes]) -> None:
    produce = producer.produce
    for key, value in zip(keys, values, strict=True):
        try:
            produce(topic, value, key)
        except BufferError:
            _retry(producer, topic, key, value)


def _retry(producer: Producer, topic: str, key: bytes, value: bytes) -> None:
    """The queue is full: serve delivery reports until it has room."""
    while True:
        producer.poll(0.01)
        try:
            producer.produce(topic, value, key)
        except BufferError:
            continue
        return


def _produce_batches(producer: Producer, topic: str, messages: list[dict[str, bytes]]) -> None:
    for first in range(0, len(messages), BATCH):
        batch = messages[first : first + BATCH]
        while batch:
            producer.produce_batch(topic, batch)
            # Those that did not fit into the queue have an error.
            batch = [message for message in batch if message.pop("_error", None) is not None]
            if batch:
                producer.poll(0.01)


if __name__ == "__main__":
    serve_requests(run)
