"""The OffsetCommit API: commits the offsets of a group.

Commits come from a member of the group, or from a client outside of it, without member id and generation. A coordinator
accepts the latter while the group has no members.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import BrokerError
from penstock.model.topic_partition import TopicPartition, by_topic
from penstock.wire.api.error_codes import RetriableError, check, codes, error_name
from penstock.wire.api.group_member import NOT_A_MEMBER, GroupMember, check_membership
from penstock.wire.api.message import Api, Structure, array, int16, int32, int64, nullable_text, text
from penstock.wire.transport.connection import Connection

OFFSET_COMMIT = Api(
    "OffsetCommit",
    8,
    lowest=2,
    highest=9,  # later versions name topics by id, and say no more
    flexible=8,
    request_body=Structure(
        text("group_id"),
        int32("generation_id_or_member_epoch"),
        text("member_id"),
        nullable_text("group_instance_id", since=7),
        int64("retention_time_ms", until=4, default=-1),
        array(
            "topics",
            text("name"),
            array(
                "partitions",
                int32("partition_index"),
                int64("committed_offset"),
                int32("committed_leader_epoch", since=6),
                nullable_text("committed_metadata"),
            ),
        ),
    ),
    response_body=Structure(
        int32("throttle_time_ms", since=3),
        array("topics", text("name"), array("partitions", int32("partition_index"), int16("error_code"))),
    ),
)

IN_USE = codes(
    *("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"),
    *("FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"),
)
"""How a coordinator refuses a commit from outside while the group has members."""


def ask_commit(
    connection: Connection,
    group: str,
    offsets: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
    metadata: Mapping[TopicPartition, str],
    timeout: float,
    member: GroupMember = NOT_A_MEMBER,
) -> dict[TopicPartition, RetriableError]:
    """Commit. Returns the partitions that are worth a retry, and why; raises other errors.

    A member may get Rebalancing, MembershipLost or FencedInstance.
    """
    version = connection.version(OFFSET_COMMIT)
    topics = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": tp.partition,
                    "committed_offset": offsets[tp],
                    "committed_leader_epoch": epochs.get(tp, -1),
                    "committed_metadata": metadata.get(tp, ""),
                }
                for tp in (TopicPartition(name, number) for number in numbers)
            ],
        }
        for name, numbers in by_topic(offsets).items()
    ]
    request = OFFSET_COMMIT.request(
        version,
        group_id=group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=topics,
    )
    response = connection.call(request, timeout)
    refused = {tp: RetriableError(f"the response leaves out {tp}") for tp in offsets}
    for topic in response.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if member is not NOT_A_MEMBER:
                check_membership(each.error_code, f"commit of {tp} in group {group!r}")
            if each.error_code in IN_USE:
                raise BrokerError(
                    f"group {group!r} is in use by other consumers, so no other client can commit its offsets "
                    f"({error_name(each.error_code)} for {tp}). Choose another kafka.group.id, or end those consumers"
                )
            try:
                check(each.error_code, f"commit of {tp} in group {group!r}")
            except RetriableError as error:
                refused[tp] = error
            else:
                refused.pop(tp, None)
    return refused
