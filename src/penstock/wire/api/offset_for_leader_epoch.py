"""The OffsetForLeaderEpoch API: where the records of a leader epoch end. A truncated log is found by it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.topic_partition import TopicPartition, by_topic
from penstock.wire.api.error_codes import RetriableError, check
from penstock.wire.api.message import Api, Structure, array, int16, int32, int64, text
from penstock.wire.api.metadata import Metadata
from penstock.wire.transport.connection import Connection, Pending

FOR_CONSUMERS = 3
"""Before this version the API is for brokers, and needs their permissions."""

OFFSET_FOR_LEADER_EPOCH = Api(
    "OffsetForLeaderEpoch",
    23,
    lowest=FOR_CONSUMERS,
    highest=4,
    flexible=4,
    request_body=Structure(
        int32("replica_id"),
        array(
            "topics",
            text("topic"),
            array("partitions", int32("partition"), int32("current_leader_epoch"), int32("leader_epoch")),
        ),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        array(
            "topics",
            text("topic"),
            array("partitions", int16("error_code"), int32("partition"), int32("leader_epoch"), int64("end_offset")),
        ),
    ),
)

CONSUMER = -1
"""The replica id of a client that is not a broker."""

UNKNOWN_EPOCH = (-1, -1)


def ask_epoch_ends(
    connection: Connection,
    epochs: Mapping[TopicPartition, int],
    metadata: Metadata,
) -> Pending[tuple[dict[TopicPartition, tuple[int, int]], dict[TopicPartition, RetriableError]]]:
    """Ask a leader, per partition, for the largest epoch up to the given one, and the offset at which it ends.

    `UNKNOWN_EPOCH` if the log has no such epoch, or the broker is too old to tell. The second result has the partitions
    that are worth a retry, and why.
    """
    if not connection.speaks(OFFSET_FOR_LEADER_EPOCH, FOR_CONSUMERS):
        return lambda timeout: (dict.fromkeys(epochs, UNKNOWN_EPOCH), {})

    def asked(tp: TopicPartition) -> dict[str, int]:
        leader = metadata.leader(tp)
        current = -1 if leader is None else leader.epoch
        return {"partition": tp.partition, "current_leader_epoch": current, "leader_epoch": epochs[tp]}

    topics = [
        {"topic": name, "partitions": [asked(TopicPartition(name, number)) for number in numbers]}
        for name, numbers in by_topic(epochs).items()
    ]
    version = connection.version(OFFSET_FOR_LEADER_EPOCH)
    request = OFFSET_FOR_LEADER_EPOCH.request(version, replica_id=CONSUMER, topics=topics)
    response = connection.ask(request, connection.config.request_timeout)

    def read(timeout: float) -> tuple[dict[TopicPartition, tuple[int, int]], dict[TopicPartition, RetriableError]]:
        found: dict[TopicPartition, tuple[int, int]] = {}
        refused: dict[TopicPartition, RetriableError] = {}
        for topic in response(timeout).topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.topic, each.partition)
                if tp not in epochs:
                    continue
                try:
                    check(each.error_code, f"leader epochs of {tp}")
                except RetriableError as error:
                    refused[tp] = error
                else:
                    known = each.leader_epoch >= 0 and each.end_offset >= 0
                    found[tp] = (each.leader_epoch, each.end_offset) if known else UNKNOWN_EPOCH
        return found, refused

    return read
