"""The ShareGroupHeartbeat API: a member of a share group (KIP-932).

One request joins, stays and leaves. The coordinator answers with the partitions that the member may fetch. Several
members may have the same partition, so nothing is acknowledged when an assignment changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import BrokerError
from penstock.wire.api.error_codes import CODES
from penstock.wire.api.heartbeat_answer import HEARTBEAT_RESPONSE, HeartbeatAnswer, read_heartbeat_answer
from penstock.wire.api.message import Api, Structure, int32, nullable_text, text, texts
from penstock.wire.transport.connection import Connection

SHARE_GROUP_HEARTBEAT = Api(
    "ShareGroupHeartbeat",
    76,
    lowest=1,
    highest=1,
    flexible=0,
    request_body=Structure(
        text("group_id"),
        text("member_id"),
        int32("member_epoch"),
        nullable_text("rack_id"),
        texts("subscribed_topic_names"),
    ),
    response_body=HEARTBEAT_RESPONSE,
)
"""Version 0 was the early access of Kafka 4.0. Kafka 4.1 does not take it."""

NEEDS_KAFKA = (
    "Share groups need Kafka 4.1 or newer with the feature share.version=1, which is enabled by default from 4.2 on. "
    "Check it with kafka-features.sh describe, or use create_message_streams"
)

NOT_A_SHARE_GROUP = (
    "a group of this name exists, and is not a share group. Choose another group.id, or delete that group"
)

HINTS = {
    CODES["UNSUPPORTED_VERSION"]: NEEDS_KAFKA,
    CODES["GROUP_MAX_SIZE_REACHED"]: "the broker's group.share.max.size allows no more members",
    CODES["INCONSISTENT_GROUP_PROTOCOL"]: NOT_A_SHARE_GROUP,
}


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """A heartbeat. Fields that are None have not changed since the last one."""

    member_id: str
    epoch: int
    rack: str | None = None
    topics: tuple[str, ...] | None = None


def ask_share_heartbeat(
    connection: Connection, group: str, heartbeat: ShareHeartbeat, timeout: float
) -> HeartbeatAnswer:
    """Send a heartbeat. A member may get MembershipLost."""
    what = f"heartbeat in share group {group!r}"
    if not connection.speaks(SHARE_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT.lowest):
        raise BrokerError(f"{what}: broker {connection.address} does not offer share groups. {NEEDS_KAFKA}")
    request = SHARE_GROUP_HEARTBEAT.request(
        connection.version(SHARE_GROUP_HEARTBEAT),
        group_id=group,
        member_id=heartbeat.member_id,
        member_epoch=heartbeat.epoch,
        rack_id=heartbeat.rack,
        subscribed_topic_names=heartbeat.topics,
    )
    answer = connection.call(request, timeout)
    return read_heartbeat_answer(answer, heartbeat.epoch, what, other_kind=NOT_A_SHARE_GROUP, hints=HINTS)
