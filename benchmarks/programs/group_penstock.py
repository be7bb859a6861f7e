"""Penstock in a consumer group: Arrow batches from four streams, messages from one, and the latency of each.

All settings have their defaults. The Arrow batches have all eight columns, and the lengths of the values are summed, as
the other readers do with every message.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow.compute as pc
from group_reading import SILENCE_SECONDS, Latencies, Stopwatch
from serving import serve_requests

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
    """Shared by the four readers: each adds its counts, and the one that reads the last record stops the clock."""

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
    """Runs in its own thread until the connector is shut down."""
    try:
        for batch in stream.batches():
            tally.add(batch.num_rows, pc.sum(pc.binary_length(batch["value"])).as_py())
    except BaseException as error:
        tally.failed(error)


def batches(connector: ConsumerConnector, request: dict[str, Any], watch: Stopwatch) -> dict[str, Any]:
    tally = Tally(watch, request["rows"])
    streams = connector.create_message_streams({request["topic"]: STREAMS})[request["topic"]]
    threads = [threading.Thread(target=read_batches, args=(stream, tally), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    complete = tally.complete.wait(request["deadline"])
    connector.shutdown()
    for thread in threads:
        thread.join(_ENDING_SECONDS)
    if tally.error is not None:
        raise tally.error
    if not complete or any(thread.is_alive() for thread in threads):
        raise RuntimeError(f"{tally.rows} of {request['rows']} records came; alive: {[t.is_alive() for t in threads]}")
    return {**tally.figures, "rows": tally.rows, "value_bytes": tally.value_bytes}


def messages(connector: ConsumerConnector, request: dict[str, Any], watch: Stopwatch) -> dict[str, Any]:
    wanted = request["rows"]
    [stream] = connector.create_message_streams({request["topic"]: 1})[request["topic"]]
    rows = size = 0
    for message in stream:
        size += len(message.value)
        rows += 1
        if rows == wanted:
            break
    return {**watch.stop(), "rows": rows, "value_bytes": size}


def latencies(connector: ConsumerConnector, request: dict[str, Any]) -> dict[str, Any]:
    taken = Latencies(request)
    [stream] = connector.create_message_streams({request["topic"]: 1})[request["topic"]]
    for message in stream:
        if not taken.take(message.value):
            return taken.answer()
    raise RuntimeError("the stream ended before there were enough records")


def run(request: dict[str, Any]) -> dict[str, Any]:
    watch = Stopwatch()
    config = {
        "bootstrap.servers": request["bootstrap"],
        "group.id": request["group"],
        "auto.offset.reset": request["reset"],
        "consumer.timeout.ms": round(SILENCE_SECONDS * 1000),
        **({"group.protocol": request["protocol"]} if "protocol" in request else {}),
    }
    with ConsumerConnector(config) as connector:
        connector.set_rebalance_listener(Listener(watch))
        match request["do"]:
            case "batches":
                return batches(connector, request, watch)
            case "messages":
                return messages(connector, request, watch)
            case "latency":
                return latencies(connector, request)
            case unknown:
                raise ValueError(unknown)


if __name__ == "__main__":
    serve_requests(run)
