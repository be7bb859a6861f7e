"""The OffsetForLeaderEpoch API: where the records that a leader wrote end, by which a cut-off log is found out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError, check
from penstock.wire.api.metadata import Metadata
from penstock.wire.transport.connection import Connection, Pending

FOR_CONSUMERS = 3
"""Before this version the API is for brokers, and needs their permissions."""

UNKNOWN_EPOCH = (-1, -1)


def ask_epoch_ends(
    connection: Connection,
    epochs: Mapping[TopicPartition, int],
    metadata: Metadata,
) -> Pending[tuple[dict[TopicPartition, tuple[int, int]], dict[TopicPartition, RetriableError]]]:
    """Ask a leader, per partition, for the largest epoch up to the given one, and the offset at which it ends.

    `UNKNOWN_EPOCH` where the log has no such epoch, or the broker is too old to tell. Beside them the partitions to ask
    again, and why.
    """
    if not connection.speaks(OffsetForLeaderEpochRequest, FOR_CONSUMERS):
        return lambda timeout: (dict.fromkeys(epochs, UNKNOWN_EPOCH), {})
    version = connection.version(OffsetForLeaderEpochRequest)
    topic_class = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for tp, epoch in epochs.items():
        leader = metadata.leader(tp)
        by_topic[tp.topic].append(
            topic_class.OffsetForLeaderPartition(
                version=version,
                partition=tp.partition,
                current_leader_epoch=-1 if leader is None else leader.epoch,
                leader_epoch=epoch,
            )
        )
    request = OffsetForLeaderEpochRequest(
        version=version,
        replica_id=-1,
        topics=[topic_class(version=version, topic=name, partitions=ps) for name, ps in by_topic.items()],
    )
    answer = connection.ask(request, connection.config.request_timeout)

    def read(timeout: float) -> tuple[dict[TopicPartition, tuple[int, int]], dict[TopicPartition, RetriableError]]:
        found: dict[TopicPartition, tuple[int, int]] = {}
        refused: dict[TopicPartition, RetriableError] = {}
        for topic in answer(timeout).topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.topic, partition.partition)
                if tp not in epochs:
                    continue
                try:
                    check(partition.error_code, f"leader epochs of {tp}")
                except RetriableError as error:
                    refused[tp] = error
                else:
                    epoch, end = partition.leader_epoch, partition.end_offset
                    found[tp] = (epoch, end) if epoch >= 0 and end >= 0 else UNKNOWN_EPOCH
        return found, refused

    return read
