"""The largest timestamp in a small window of each log, by one fetch per leader.

The records are decoded as a reader decodes them, so that only records count which a reader gets. The broker's own
answers by time do not distinguish records from transaction markers, which have the time of the commit, and from aborted
records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.errors import CorruptBatch
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.api.metadata import Metadata
from penstock.wire.lookup.chunks import LEAST_BYTES, ask_chunks, decode_chunk
from penstock.wire.transport.connection import Connection, Pending


class OffsetWindow(NamedTuple):
    """The records with offsets in [first, stop) that a fetch from offset `at` on returns."""

    at: int
    first: int
    stop: int


def ask_largest_in_windows(
    connection: Connection, windows: Mapping[TopicPartition, OffsetWindow], metadata: Metadata
) -> Pending[tuple[dict[TopicPartition, int | None], dict[TopicPartition, RetriableError]]]:
    """Ask a leader. None if the window has no record with a timestamp, or is outside the log."""

    def largest(tp: TopicPartition, fetched: FetchedPartition) -> int | None:
        window = windows[tp]
        latest: int | None = None
        try:
            for batch in decode_chunk(tp, fetched, ["timestamp"], window.first, window.stop, connection.config):
                latest = _later(latest, batch)
        except CorruptBatch:
            pass  # the reader reports it: the records before it count
        return latest

    return ask_chunks(connection, {tp: window.at for tp, window in windows.items()}, metadata, LEAST_BYTES, largest)


def _later(largest: int | None, batch: Any) -> int | None:
    """The largest timestamp (ms) of a batch, if it is larger."""
    import pyarrow as pa
    import pyarrow.compute as pc

    latest: int | None = pc.max(batch.column(0).view(pa.int64())).as_py()
    if latest is None or latest < 0:
        return largest
    return latest // 1000 if largest is None else max(largest, latest // 1000)
