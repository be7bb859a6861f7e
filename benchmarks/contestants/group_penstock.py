"""Penstock in a consumer group: Arrow batches from four streams, messages from one, and how late each comes.

With its defaults. The Arrow batches have all eight columns, and as the others do with every message, the lengths of
the values are added up.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow.compute as pc
from answering import answer_orders
from group_reading import SILENCE_SECONDS, Latencies, Stopwatch

from penstock import ConsumerConnector, Stream

STREAMS = 4
_ENDING_SECONDS = 10.0


class Listener:
    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def revoked(self, owned: object) -> None:
        pass

    def assigned(self, consumer_id: str, owners: object) -> None:
        self._watch.assigned()


class Tally:
    """What the four readers have in common: each adds to it, and the one with the last record stops the watch."""

    def __init__(self, watch: Stopwatch, rows: int) -> None:
        self._watch = watch
        self._wanted = rows
        self._lock = threading.Lock()
        self.rows = 0
        self.value_bytes = 0
        self.figures: dict[str, Any] = {}
        self.error: BaseException | None = None
        self.complete = threading.Event()

    def add(self, rows: int, value_bytes: int) -> None:
        with self._lock:
            self.rows += rows
            self.value_bytes += value_bytes
            if self.rows >= self._wanted and not self.figures:
                self.figures = self._watch.stop()
                self.complete.set()

    def failed(self, error: BaseException) -> None:
        with self._lock:
            self.error = self.error or error
        self.complete.set()


def read_batches(stream: Stream, tally: Tally) -> None:
    """Runs in a thread of its own until the connector is shut down."""
    try:
        for batch in stream.batches():
            tally.add(batch.num_rows, pc.sum(pc.binary_length(batch["value"])).as_py())
    except BaseException as error:
        tally.failed(error)


def batches(connector: ConsumerConnector, order: dict[str, Any], watch: Stopwatch) -> dict[str, Any]:
    tally = Tally(watch, order["rows"])
    streams = connector.create_message_streams({order["topic"]: STREAMS})[order["topic"]]
    threads = [threading.Thread(target=read_batches, args=(stream, tally), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    complete = tally.complete.wait(order["deadline"])
    connector.shutdown()
    for thread in threads:
        thread.join(_ENDING_SECONDS)
    if tally.error is not None:
        raise tally.error
    if not complete or any(thread.is_alive() for thread in threads):
        raise RuntimeError(f"{tally.rows} of {order['rows']} records came; alive: {[t.is_alive() for t in threads]}")
    return {**tally.figures, "rows": tally.rows, "value_bytes": tally.value_bytes}


def messages(connector: ConsumerConnector, order: dict[str, Any], watch: Stopwatch) -> dict[str, Any]:
    wanted = order["rows"]
    [stream] = connector.create_message_streams({order["topic"]: 1})[order["topic"]]
    rows = size = 0
    for message in stream:
        size += len(message.value)
        rows += 1
        if rows == wanted:
            break
    return {**watch.stop(), "rows": rows, "value_bytes": size}


def latencies(connector: ConsumerConnector, order: dict[str, Any]) -> dict[str, Any]:
    taken = Latencies(order)
    [stream] = connector.create_message_streams({order["topic"]: 1})[order["topic"]]
    for message in stream:
        if not taken.take(message.value):
            return taken.answer()
    raise RuntimeError("the stream ended before there were enough records")


def run(order: dict[str, Any]) -> dict[str, Any]:
    watch = Stopwatch()
    config = {
        "bootstrap.servers": order["bootstrap"],
        "group.id": order["group"],
        "auto.offset.reset": order["reset"],
        "consumer.timeout.ms": round(SILENCE_SECONDS * 1000),
    }
    with ConsumerConnector(config) as connector:
        connector.set_rebalance_listener(Listener(watch))
        match order["do"]:
            case "batches":
                return batches(connector, order, watch)
            case "messages":
                return messages(connector, order, watch)
            case "latency":
                return latencies(connector, order)
            case unknown:
                raise ValueError(unknown)


if __name__ == "__main__":
    answer_orders(run)
