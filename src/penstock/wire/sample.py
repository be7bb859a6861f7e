"""How large records are where reading will go on: the batch headers of a small fetch, and nothing decoded.

Bytes from the network are hostile, and a header's offset and length are not covered by its checksum: each is held
against what came before it and against the end of the log, and what makes no sense ends the sample there.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence

from kafka.protocol.consumer import FetchRequest

from penstock.errors import ProtocolError
from penstock.topics import TopicPartition
from penstock.wire.connection import FRAME_LIMIT, Connection, Pending
from penstock.wire.fetch import HIGHEST, NAMES_ONLY, FetchedPartition, FetchPosition, fetch_request, read_fetch_response
from penstock.wire.metadata import Metadata

RESPONSE_BYTES = 4 << 20
"""Of one answer at most. With many partitions some are left out, and others the next time: the order is random."""

ONE_BY_ONE = 8
"""Partitions per leader that are asked for alone, because their first batch did not fit in the sample: a broker sends
such a batch only where it is the first of its answer. It may be a megabyte, so no more of them at a time."""

_HEADER = struct.Struct(">qi4xb6xi")
"""Offset, length, magic, last offset delta (magic 2 only)."""

_OVERHEAD = 12  # offset and length, which the length does not count
_LEAST_LENGTH = {0: 14, 1: 22, 2: 49}  # by magic
_OLD_ATTRIBUTES = 17
_OLD_CODEC = 0x07


def bytes_per_offset(records: memoryview, position: int, readable: int) -> float | None:
    """Stored bytes per offset from `position` on, by the headers of batches that lie below offset `readable`.

    The last batch may be cut short behind its header. None where there is nothing to go by.
    """
    at = counted = 0
    begin = follows = -1
    first_is_old_set = False
    while len(records) - at >= _HEADER.size:
        offset, length, magic, delta = _HEADER.unpack_from(records, at)
        if not _LEAST_LENGTH.get(magic, FRAME_LIMIT) <= length < FRAME_LIMIT:
            break
        if magic == 2:
            first, last = offset, offset + delta
        else:
            # An old message, or a compressed set of them, which bears the offset of its last one.
            first, last = min(position, offset) if follows < 0 else follows, offset
        if first < max(follows, 0) or last < max(first, position) or last >= readable:
            break
        if begin < 0:
            begin = min(first, position)
            first_is_old_set = magic < 2 and bool(records[at + _OLD_ATTRIBUTES] & _OLD_CODEC)
        elif first_is_old_set:
            # Where the first set begins is nowhere said: go by those that follow it.
            begin, counted, first_is_old_set = follows, 0, False
        counted += _OVERHEAD + length
        follows = last + 1
        at += _OVERHEAD + length
    return counted / (follows - begin) if counted else None


def ask_sizes(
    connection: Connection,
    positions: Mapping[TopicPartition, int],
    metadata: Metadata,
    sample: int,
) -> Pending[dict[TopicPartition, float]]:
    """Ask a leader for about `sample` bytes of each of its partitions. Those without data or answer are left out."""
    wanted = [_position(tp, offset, metadata) for tp, offset in positions.items()]
    random.shuffle(wanted)
    named = any(position.topic_id is None for position in wanted)
    version = connection.version(FetchRequest, at_most=NAMES_ONLY if named else HIGHEST)
    names = {position.topic_id if version > NAMES_ONLY else position.topic: position.topic for position in wanted}
    asked = _send(connection, version, wanted, sample)

    def read(timeout: float) -> dict[TopicPartition, float]:
        found: dict[TopicPartition, float] = {}

        def receive(correlation_id: int) -> list[TopicPartition]:
            """Note the sizes of one answer; the partitions in it that have data but sent none."""
            frame = connection.receive_into(bytearray(sample), timeout)
            try:
                response = read_fetch_response(frame, version, correlation_id, connection.address)
            except ProtocolError:
                connection.close()  # out of step: nobody else may have it
                raise
            silent = []
            for fetched in response.partitions:
                tp = TopicPartition(names.get(fetched.topic, ""), fetched.partition)
                if tp not in positions or fetched.error_code != 0:
                    continue
                readable = _readable(fetched, connection.config.read_committed)
                size = bytes_per_offset(fetched.records, positions[tp], readable)
                if size is not None:
                    found[tp] = size
                elif len(fetched.records) == 0 and readable > positions[tp]:
                    silent.append(tp)
            return silent

        silent = receive(asked)
        alone = [[_position(tp, positions[tp], metadata)] for tp in silent[:ONE_BY_ONE]]
        again = [_send(connection, version, position, sample) for position in alone]
        for correlation_id in again:
            receive(correlation_id)
        return found

    return read


def _position(tp: TopicPartition, offset: int, metadata: Metadata) -> FetchPosition:
    leader = metadata.leader(tp)
    epoch = -1 if leader is None else leader.epoch
    return FetchPosition(tp.topic, tp.partition, offset, metadata.topics[tp.topic].topic_id, epoch)


def _send(connection: Connection, version: int, wanted: Sequence[FetchPosition], sample: int) -> int:
    # No rack: a leader that recommends another replica would send no records.
    request = fetch_request(
        version, wanted, connection.config, max_bytes=RESPONSE_BYTES, partition_max_bytes=sample, max_wait=0
    )
    return connection.send(request, connection.config.request_timeout)


def _readable(fetched: FetchedPartition, read_committed: bool) -> int:
    return fetched.last_stable_offset if read_committed else fetched.high_watermark
