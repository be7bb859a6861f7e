"""Penstock in a share group: Arrow batches from four streams of one member, acknowledged batch by batch.

All settings but max.poll.records have their defaults: asking for a batch accepts the one before. The batches have all
columns, and the lengths of the values are summed, as the other reader does with every record. The clock runs from the
first batch until all records are read and their acknowledgements are answered.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow.compute as pc
from group_reading import SILENCE_SECONDS, processor_seconds
from serving import serve_requests

from penstock import ConsumerConnector, ShareStream

STREAMS = 4


class Tally:
    """Shared by the four readers."""

    def __init__(self, rows: int) -> None:
        self._wanted = rows
        self._lock = threading.Lock()
        self.began: float | None = None
        self.used = 0.0
        self.rows = 0
        self.value_bytes = 0
        self.error: BaseException | None = None
        self.complete = threading.Event()

    def add(self, rows: int, value_bytes: int) -> None:
        with self._lock:
            if self.began is None:
                self.began, self.used = time.perf_counter(), processor_seconds()
            self.rows += rows
            self.value_bytes += value_bytes
            if self.rows >= self._wanted:
                self.complete.set()

    def failed(self, error: BaseException) -> None:
        self.error = self.error or error
        self.complete.set()


def read(stream: ShareStream, tally: Tally) -> None:
    """Runs in its own thread until the connector is shut down."""
    try:
        for batch in stream.batches():
            tally.add(batch.num_rows, pc.sum(pc.binary_length(batch["value"])).as_py())
    except BaseException as error:
        tally.failed(error)


def run(request: dict[str, Any]) -> dict[str, Any]:
    config = {
        "bootstrap.servers": request["bootstrap"],
        "group.id": request["group"],
        "max.poll.records": request["max_poll"],
        "consumer.timeout.ms": round(SILENCE_SECONDS * 1000),
    }
    tally = Tally(request["rows"])
    with ConsumerConnector(config) as connector:
        streams = connector.create_share_streams({request["topic"]: STREAMS})[request["topic"]]
        threads = [threading.Thread(target=read, args=(stream, tally), daemon=True) for stream in streams]
        for thread in threads:
            thread.start()
        complete = tally.complete.wait(request["deadline"])
        results = [stream.commit() for stream in streams]
        ended, used = time.perf_counter(), processor_seconds()
    if tally.error is not None:
        raise tally.error
    if not complete or tally.began is None:
        raise RuntimeError(f"{tally.rows} of {request['rows']} records came")
    if refused := [error for each in results for error in each.values() if error is not None]:
        raise refused[0]
    return {
        "seconds": ended - tally.began,
        "processor_seconds": used - tally.used,
        "rows": tally.rows,
        "value_bytes": tally.value_bytes,
    }


if __name__ == "__main__":
    serve_requests(run)
