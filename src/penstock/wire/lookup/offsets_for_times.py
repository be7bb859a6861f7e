"""The first record of a partition at or after a time: exactly the one that reading the whole log would find.

The broker's time index says where to look, or that there is no such record; `time_index` says which of its answers are
proof. In general one fetch per leader confirms that a record is there. If a marker or an aborted record is there
instead, the log is scanned from that offset on. If the index may hide records, the log is scanned from its beginning. A
scan reads the headers of batches, and decodes a chunk only if one of its batches claims a record of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from penstock.errors import CorruptBatch, TimeLookupTimeout
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.api.metadata import Metadata
from penstock.wire.batch_headers import is_record, largest_timestamp, scan_headers
from penstock.wire.client_config import ClientConfig
from penstock.wire.lookup.chunks import LEAST_BYTES, ask_chunks, decode_chunk
from penstock.wire.lookup.time_index import TimeAnswers
from penstock.wire.transport.connection import Connection, Pending
from penstock.wire.transport.retry import Attempts

FIRST_BYTES = 4 << 20
"""Fetched from one leader to confirm the records that the index names. Each of few partitions gets room for any batch
of a producer's default size, and many partitions cost no more. Measured with 50 partitions on one leader: batches up to
80 kB take one request, batches of 100 kB take four."""

LARGEST_BATCH = 1 << 20
"""Kafka's default of max.message.bytes."""

SCAN_BYTES = 4 << 20
"""Fetched from each partition whose log is scanned."""

LAST_MICROSECOND = 2**63 - 1
"""The largest value of a timestamp column."""


class Scan(NamedTuple):
    """Searches the records with offsets in [at, stop) for the first at or after a time."""

    at: int
    stop: int
    time: int
    named: bool = False
    """Whether the broker's index named the offset `at`."""


class Step(NamedTuple):
    """The result of one chunk: the record, or the offset from which to search on."""

    found: int | None
    next: int


class Log(Protocol):
    """The questions that a search asks. `Cluster` answers them."""

    def begin(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def by_time(self, times: Mapping[TopicPartition, int]) -> TimeAnswers: ...

    def scan(self, scans: Mapping[TopicPartition, Scan], first: bool) -> dict[TopicPartition, Step | None]: ...


def find_offsets(
    times: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    log: Log,
    attempts: Attempts,
    since: Mapping[TopicPartition, int],
    option: str = "default.api.timeout.ms",
) -> dict[TopicPartition, int | None]:
    """The offsets of the first records below `ends` at or after a time; None if there are none.

    It is known that there are none below `since`. Raises TimeLookupTimeout when a scan takes longer than `attempts`
    allow, which the setting `option` limits.
    """
    found: dict[TopicPartition, int | None] = dict.fromkeys(times)
    asked = {tp: time for tp, time in times.items() if since.get(tp, 0) < ends[tp]}
    answers = log.by_time(asked)
    starts = {tp: offset for tp, (offset, _) in answers.found.items()}
    if answers.unknown:
        starts |= log.begin(answers.unknown)
    scans: dict[TopicPartition, Scan] = {}
    for tp, at in starts.items():
        known = since.get(tp, 0)
        scans[tp] = Scan(max(at, known), ends[tp], times[tp], named=tp in answers.found and at >= known)
    first = True
    while scans := {tp: scan for tp, scan in scans.items() if scan.at < scan.stop}:
        if not first and attempts.expired():
            behind = [(tp.topic, tp.partition, scan.time, scan.at, scan.stop) for tp, scan in sorted(scans.items())]
            raise TimeLookupTimeout(behind, attempts.timeout, option)
        steps = log.scan(scans, first)
        # Out of range, or no more records. Records that were deleted meanwhile are not searched for.
        gone = [tp for tp, step in steps.items() if step is None]
        begins: Offsets = log.begin(gone) if gone else {}
        for tp, step in steps.items():
            scan = scans.pop(tp)
            if step is None:
                if begins[tp] > scan.at:
                    scans[tp] = scan._replace(at=begins[tp], named=False)
            elif step.found is None:
                scans[tp] = scan._replace(at=step.next, named=False)
            else:
                found[tp] = step.found
        first = False
    return found


def ask_scan(
    connection: Connection, scans: Mapping[TopicPartition, Scan], metadata: Metadata, first: bool
) -> Pending[tuple[dict[TopicPartition, Step | None], dict[TopicPartition, RetriableError]]]:
    """Ask a leader for the next chunk of each partition. `first`: the record is probably at its beginning."""

    def look(tp: TopicPartition, fetched: FetchedPartition) -> Step:
        return look_into(tp, fetched, scans[tp], connection.config)

    size = min(max(FIRST_BYTES // len(scans), LEAST_BYTES), LARGEST_BATCH) if first else SCAN_BYTES
    return ask_chunks(connection, {tp: scan.at for tp, scan in scans.items()}, metadata, size, look)


def look_into(tp: TopicPartition, fetched: FetchedPartition, scan: Scan, config: ClientConfig) -> Step:
    """Search the chunk that was fetched from `scan.at` on."""
    if (end := fetched.readable(config.read_committed)) < scan.stop:
        raise RetriableError(f"{tp} can be read up to offset {end} only, and was up to {scan.stop}")
    seen, late_until = scan.at, -1
    for header in scan_headers(fetched.records, scan.at):
        if (
            scan.named
            and header.at == 0
            and header.first <= scan.at
            and fetched.log_start <= scan.at
            and is_record(header, config.read_committed)
        ):
            return Step(scan.at, scan.at)
        if header.first >= scan.stop:
            seen = scan.stop
            break
        if header.at + header.size > len(fetched.records):
            break
        seen = header.last + 1
        if late_until < 0 and largest_timestamp(fetched.records, header) >= scan.time:
            late_until = header.last + 1
    # Decode from the first batch on: only the markers say where aborted transactions end. In general the first batch
    # that claims the time has the record, so the others are decoded only if it has not.
    for stop in (min(late_until, scan.stop), scan.stop) if late_until >= 0 else ():
        for batch in decode_chunk(tp, fetched, ["offset", "timestamp"], scan.at, stop, config):
            if (offset := _first_late(batch, scan.time)) is not None:
                return Step(offset, offset)
    if seen == scan.at and len(fetched.records):
        raise CorruptBatch(tp.topic, tp.partition, scan.at, 0, "no whole record batch begins there")
    return Step(None, min(seen, scan.stop))


def _first_late(batch: Any, time: int) -> int | None:
    """The offset of the first record of a batch at or after a time (ms)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets, timestamps = batch.columns
    late = pc.greater_equal(timestamps.view(pa.int64()), pa.scalar(min(time * 1000, LAST_MICROSECOND), pa.int64()))
    row = pc.index(late.fill_null(True), True).as_py()  # null: too late for a timestamp in microseconds
    return None if row < 0 else int(offsets[row].as_py())
