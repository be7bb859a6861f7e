"""The ConsumerGroupHeartbeat API: a member of a group of the protocol `consumer` (KIP-848).

One request joins, stays, acknowledges partitions and leaves. The coordinator computes the assignment, and answers with
the member's epoch and the partitions that it may have now.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import BrokerError
from penstock.wire.api.error_codes import CODES, RetriableError
from penstock.wire.api.heartbeat_answer import (
    HEARTBEAT_RESPONSE,
    PARTITIONS,
    HeartbeatAnswer,
    PartitionsById,
    read_heartbeat_answer,
)
from penstock.wire.api.message import Api, Structure, array, int32, nullable_text, text, texts
from penstock.wire.transport.connection import Connection

LEAVING_FOR_A_RESTART = -2
"""The epoch that a static member sends to leave and come back. JOINING and LEAVING are those of every heartbeat."""

KNOWS_PATTERNS = 1
"""From this version on the coordinator takes a regular expression: Kafka 4.0."""

CONSUMER_GROUP_HEARTBEAT = Api(
    "ConsumerGroupHeartbeat",
    68,
    lowest=0,
    highest=1,
    flexible=0,
    request_body=Structure(
        text("group_id"),
        text("member_id"),
        int32("member_epoch"),
        nullable_text("instance_id"),
        nullable_text("rack_id"),
        int32("rebalance_timeout_ms"),
        texts("subscribed_topic_names"),
        nullable_text("subscribed_topic_regex", since=KNOWS_PATTERNS),
        nullable_text("server_assignor"),
        array("topic_partitions", *PARTITIONS),
    ),
    response_body=HEARTBEAT_RESPONSE,
)

HINTS = {
    CODES["UNSUPPORTED_ASSIGNOR"]: "set group.remote.assignor to an assignor that the brokers have "
    "(group.consumer.assignors)",
    CODES["INVALID_REGULAR_EXPRESSION"]: "the brokers read the pattern of a topic filter as RE2. Write it in RE2's "
    "syntax",
    CODES["GROUP_MAX_SIZE_REACHED"]: "the broker's group.consumer.max.size allows no more members",
    CODES["UNSUPPORTED_VERSION"]: "the brokers know the group protocol consumer, and have not enabled it. Enable it "
    "(group.version=1), or remove group.protocol",
}

NOT_A_CONSUMER_GROUP = (
    "the group is a classic one, and the brokers do not convert it. Either group.consumer.migration.policy does not "
    "allow that, or a member has sent user data, as Penstock's classic members with several streams do unless "
    "group.user.data is false. "
    "Change that, or stop all classic members first"
)


@dataclass(frozen=True, slots=True)
class MemberHeartbeat:
    """A heartbeat. Fields that are None have not changed since the last one."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout: float | None = None
    """In seconds."""
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: PartitionsById | None = None


class InstanceNotReleased(RetriableError):
    """Another member has this group.instance.id, and has neither left nor been silent for its session."""


def ask_group_heartbeat(
    connection: Connection, group: str, heartbeat: MemberHeartbeat, timeout: float
) -> HeartbeatAnswer:
    """Send a heartbeat. A member may get MembershipLost, FencedInstance or InstanceNotReleased."""
    if not connection.speaks(CONSUMER_GROUP_HEARTBEAT, 0):
        raise BrokerError(
            f"broker {connection.address} does not know the group protocol consumer (Kafka 4.0 and newer do). Remove "
            "group.protocol, or set it to classic"
        )
    version = connection.version(CONSUMER_GROUP_HEARTBEAT)
    what = f"heartbeat in group {group!r}"
    if heartbeat.pattern and version < KNOWS_PATTERNS:
        raise BrokerError(f"{what}: broker {connection.address} takes no regular expressions (Kafka 4.0 and newer do)")
    seconds, owned = heartbeat.rebalance_timeout, heartbeat.owned
    request = CONSUMER_GROUP_HEARTBEAT.request(
        version,
        group_id=group,
        member_id=heartbeat.member_id,
        member_epoch=heartbeat.epoch,
        instance_id=heartbeat.instance_id,
        rack_id=heartbeat.rack,
        rebalance_timeout_ms=-1 if seconds is None else round(seconds * 1000),
        subscribed_topic_names=heartbeat.topics,
        subscribed_topic_regex=heartbeat.pattern,
        server_assignor=heartbeat.assignor,
        topic_partitions=None
        if owned is None
        else [{"topic_id": topic, "partitions": sorted(each)} for topic, each in sorted(owned.items())],
    )
    answer = connection.call(request, timeout)
    if answer.error_code == CODES["UNRELEASED_INSTANCE_ID"]:
        said = f" ({answer.error_message})" if answer.error_message else ""
        raise InstanceNotReleased(f"{what}: another member has the same group.instance.id{said}", answer.error_code)
    return read_heartbeat_answer(answer, heartbeat.epoch, what, other_kind=NOT_A_CONSUMER_GROUP, hints=HINTS)
