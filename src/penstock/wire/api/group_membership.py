"""What makes a member of a group: join, sync, heartbeat, leave; and the bytes members send each other.

Kafka's classic group protocol. The coordinator does not look into those bytes: it hands every member's subscription to
the one it names leader, and the leader's assignments to the members.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import kafka.errors as kafka_errors
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from penstock.errors import BrokerError, ProtocolError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import check
from penstock.wire.api.group_offsets import GroupMember, check_membership
from penstock.wire.transport.connection import Connection

PROTOCOL_TYPE = "consumer"

MEMBER_ID_REQUIRED: int = kafka_errors.MemberIdRequiredError.errno

WAYS_OUT = {
    kafka_errors.InconsistentGroupProtocolError.errno: "the other members of the group have no assignor in common with "
    "this one, or the group is none of consumers. Set partition.assignment.strategy to one that they know",
    kafka_errors.InvalidSessionTimeoutError.errno: "set session.timeout.ms between the broker's "
    "group.min.session.timeout.ms and group.max.session.timeout.ms",
    kafka_errors.GroupMaxSizeReachedError.errno: "the broker's group.max.size allows no more members",
}


LARGEST_SAID = 4 << 20
"""Of one member or to one, in bytes. Four of them name a partition, which takes a hundred once it is read. Brokers hand
over up to 100 MB, though they could not keep them."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member tells the leader."""

    topics: tuple[str, ...]
    user_data: bytes = b""
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the coordinator hands it to the leader."""

    member_id: str
    instance_id: str | None
    subscription: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """The coordinator's answer to a JoinGroup. Only the leader is told of the members."""

    member: GroupMember
    assignor: str
    leader: bool
    skip_assignment: bool
    """A static member that comes back as leader: the assignment of before stands."""
    members: tuple[JoinedMember, ...]


class MemberIdRequired(Exception):
    """The coordinator wants to be asked again, under the id that it has given us."""

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.member_id = member_id


# --- requests ---------------------------------------------------------------------------------------------------------


def ask_join(
    connection: Connection,
    group: str,
    member: GroupMember,
    protocols: Mapping[str, bytes],
    *,
    session_timeout: float,
    rebalance_timeout: float,
    reason: str,
    timeout: float,
) -> Joined:
    """Join, or join again. Waits until all members have: as long as `rebalance_timeout`."""
    version = connection.version(JoinGroupRequest)
    _needs_static(connection, member, version, 5)
    protocol_class = JoinGroupRequest.JoinGroupRequestProtocol
    request = JoinGroupRequest(
        version=version,
        group_id=group,
        session_timeout_ms=round(session_timeout * 1000),
        rebalance_timeout_ms=round(rebalance_timeout * 1000),
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[protocol_class(version=version, name=name, metadata=data) for name, data in protocols.items()],
        reason=reason[:255],
    )
    response = connection.call(request, timeout)
    if response.error_code == MEMBER_ID_REQUIRED:
        raise MemberIdRequired(response.member_id)
    _check(response.error_code, f"joining group {group!r}")
    if response.protocol_name not in protocols:
        raise ProtocolError(f"group {group!r} chose assignor {response.protocol_name!r}, which was not offered")
    return Joined(
        GroupMember(response.member_id, response.generation_id, member.instance_id),
        response.protocol_name,
        response.leader == response.member_id,
        bool(getattr(response, "skip_assignment", False)),
        tuple(
            JoinedMember(m.member_id, getattr(m, "group_instance_id", None), bytes(m.metadata))
            for m in response.members
        ),
    )


def ask_sync(
    connection: Connection,
    group: str,
    member: GroupMember,
    assignor: str,
    assignments: Mapping[str, bytes],
    timeout: float,
) -> bytes:
    """Hand in the assignments (the leader; nothing otherwise) and wait for our own."""
    version = connection.version(SyncGroupRequest)
    _needs_static(connection, member, version, 3)
    assignment_class = SyncGroupRequest.SyncGroupRequestAssignment
    request = SyncGroupRequest(
        version=version,
        group_id=group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=assignor,
        assignments=[
            assignment_class(version=version, member_id=member_id, assignment=data)
            for member_id, data in assignments.items()
        ],
    )
    response = connection.call(request, timeout)
    _check(response.error_code, f"synchronising group {group!r}")
    return bytes(response.assignment)


def ask_heartbeat(connection: Connection, group: str, member: GroupMember, timeout: float) -> None:
    """Still here. Raises Rebalancing or MembershipLost when that is the answer."""
    version = connection.version(HeartbeatRequest)
    _needs_static(connection, member, version, 3)
    request = HeartbeatRequest(
        version=version,
        group_id=group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )
    _check(connection.call(request, timeout).error_code, f"heartbeat in group {group!r}")


def ask_leave(connection: Connection, group: str, member: GroupMember, reason: str, timeout: float) -> None:
    version = connection.version(LeaveGroupRequest)
    if version >= 3:
        leaving = LeaveGroupRequest.MemberIdentity(
            version=version,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            reason=reason[:255],
        )
        request = LeaveGroupRequest(version=version, group_id=group, members=[leaving])
    else:
        request = LeaveGroupRequest(version=version, group_id=group, member_id=member.member_id)
    response = connection.call(request, timeout)
    for error_code in (response.error_code, *(each.error_code for each in getattr(response, "members", None) or ())):
        _check(error_code, f"leaving group {group!r}")


def _check(error_code: int, what: str) -> None:
    check_membership(error_code, what)
    if error_code in WAYS_OUT:
        said = kafka_errors.for_code(error_code).__name__
        raise BrokerError(f"{what}: {said}: {WAYS_OUT[error_code]}")
    check(error_code, what)


def _needs_static(connection: Connection, member: GroupMember, version: int, lowest: int) -> None:
    if member.instance_id is not None and version < lowest:
        raise BrokerError(
            f"broker {connection.address} knows no static members (Kafka 2.3 and newer do). Leave out group.instance.id"
        )


# --- what members send each other -------------------------------------------------------------------------------------


def encode_subscription(subscription: Subscription) -> bytes:
    """In the newest version: older clients read what they know of it and leave the rest."""
    version = ConsumerProtocolSubscription.max_version
    partition_class = ConsumerProtocolSubscription.TopicPartition
    encoded: bytes = ConsumerProtocolSubscription(
        version=version,
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            partition_class(version=version, topic=topic, partitions=numbers)
            for topic, numbers in _by_topic(subscription.owned).items()
        ],
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    ).encode()
    return encoded


def decode_subscription(data: bytes) -> Subscription:
    """Raises ValueError for bytes that are none: another client wrote them, and it may be mistaken."""
    try:
        _check_size(data)
        read = ConsumerProtocolSubscription.decode(data)
        owned = getattr(read, "owned_partitions", None)
        generation = getattr(read, "generation_id", None)
        return Subscription(
            tuple(dict.fromkeys(read.topics or ())),
            bytes(read.user_data or b""),
            tuple(_partitions(owned or ())),
            -1 if generation is None else generation,
            getattr(read, "rack_id", None),
        )
    except Exception as error:  # kafka-python's decoders fail in many ways on bytes that mean nothing
        raise ValueError(f"no subscription: {error or type(error).__name__}") from error


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes = b"") -> bytes:
    # Version 1, as Java writes it: there is nothing in the newer ones.
    partition_class = ConsumerProtocolAssignment.TopicPartition
    encoded: bytes = ConsumerProtocolAssignment(
        version=1,
        assigned_partitions=[
            partition_class(version=1, topic=topic, partitions=numbers)
            for topic, numbers in _by_topic(partitions).items()
        ],
        user_data=user_data,
    ).encode()
    return encoded


def decode_assignment(data: bytes) -> tuple[list[TopicPartition], bytes]:
    """A member's partitions and the leader's user data. Raises ValueError for bytes that are none."""
    if not data:  # for a member that the leader left out
        return [], b""
    try:
        _check_size(data)
        read = ConsumerProtocolAssignment.decode(data)
        return sorted(set(_partitions(read.assigned_partitions or ()))), bytes(read.user_data or b"")
    except Exception as error:  # see above
        raise ValueError(f"no assignment: {error or type(error).__name__}") from error


def _check_size(data: bytes) -> None:
    if len(data) > LARGEST_SAID:
        raise ValueError(f"{len(data)} bytes, more than {LARGEST_SAID}")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for tp in sorted(partitions):
        found[tp.topic].append(tp.partition)
    return found


def _partitions(topics: Sequence[Any]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions if number >= 0)
