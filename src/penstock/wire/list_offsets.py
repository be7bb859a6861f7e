"""The ListOffsets API: where partitions begin and end, and where a time lies in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from penstock.topics import TopicPartition
from penstock.wire.codes import NotYet, check
from penstock.wire.connection import Connection, Pending
from penstock.wire.metadata import Metadata

EARLIEST = -2
LATEST = -1
EARLIEST_LOCAL = -4

KNOWS_LOCAL = 8
"""The first version that tells a leader's own disk from tiered storage."""


def ask_offsets(
    connection: Connection,
    times: Mapping[TopicPartition, int],
    metadata: Metadata,
) -> Pending[dict[TopicPartition, int | NotYet]]:
    """Ask a leader for the offsets of its partitions at these times (ms, or one of the constants above).

    The answer has an offset per partition, or why it is worth asking again; a time past the last record gives -1.
    """
    version = connection.version(ListOffsetsRequest)
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    config = connection.config
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for tp, time in times.items():
        leader = metadata.leader(tp)
        by_topic[tp.topic].append(
            topic_class.ListOffsetsPartition(
                version=version,
                partition_index=tp.partition,
                current_leader_epoch=-1 if leader is None else leader.epoch,
                timestamp=EARLIEST if time == EARLIEST_LOCAL and version < KNOWS_LOCAL else time,
            )
        )
    request = ListOffsetsRequest(
        version=version,
        replica_id=-1,
        isolation_level=1 if config.read_committed else 0,
        topics=[topic_class(version=version, name=name, partitions=ps) for name, ps in by_topic.items()],
        timeout_ms=int(config.request_timeout * 1000),
    )
    answer = connection.ask(request, config.request_timeout)

    def read(timeout: float) -> dict[TopicPartition, int | NotYet]:
        found: dict[TopicPartition, int | NotYet] = {}
        for topic in answer(timeout).topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                try:
                    check(partition.error_code, f"offsets of {tp}")
                except NotYet as error:
                    found[tp] = error
                else:
                    sensible = partition.offset >= 0 or times.get(tp, LATEST) >= 0
                    found[tp] = (
                        partition.offset if sensible else NotYet(f"offset {partition.offset} of {tp} makes no sense")
                    )
        return found

    return read
