"""The ConsumerGroupHeartbeat API: a member of a group of the protocol `consumer` (KIP-848).

One request joins, stays, acknowledges partitions and leaves. The coordinator computes the assignment, and answers with
the member's epoch and the partitions that it may have now.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.errors import BrokerError, ProtocolError
from penstock.wire.api.error_codes import CODES, RetriableError, check, error_name
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
LEAVING_FOR_A_RESTART = -2
"""Epochs that a member sends to join, to leave, and, as a static member, to leave and come back."""

KNOWS_PATTERNS = 1
"""From this version on the coordinator takes a regular expression: Kafka 4.0."""

MIN_INTERVAL = 0.05
"""A coordinator that names a shorter interval, in seconds, is not followed."""

_PARTITIONS = (topic_id("topic_id", since=0), numbers("partitions"))

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
        array("topic_partitions", *_PARTITIONS),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        int16("error_code"),
        nullable_text("error_message"),
        nullable_text("member_id"),
        int32("member_epoch"),
        int32("heartbeat_interval_ms"),
        nullable_structure("assignment", array("topic_partitions", *_PARTITIONS)),
    ),
)

PartitionsById: TypeAlias = Mapping[uuid.UUID, frozenset[int]]
"""Partition numbers by topic id."""

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


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    member_id: str | None
    """The id that the coordinator has given to the member; None if it keeps its own."""
    epoch: int
    interval: float
    """The time in seconds until the next heartbeat is due."""
    assigned: PartitionsById | None
    """The partitions that the member may have now. None: those of before."""


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
    _check(answer.error_code, answer.error_message, heartbeat.epoch, what)
    if heartbeat.epoch >= JOINING >= answer.member_epoch:
        raise ProtocolError(f"{what}: {connection.address} answered with epoch {answer.member_epoch}")
    assigned = None if answer.assignment is None else _by_id(answer.assignment.topic_partitions)
    interval = max(MIN_INTERVAL, answer.heartbeat_interval_ms / 1000)
    return HeartbeatAnswer(answer.member_id, answer.member_epoch, interval, assigned)


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
    if error_code == CODES["UNRELEASED_INSTANCE_ID"]:
        raise InstanceNotReleased(f"{what}: another member has the same group.instance.id{said}", error_code)
    if error_code == CODES["GROUP_ID_NOT_FOUND"]:
        if epoch > JOINING:
            raise MembershipLost(f"{what}: the group does not exist any more{said}", forgotten=True)
        raise BrokerError(f"{what}: {error_name(error_code)}{said}: {NOT_A_CONSUMER_GROUP}")
    if error_code in HINTS:
        raise BrokerError(f"{what}: {error_name(error_code)}{said}: {HINTS[error_code]}")
    check(error_code, what + said)
