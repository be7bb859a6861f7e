"""A look at few records of many partitions: the largest timestamp in a small window of each log.

Decoded as a reader decodes them, so that only what a reader gets counts. The broker's own answers by time do not tell a
record from a transaction's marker, which bears the time of the commit, nor from a record that was aborted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.errors import CorruptBatch
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.api.metadata import Metadata
from penstock.wire.lookup.pieces import LEAST_BYTES, ask_pieces, decoded
from penstock.wire.transport.connection import Connection, Pending


class Window(NamedTuple):
    """The records with offsets in [first, stop) among those that a fetch from offset `at` on brings."""

    at: int
    first: int
    stop: int


def ask_windows(
    connection: Connection, windows: Mapping[TopicPartition, Window], metadata: Metadata
) -> Pending[tuple[dict[TopicPartition, int | None], dict[TopicPartition, RetriableError]]]:
    """Ask a leader; None where the window has no record with a timestamp, or lies outside the log."""

    def largest(tp: TopicPartition, fetched: FetchedPartition) -> int | None:
        window = windows[tp]
        latest: int | None = None
        try:
            for batch in decoded(tp, fetched, ["timestamp"], window.first, window.stop, connection.config):
                latest = _later(latest, batch)
        except CorruptBatch:
            pass  # told by who reads it, and maybe read around: what came before it counts
        return latest

    return ask_pieces(connection, {tp: window.at for tp, window in windows.items()}, metadata, LEAST_BYTES, largest)


def _later(largest: int | None, batch: Any) -> int | None:
    """The largest timestamp (ms) of a batch, if it is larger."""
    import pyarrow as pa
    import pyarrow.compute as pc

    latest: int | None = pc.max(batch.column(0).view(pa.int64())).as_py()
    if latest is None or latest < 0:
        return largest
    return latest // 1000 if largest is None else max(largest, latest // 1000)
