"""Headers of record batches and old message sets, walked over without decoding anything.

Bytes from the network are hostile, and a header's offset and length are not covered by its checksum. Each header is
held against the one before it, and the walk ends at the first that makes no sense.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from penstock.wire.transport.connection import FRAME_LIMIT

_HEADER = struct.Struct(">qi4xb6xi")
"""Offset, length, magic, last offset delta (magic 2 only)."""

_OVERHEAD = 12  # offset and length, which the length does not count
_LEAST_LENGTH = {0: 14, 1: 22, 2: 49}  # by magic
_OLD_ATTRIBUTES, _OLD_TIMESTAMP = 17, struct.Struct(">18xq")
_OLD_CODEC = 0x07
_TIMES = struct.Struct(">21xh4x8xq14xi")
"""Of magic 2: attributes, largest timestamp, number of records."""
_ATTRIBUTES = struct.Struct(">21xh")
_TRANSACTIONAL, _CONTROL = 0x10, 0x20

NO_TIMESTAMP = -1


class BatchHeader(NamedTuple):
    """One record batch, or one old message or compressed set of them, by its header."""

    at: int
    """The byte where it begins."""
    size: int
    magic: int
    first: int
    last: int
    is_old_set: bool
    """Whether it is a compressed set of old messages: nothing says at which offset such a set begins."""


def walk(records: memoryview, position: int) -> Iterator[BatchHeader]:
    """The headers in a chunk that was fetched from offset `position`.

    The last batch may be cut short behind its header.
    """
    at, follows = 0, -1
    while len(records) - at >= _HEADER.size:
        offset, length, magic, delta = _HEADER.unpack_from(records, at)
        if not _LEAST_LENGTH.get(magic, FRAME_LIMIT) <= length < FRAME_LIMIT:
            return
        if magic == 2:
            first, last = offset, offset + delta
        else:
            # An old message, or a compressed set of them, which bears the offset of its last one.
            first, last = min(position, offset) if follows < 0 else follows, offset
        if first < max(follows, 0) or last < max(first, position):
            return
        is_old_set = magic < 2 and bool(records[at + _OLD_ATTRIBUTES] & _OLD_CODEC)
        yield BatchHeader(at, _OVERHEAD + length, magic, first, last, is_old_set)
        follows = last + 1
        at += _OVERHEAD + length


def is_record(records: memoryview, header: BatchHeader, read_committed: bool) -> bool:
    """Whether what lies in a batch is certainly a record that a reader gets: neither a marker nor perhaps aborted."""
    if header.magic < 2:
        return True
    (attributes,) = _ATTRIBUTES.unpack_from(records, header.at)
    return not attributes & (_CONTROL | _TRANSACTIONAL if read_committed else _CONTROL)


def largest_timestamp(records: memoryview, header: BatchHeader) -> int:
    """The largest timestamp of a whole batch by its header; -1 if it has no record that a reader could get.

    Of a batch that compaction has thinned, or whose first records are deleted, it may be that of a record that is gone.
    """
    batch = records[header.at : header.at + header.size]
    if header.magic == 2:
        attributes, timestamp, count = _TIMES.unpack_from(batch)
        return NO_TIMESTAMP if attributes & _CONTROL or count == 0 else timestamp
    if header.magic == 1:
        (timestamp,) = _OLD_TIMESTAMP.unpack_from(batch)
        return int(timestamp)
    return NO_TIMESTAMP
