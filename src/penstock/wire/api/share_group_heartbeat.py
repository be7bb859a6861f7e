"""The ShareGroupHeartbeat API: a member of a share group (KIP-932).

One request joins, stays and leaves. The coordinator answers with the partitions that the member may fetch. Several
members may have the same partition, so nothing is acknowledged when an assignment changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.errors import BrokerError, ProtocolError
from penstock.wire.api.error_codes import CODES, check, error_name
from penstock.wire.api.group_member import MembershipLost, check_membership
from penstock.wire.api.message import (
    Api,
    Structure,
    array,
    int16,
    int32,
    nullable_structure,
    nullable_text,
    numbers,
    text,
    texts,
    topic_id,
)
from penstock.wire.transport.connection import Connection

JOINING = 0
LEAVING = -1
"""Epochs that a member sends to join and to leave."""

MIN_INTERVAL = 0.05
"""A coordinator that names a shorter interval, in seconds, is not followed."""

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
    response_body=Structure(
        int32("throttle_time_ms"),
        int16("error_code"),
        nullable_text("error_message"),
        nullable_text("member_id"),
        int32("member_epoch"),
        int32("heartbeat_interval_ms"),
        nullable_structure(
            "assignment", array("topic_partitions", topic_id("topic_id", since=0), numbers("partitions"))
        ),
    ),
)
"""Version 0 was the early access of Kafka 4.0. Kafka 4.1 does not take it."""

SharedById: TypeAlias = Mapping[uuid.UUID, frozenset[int]]
"""Partition numbers by topic id."""

NEEDS_KAFKA = (
    "Share groups need Kafka 4.1 or newer with the feature share.version=1, which is enabled by default from 4.2 on. "
    "Check it with kafka-features.sh describe, or use create_message_streams"
)

HINTS = {
    CODES["UNSUPPORTED_VERSION"]: NEEDS_KAFKA,
    CODES["GROUP_MAX_SIZE_REACHED"]: "the broker's group.share.max.size allows no more members",
}

NOT_A_SHARE_GROUP = (
    "a group of this name exists, and is not a share group. Choose another group.id, or delete that group"
)


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """A heartbeat. Fields that are None have not changed since the last one."""

    member_id: str
    epoch: int
    rack: str | None = None
    topics: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ShareHeartbeatAnswer:
    epoch: int
    interval: float
    """The time in seconds until the next heartbeat is due."""
    assigned: SharedById | None
    """The partitions that the member may fetch. None: those of before."""


def ask_share_heartbeat(
    connection: Connection, group: str, heartbeat: ShareHeartbeat, timeout: float
) -> ShareHeartbeatAnswer:
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
    _check(answer.error_code, answer.error_message, heartbeat.epoch, what)
    if heartbeat.epoch >= JOINING >= answer.member_epoch:
        raise ProtocolError(f"{what}: {connection.address} answered with epoch {answer.member_epoch}")
    assigned = None if answer.assignment is None else _by_id(answer.assignment.topic_partitions)
    return ShareHeartbeatAnswer(answer.member_epoch, max(MIN_INTERVAL, answer.heartbeat_interval_ms / 1000), assigned)


def _by_id(listed: Iterable[Any]) -> dict[uuid.UUID, frozenset[int]]:
    found: dict[uuid.UUID, frozenset[int]] = {}
    for each in listed:
        if each.topic_id is not None:
            found[each.topic_id] = found.get(each.topic_id, frozenset()) | frozenset(each.partitions)
    return found


def _check(error_code: int, message: str | None, epoch: int, what: str) -> None:
    if error_code == 0:
        return
    check_membership(error_code, what)
    said = f" ({message})" if message else ""
    if error_code == CODES["GROUP_ID_NOT_FOUND"]:
        if epoch > JOINING:
            raise MembershipLost(f"{what}: the group does not exist any more{said}", forgotten=True)
        raise BrokerError(f"{what}: {error_name(error_code)}{said}: {NOT_A_SHARE_GROUP}")
    if error_code == CODES["INCONSISTENT_GROUP_PROTOCOL"]:
        raise BrokerError(f"{what}: {error_name(error_code)}{said}: {NOT_A_SHARE_GROUP}")
    if error_code in HINTS:
        raise BrokerError(f"{what}: {error_name(error_code)}{said}: {HINTS[error_code]}")
    check(error_code, what + said)
