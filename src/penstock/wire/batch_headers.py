"""Reads the headers of record batches and old message sets, without decoding records.

This is the Python side's only scanner. The kernel has its own, in the decoder and as `penstock._kernel.scan`, which
finds the offset after the last whole batch of a chunk.

Bytes from the network are hostile, and the checksum of a batch does not cover its offset and its length. So each header
is checked against the one before it, and the scan ends at the first header that makes no sense.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from penstock.wire.transport.connection import FRAME_LIMIT

_HEADER = struct.Struct(">qi4xb4xhi")
"""Offset, length, magic, attributes and last offset delta (both of magic 2 only)."""

_OVERHEAD = 12  # offset and length, which the length does not count
_LEAST_LENGTH = {0: 14, 1: 22, 2: 49}  # by magic
_OLD_ATTRIBUTES, _OLD_TIMESTAMP = 17, struct.Struct(">18xq")
_OLD_CODEC = 0x07
_TIMES = struct.Struct(">35xq14xi")
"""Of magic 2: largest timestamp, number of records."""
_FIRST_TIME = struct.Struct(">27xq")
_FULL_HEADER = 61
"""Bytes of a header of magic 2."""
_LOG_APPEND_TIME = 0x08
_PRODUCER = struct.Struct(">43xq")
_TRANSACTIONAL, _CONTROL = 0x10, 0x20

NO_TIMESTAMP = -1


class BatchHeader(NamedTuple):
    """The header of one record batch, of one old message, or of one compressed set of old messages."""

    at: int
    """The byte where it begins."""
    size: int
    magic: int
    first: int
    last: int
    attributes: int

    @property
    def is_old_set(self) -> bool:
        """Whether it is a compressed set of old messages: its header does not say at which offset the set begins."""
        return self.magic < 2 and bool(self.attributes & _OLD_CODEC)

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction marker and no records."""
        return self.magic == 2 and bool(self.attributes & _CONTROL)


def scan_headers(records: memoryview, position: int, at: int = 0, *, whole: bool = False) -> Iterator[BatchHeader]:
    """The headers from byte `at` on, in a chunk that was fetched from offset `position`.

    The last batch may be cut short behind its header. With `whole`, the scan ends before a batch that is cut short, and
    before old messages.
    """
    # A reader scans what is left of a chunk at the start of every range: 0.4 us per header. Do not simplify the
    # comparisons to max(), and the tuple to BatchHeader(...): both double that.
    follows, end, new = -1, len(records), tuple.__new__
    while end - at >= _HEADER.size:
        offset, length, magic, attributes, delta = _HEADER.unpack_from(records, at)
        if not _LEAST_LENGTH.get(magic, FRAME_LIMIT) <= length < FRAME_LIMIT:
            return
        if magic == 2:
            first, last = offset, offset + delta
        else:
            # An old message, or a compressed set, which has the offset of its last message.
            first, last = min(position, offset) if follows < 0 else follows, offset
            attributes = records[at + _OLD_ATTRIBUTES]
        if first < follows or first < 0 or last < first or last < position:
            return
        size = _OVERHEAD + length
        if whole and (magic != 2 or at + size > end):
            return
        yield new(BatchHeader, (at, size, magic, first, last, attributes))
        follows = last + 1
        at += size


def is_record(header: BatchHeader, read_committed: bool) -> bool:
    """Whether a reader certainly gets the records of a batch: it is not a marker, and cannot be aborted."""
    return header.magic < 2 or not header.attributes & (_CONTROL | _TRANSACTIONAL if read_committed else _CONTROL)


def largest_timestamp(records: memoryview, header: BatchHeader) -> int:
    """The largest timestamp of a whole batch by its header; -1 if a reader gets no record of it.

    Compaction or a deletion may have removed the record that had this timestamp.
    """
    batch = records[header.at : header.at + header.size]
    if header.magic == 2:
        timestamp, count = _TIMES.unpack_from(batch)
        return NO_TIMESTAMP if header.is_control or count == 0 else timestamp
    if header.magic == 1:
        (timestamp,) = _OLD_TIMESTAMP.unpack_from(batch)
        return int(timestamp)
    return NO_TIMESTAMP


class BatchTimes(NamedTuple):
    """What the header of a batch of magic 2 says about its timestamps (ms)."""

    first: int
    """The timestamp of the first record that was written into it; compaction may have removed that record."""
    largest: int
    records: int


def batch_times(records: memoryview, header: BatchHeader) -> BatchTimes | None:
    """None for old messages, markers, batches that compaction has emptied, and a header that is cut short."""
    if header.magic != 2 or header.is_control or len(records) - header.at < _FULL_HEADER:
        return None
    largest, count = _TIMES.unpack_from(records, header.at)
    if count <= 0:
        return None
    (first,) = _FIRST_TIME.unpack_from(records, header.at)
    return BatchTimes(largest if header.attributes & _LOG_APPEND_TIME else first, largest, count)


def producer_id(records: memoryview, header: BatchHeader) -> int:
    """The producer of a whole batch of magic 2; -1 for one without an id."""
    (producer,) = _PRODUCER.unpack_from(records, header.at)
    return int(producer)
