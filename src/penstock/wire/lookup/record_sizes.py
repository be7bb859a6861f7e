"""How large records are where reading will go on: the batch headers of a small fetch, and nothing decoded.

What makes no sense, or lies past the end of the log, ends the sample there.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from kafka.protocol.consumer import FetchRequest

from penstock.errors import ProtocolError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.fetch import (
    HIGHEST,
    NAMES_ONLY,
    FetchPosition,
    fetch_request,
    read_fetch_response,
)
from penstock.wire.api.metadata import Metadata
from penstock.wire.lookup.batch_headers import walk
from penstock.wire.transport.connection import Connection, Pending

RESPONSE_BYTES = 4 << 20
"""Of one answer at most. With many partitions some are left out, and others the next time: the order is random."""

ONE_BY_ONE = 8
"""Partitions per leader that are asked for alone, because their first batch did not fit in the sample: a broker sends
such a batch only where it is the first of its answer. It may be a megabyte, so no more of them at a time."""


def bytes_per_offset(records: memoryview, position: int, readable: int) -> float | None:
    """Stored bytes per offset from `position` on, by the headers of batches that lie below offset `readable`.

    The last batch may be cut short behind its header. None where there is nothing to go by.
    """
    counted = 0
    begin = follows = -1
    first_is_old_set = False
    for header in walk(records, position):
        if header.last >= readable:
            break
        if begin < 0:
            begin = min(header.first, position)
            first_is_old_set = header.is_old_set
        elif first_is_old_set:
            # Where the first set begins is nowhere said: go by those that follow it.
            begin, counted, first_is_old_set = follows, 0, False
        counted += header.size
        follows = header.last + 1
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
                connection.close()  # out of step: not to be reused
                raise
            silent = []
            for fetched in response.partitions:
                tp = TopicPartition(names.get(fetched.topic, ""), fetched.partition)
                if tp not in positions or fetched.error_code != 0:
                    continue
                readable = fetched.readable(connection.config.read_committed)
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
