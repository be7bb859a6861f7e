"""The timestamp of the next record at an offset, mostly from batch headers: a few fetches per leader, and no more.

A small fetch returns the record batch that holds the offset. Its header has the timestamp of its first record and the
largest one. Only if they differ, and the offset lies inside of the batch, the batch is decoded.

Unlike `chunks`, this gives up after `REQUESTS` requests per leader, whatever the sizes of batches: partitions without
an answer are left out, and the caller asks for them again later. Asked under read_uncommitted: an aborted record counts
as a record, a transaction marker does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from penstock.errors import CorruptBatch
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.api.fetch_client import FetchClient, leader_positions, response_key
from penstock.wire.api.metadata import Metadata
from penstock.wire.batch_headers import NO_TIMESTAMP, BatchHeader, batch_times, largest_timestamp, scan_headers
from penstock.wire.client_config import ClientConfig
from penstock.wire.lookup.chunks import GROWTH, LARGEST, LEAST_BYTES, RESPONSE_BYTES, decode_chunk
from penstock.wire.transport.connection import Connection, Pending

REQUESTS = 3
"""Per leader and look-up. The second one is for partitions that the first response had no room for, or whose batches
are larger than it allowed."""


class NextRecord(NamedTuple):
    """The first record at or after an offset."""

    exists: bool
    """False if there are only transaction markers and gaps up to the end of the log."""
    timestamp: int | None = None
    """In milliseconds; None if it is unknown: old messages have none."""
    is_exact: bool = True
    """False for a time between those of the batch's first and latest record."""


NOTHING_LEFT = NextRecord(exists=False)


def ask_next_records(
    connection: Connection,
    offsets: Mapping[TopicPartition, int],
    metadata: Metadata,
    spend: Callable[[int], None],
) -> Pending[dict[TopicPartition, NextRecord]]:
    """Ask a leader. `spend` is called with 1 before each request after the first. Partitions without an answer are left
    out."""
    positions = leader_positions(offsets, metadata)
    client = FetchClient(connection)
    version = client.version_for(positions.values())
    by_key = {response_key(version, position): tp for tp, position in positions.items()}

    def send(partitions: Sequence[TopicPartition], size: int) -> None:
        wanted = [positions[tp] for tp in partitions]
        client.send(wanted, version=version, max_bytes=max(RESPONSE_BYTES, size), partition_max_bytes=size)

    send(list(offsets), LEAST_BYTES)

    def read(timeout: float) -> dict[TopicPartition, NextRecord]:
        found: dict[TopicPartition, NextRecord] = {}
        refused: set[TopicPartition] = set()
        missing, size = list(offsets), LEAST_BYTES
        for number in range(REQUESTS):
            received = 0
            for fetched in client.receive(bytearray(LEAST_BYTES), timeout).partitions:
                received += len(fetched.records)
                tp = by_key.get((fetched.topic, fetched.partition))
                if tp is None:
                    continue
                if fetched.error_code:
                    refused.add(tp)
                elif len(fetched.records) or fetched.high_watermark <= offsets[tp]:
                    answer = next_record(tp, fetched, offsets[tp], connection.config)
                    if answer is None:
                        refused.add(tp)
                    else:
                        found[tp] = answer
            left = [tp for tp in missing if tp not in found and tp not in refused]
            if left and len(left) == len(missing):
                # A broker always serves the first partition of a request, so nothing is left in it.
                found[left.pop(0)] = NOTHING_LEFT
            missing = left
            if not missing or number == REQUESTS - 1:
                break
            if received + size <= max(RESPONSE_BYTES, size):
                size = min(size * GROWTH, LARGEST)  # there was room for more: their batches are larger
            spend(1)
            send(missing, size)
        return found

    return read


def next_record(tp: TopicPartition, fetched: FetchedPartition, offset: int, config: ClientConfig) -> NextRecord | None:
    """The next record in a chunk that was fetched from `offset` on. None if the chunk does not say."""
    offset = max(offset, fetched.log_start)
    follows = offset
    for header in scan_headers(fetched.records, offset):
        follows = header.last + 1
        if header.is_control:
            continue
        if header.magic < 2:
            timestamp = largest_timestamp(fetched.records, header)
            known = None if timestamp == NO_TIMESTAMP else timestamp
            return NextRecord(exists=True, timestamp=known, is_exact=not header.is_old_set)
        times = batch_times(fetched.records, header)
        if times is None:
            if header.at + header.size > len(fetched.records):
                return None  # the header itself is cut short
            continue  # compaction has emptied the batch
        whole = times.records == header.last - header.first + 1
        if times.first == times.largest or (whole and offset <= header.first):
            return NextRecord(exists=True, timestamp=times.first)
        try:
            if header.at + header.size <= len(fetched.records):
                for batch in decode_chunk(tp, fetched, ["timestamp"], offset, header.last + 1, config):
                    if batch.num_rows:
                        import pyarrow as pa

                        return NextRecord(exists=True, timestamp=batch.column(0).view(pa.int64())[0].as_py() // 1000)
                continue  # the batch has no record from this offset on
        except CorruptBatch:
            pass  # a reader reports it
        return _between(header, times.first, times.largest, offset)
    return NOTHING_LEFT if follows >= fetched.high_watermark else None


def _between(header: BatchHeader, first: int, largest: int, offset: int) -> NextRecord:
    """A time between those of a batch's first and latest record, as if they were equally far apart."""
    passed = max(0, offset - header.first) / max(1, header.last - header.first)
    return NextRecord(exists=True, timestamp=first + int((largest - first) * passed), is_exact=False)
