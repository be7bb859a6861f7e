"""The size of records at an offset, estimated from the batch headers of a small fetch. No record is decoded.

A header that makes no sense, or a batch past the end of the log, ends the sample.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.fetch_client import FetchClient, leader_positions, response_key
from penstock.wire.api.metadata import Metadata
from penstock.wire.batch_headers import scan_headers
from penstock.wire.transport.connection import Connection, Pending

RESPONSE_BYTES = 4 << 20
"""Of one response. With many partitions some are left out, and others the next time: the order is random."""

ONE_BY_ONE = 8
"""Partitions per leader that are asked for alone, because their first batch is larger than the sample: a broker sends
such a batch only as the first of a response. It may have a megabyte, so not more of them at a time."""


def bytes_per_offset(records: memoryview, position: int, readable: int) -> float | None:
    """Stored bytes per offset from `position` on, by the headers of batches below offset `readable`.

    The last batch may be cut short behind its header. None without a batch.
    """
    counted = 0
    begin = follows = -1
    first_is_old_set = False
    for header in scan_headers(records, position):
        if header.last >= readable:
            break
        if begin < 0:
            begin = min(header.first, position)
            first_is_old_set = header.is_old_set
        elif first_is_old_set:
            # The header of an old set does not say where it begins: count only the batches after it.
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
    asked = leader_positions(positions, metadata)
    client = FetchClient(connection)
    version = client.version_for(asked.values())
    by_key = {response_key(version, position): tp for tp, position in asked.items()}

    def send(partitions: Iterable[TopicPartition]) -> None:
        wanted = [asked[tp] for tp in partitions]
        client.send(wanted, version=version, max_bytes=RESPONSE_BYTES, partition_max_bytes=sample)

    def receive(timeout: float, found: dict[TopicPartition, float]) -> list[TopicPartition]:
        """Add the sizes of one response; returns the partitions that have data, none of which was sent."""
        omitted = []
        for fetched in client.receive(bytearray(sample), timeout).partitions:
            tp = by_key.get((fetched.topic, fetched.partition))
            if tp is None or fetched.error_code != 0:
                continue
            readable = fetched.readable(connection.config.read_committed)
            size = bytes_per_offset(fetched.records, positions[tp], readable)
            if size is not None:
                found[tp] = size
            elif len(fetched.records) == 0 and readable > positions[tp]:
                omitted.append(tp)
        return omitted

    send(random.sample(list(asked), len(asked)))

    def read(timeout: float) -> dict[TopicPartition, float]:
        found: dict[TopicPartition, float] = {}
        alone = receive(timeout, found)[:ONE_BY_ONE]
        for tp in alone:
            send([tp])
        for _ in alone:
            receive(timeout, found)
        return found

    return read
