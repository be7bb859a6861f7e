"""A look at few records of many partitions: the largest timestamp in a small window of each log.

Decoded as a reader decodes them, so that only what a reader gets counts. The broker's own answers by time do not tell a
record from a transaction's marker, which bears the time of the commit, nor from a record that was aborted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer import FetchRequest

from penstock.errors import CorruptBatch, ProtocolError
from penstock.topics import TopicPartition
from penstock.wire.codes import OFFSET_OUT_OF_RANGE, NotYet, check
from penstock.wire.connection import Connection, Pending
from penstock.wire.fetch import HIGHEST, NAMES_ONLY, FetchedPartition, FetchPosition, fetch_request, read_fetch_response
from penstock.wire.metadata import Metadata

WINDOW_BYTES = 16 << 10
"""Of each partition at first: a batch as Java's producer makes it by default. Where the batch is larger a broker sends
nothing of it unless it comes first in the answer; those partitions are asked again for `GROWTH` times as much."""

GROWTH = 16
LARGEST = 64 << 20
RESPONSE_BYTES = 4 << 20


class Window(NamedTuple):
    """The records with offsets in [first, stop) among those that a fetch from offset `at` on brings."""

    at: int
    first: int
    stop: int


def ask_windows(
    connection: Connection, windows: Mapping[TopicPartition, Window], metadata: Metadata
) -> Pending[tuple[dict[TopicPartition, int | None], dict[TopicPartition, NotYet]]]:
    """Ask a leader; None where the window has no record with a timestamp, or lies outside the log."""
    positions = {tp: _position(tp, window.at, metadata) for tp, window in windows.items()}
    named = any(position.topic_id is None for position in positions.values())
    version = connection.version(FetchRequest, at_most=NAMES_ONLY if named else HIGHEST)
    names = {p.topic_id if version > NAMES_ONLY else p.topic: p.topic for p in positions.values()}

    def send(partitions: list[TopicPartition], size: int) -> int:
        request = fetch_request(
            version,
            [positions[tp] for tp in partitions],
            connection.config,
            max_bytes=max(RESPONSE_BYTES, size),
            partition_max_bytes=size,
            max_wait=0,
        )
        return connection.send(request, connection.config.request_timeout)

    asked = send(list(windows), WINDOW_BYTES)

    def read(timeout: float) -> tuple[dict[TopicPartition, int | None], dict[TopicPartition, NotYet]]:
        found: dict[TopicPartition, int | None] = {}
        refused: dict[TopicPartition, NotYet] = {}
        buffer, correlation_id, size = bytearray(WINDOW_BYTES), asked, WINDOW_BYTES
        while True:
            frame = connection.receive_into(buffer, timeout)
            try:
                response = read_fetch_response(frame, version, correlation_id, connection.address)
            except ProtocolError:
                connection.close()  # out of step: nobody else may have it
                raise
            before = len(found) + len(refused)
            for fetched in response.partitions:
                tp = TopicPartition(names.get(fetched.topic, ""), fetched.partition)
                if tp in windows:
                    _note(tp, fetched, windows[tp], connection, found, refused)
            silent = [tp for tp in windows if tp not in found and tp not in refused]
            if not silent:
                return found, refused
            if len(found) + len(refused) == before:
                # A broker always serves the first of a request, so there is nothing: compaction has taken all that lay
                # between here and the end, or the last stable offset.
                found[silent.pop(0)] = None
                if not silent:
                    return found, refused
            size = min(size * GROWTH, LARGEST)
            buffer = bytearray(WINDOW_BYTES)
            correlation_id = send(silent, size)

    return read


def _note(
    tp: TopicPartition,
    fetched: FetchedPartition,
    window: Window,
    connection: Connection,
    found: dict[TopicPartition, int | None],
    refused: dict[TopicPartition, NotYet],
) -> None:
    """Take down what came of a partition. Nothing, where it has records but this answer has none of them."""
    if fetched.error_code == OFFSET_OUT_OF_RANGE:
        found[tp] = None
        return
    try:
        check(fetched.error_code, f"records of {tp}")
    except NotYet as error:
        refused[tp] = error
        return
    config = connection.config
    readable = fetched.last_stable_offset if config.read_committed else fetched.high_watermark
    if len(fetched.records) == 0 and readable > window.at:
        return
    found[tp] = _largest(tp, fetched, window, connection) if len(fetched.records) else None


def _largest(tp: TopicPartition, fetched: FetchedPartition, window: Window, connection: Connection) -> int | None:
    # Both are loaded by who reads records, and not by who plans.
    import pyarrow as pa

    from penstock._kernel import Decoder

    config = connection.config
    decoder = Decoder(tp.topic, tp.partition, ["timestamp"], decompression_limit=config.decompression_limit)
    first = max(window.first, fetched.log_start)  # what was deleted is still in its batch
    largest: int | None = None
    try:
        decoder.open(
            fetched.records,
            start=first,
            stop=window.stop,
            high_watermark=fetched.high_watermark,
            aligned=False,
            cut=True,
            aborted=fetched.aborted if config.read_committed else None,
        )
        while (batch := decoder.next_batch()) is not None:
            largest = _later(largest, pa.record_batch(batch))
        if decoder.legacy:
            from penstock.wire.legacy import decode_legacy  # rarely met, so rarely loaded

            start = max(decoder.next_offset, first)
            limit = config.decompression_limit
            old, _, _ = decode_legacy(fetched.records, decoder.position, *tp, ["timestamp"], start, window.stop, limit)
            largest = _later(largest, old)
    except CorruptBatch:
        pass  # told by who reads it, and maybe read around: what came before it counts
    finally:
        decoder.close()
    return largest


def _later(largest: int | None, batch: Any) -> int | None:
    """The largest timestamp (ms) of a batch, if it is larger."""
    import pyarrow as pa
    import pyarrow.compute as pc

    latest: int | None = None if batch is None else pc.max(batch.column(0).view(pa.int64())).as_py()
    if latest is None or latest < 0:
        return largest
    return latest // 1000 if largest is None else max(largest, latest // 1000)


def _position(tp: TopicPartition, offset: int, metadata: Metadata) -> FetchPosition:
    leader = metadata.leader(tp)
    epoch = -1 if leader is None else leader.epoch
    return FetchPosition(tp.topic, tp.partition, offset, metadata.topics[tp.topic].topic_id, epoch)
