"""confluent-kafka in a consumer group: thousands of messages per call, one per call, and the latency of each."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer
from group_reading import SILENCE_SECONDS, Latencies, Stopwatch
from serving import serve_requests

BATCH = 1_000
"""Messages per call of `consume`. Measured on 2 M records: 500 to 10,000 are equal, 50,000 takes a fifth longer."""

TUNED = {
    # As in plain_confluent.py: by default a partition pauses for a second once its queue is full, which drains in less.
    # Measured on 2 M records: 1.2 M rows/s by `consume` instead of 0.24 M, and the same with pauses of 1 and of 20 ms,
    # queues of 100,000 and of 1,000,000, fetches of 1 and of 16 MB.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 400_000,
    "max.partition.fetch.bytes": 4 << 20,
}


def run(request: dict[str, Any]) -> dict[str, Any]:
    watch = Stopwatch()
    settings: dict[str, Any] = {
        "bootstrap.servers": request["bootstrap"],
        "group.id": request["group"],
        "auto.offset.reset": request["reset"],
    }
    consumer = Consumer(settings | (TUNED if request["tuned"] else {}))
    try:
        consumer.subscribe([request["topic"]], on_assign=watch.assigned)
        match request["do"]:
            case "batches":
                size = consume(consumer, request["rows"])
            case "messages":
                size = poll(consumer, request["rows"])
            case "latency":
                return latencies(consumer, request)
            case unknown:
                raise ValueError(unknown)
        return {**watch.stop(), "rows": request["rows"], "value_bytes": size}
    finally:
        consumer.close()


# Both loops are faster because they do not check a message for its error, as a program should. An error would still be
# found: its text would count as a value, and the number of bytes would differ.


def consume(consumer: Consumer, rows: int) -> int:
    size = 0
    while rows:
        messages = consumer.consume(min(BATCH, rows), SILENCE_SECONDS)
        if not messages:
            raise RuntimeError(f"nothing came for {SILENCE_SECONDS:g} s, {rows} records are missing")
        rows -= len(messages)
        for message in messages:
            size += len(message.value())
    return size


def poll(consumer: Consumer, rows: int) -> int:
    size = 0
    for row in range(rows):
        message = consumer.poll(SILENCE_SECONDS)
        if message is None:
            raise RuntimeError(f"nothing came for {SILENCE_SECONDS:g} s after {row} of {rows} records")
        size += len(message.value())
    return size


def latencies(consumer: Consumer, request: dict[str, Any]) -> dict[str, Any]:
    taken = Latencies(request)
    end = time.monotonic() + request["warm_up"] + request["seconds"] + SILENCE_SECONDS
    while time.monotonic() < end:
        message = consumer.poll(SILENCE_SECONDS)
        if message is None:
            break
        if message.error():
            raise RuntimeError(message.error())
        if not taken.take(message.value()):
            return taken.answer()
    raise RuntimeError("too few records came")


if __name__ == "__main__":
    serve_requests(run)
