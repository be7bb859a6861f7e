"""The APIs of a group's members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Kafka's classic group protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import BrokerError, ProtocolError
from penstock.wire.api.consumer_protocol import PROTOCOL_TYPE
from penstock.wire.api.error_codes import CODES, check, error_name
from penstock.wire.api.group_member import GroupMember, check_membership
from penstock.wire.api.message import Api, Structure, array, boolean, data, int16, int32, nullable_text, text
from penstock.wire.transport.connection import Connection

REASON_LENGTH = 255
"""Brokers keep this many characters of the reason for which a member joins or leaves."""

JOIN_GROUP = Api(
    "JoinGroup",
    11,
    lowest=0,
    highest=9,
    flexible=6,
    request_body=Structure(
        text("group_id"),
        int32("session_timeout_ms"),
        int32("rebalance_timeout_ms", since=1),
        text("member_id"),
        nullable_text("group_instance_id", since=5),
        text("protocol_type"),
        array("protocols", text("name"), data("metadata")),
        nullable_text("reason", since=8),
    ),
    response_body=Structure(
        int32("throttle_time_ms", since=2),
        int16("error_code"),
        int32("generation_id"),
        nullable_text("protocol_type", since=7),
        nullable_text("protocol_name"),
        text("leader"),
        boolean("skip_assignment", since=9, default=False),
        text("member_id"),
        array("members", text("member_id"), nullable_text("group_instance_id", since=5), data("metadata")),
    ),
)

SYNC_GROUP = Api(
    "SyncGroup",
    14,
    lowest=0,
    highest=5,
    flexible=4,
    request_body=Structure(
        text("group_id"),
        int32("generation_id"),
        text("member_id"),
        nullable_text("group_instance_id", since=3),
        nullable_text("protocol_type", since=5),
        nullable_text("protocol_name", since=5),
        array("assignments", text("member_id"), data("assignment")),
    ),
    response_body=Structure(
        int32("throttle_time_ms", since=1),
        int16("error_code"),
        nullable_text("protocol_type", since=5),
        nullable_text("protocol_name", since=5),
        data("assignment"),
    ),
)

HEARTBEAT = Api(
    "Heartbeat",
    12,
    lowest=0,
    highest=4,
    flexible=4,
    request_body=Structure(
        text("group_id"),
        int32("generation_id"),
        text("member_id"),
        nullable_text("group_instance_id", since=3),
    ),
    response_body=Structure(int32("throttle_time_ms", since=1), int16("error_code")),
)

LEAVE_GROUP = Api(
    "LeaveGroup",
    13,
    lowest=0,
    highest=5,
    flexible=4,
    request_body=Structure(
        text("group_id"),
        text("member_id", until=2),
        array(
            "members",
            text("member_id"),
            nullable_text("group_instance_id"),
            nullable_text("reason", since=5),
            since=3,
        ),
    ),
    response_body=Structure(
        int32("throttle_time_ms", since=1),
        int16("error_code"),
        array("members", text("member_id"), nullable_text("group_instance_id"), int16("error_code"), since=3),
    ),
)

STATIC_MEMBERS = {JOIN_GROUP: 5, SYNC_GROUP: 3, HEARTBEAT: 3, LEAVE_GROUP: 3}
"""The first versions that take a group.instance.id."""

HINTS = {
    CODES["INCONSISTENT_GROUP_PROTOCOL"]: "the other members of the group have no assignor in common with this one, or "
    "are not consumers. Set partition.assignment.strategy to an assignor that they know",
    CODES["INVALID_SESSION_TIMEOUT"]: "set session.timeout.ms between the broker's group.min.session.timeout.ms and "
    "group.max.session.timeout.ms",
    CODES["GROUP_MAX_SIZE_REACHED"]: "the broker's group.max.size allows no more members",
}


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the coordinator describes it to the leader."""

    member_id: str
    instance_id: str | None
    subscription: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """The coordinator's answer to a JoinGroup. Only the leader gets the members."""

    member: GroupMember
    assignor: str
    leader: bool
    skip_assignment: bool
    """A static member returns as leader: the assignment from before stays."""
    members: tuple[JoinedMember, ...]


class MemberIdRequired(Exception):
    """The coordinator wants another JoinGroup, with the member id that it has assigned."""

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.member_id = member_id


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
    """Join, or join again. Waits until all members have joined: up to `rebalance_timeout`."""
    response = _call(
        connection,
        JOIN_GROUP,
        group,
        member,
        timeout,
        session_timeout_ms=round(session_timeout * 1000),
        rebalance_timeout_ms=round(rebalance_timeout * 1000),
        protocol_type=PROTOCOL_TYPE,
        protocols=[{"name": name, "metadata": metadata} for name, metadata in protocols.items()],
        reason=reason[:REASON_LENGTH],
    )
    if response.error_code == CODES["MEMBER_ID_REQUIRED"]:
        raise MemberIdRequired(response.member_id)
    _check(response.error_code, f"joining group {group!r}")
    if response.protocol_name not in protocols:
        raise ProtocolError(f"group {group!r} chose assignor {response.protocol_name!r}, which was not offered")
    return Joined(
        GroupMember(response.member_id, response.generation_id, member.instance_id),
        response.protocol_name,
        response.leader == response.member_id,
        response.skip_assignment,
        tuple(JoinedMember(each.member_id, each.group_instance_id, each.metadata) for each in response.members),
    )


def ask_sync(
    connection: Connection,
    group: str,
    member: GroupMember,
    assignor: str,
    assignments: Mapping[str, bytes],
    timeout: float,
) -> bytes:
    """Send the assignments (as leader; none otherwise) and wait for this member's own."""
    response = _call(
        connection,
        SYNC_GROUP,
        group,
        member,
        timeout,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=assignor,
        assignments=[{"member_id": member_id, "assignment": each} for member_id, each in assignments.items()],
    )
    _check(response.error_code, f"synchronising group {group!r}")
    assignment: bytes = response.assignment
    return assignment


def ask_heartbeat(connection: Connection, group: str, member: GroupMember, timeout: float) -> None:
    """Keep the membership. Raises Rebalancing or MembershipLost if the coordinator answers so."""
    response = _call(connection, HEARTBEAT, group, member, timeout)
    _check(response.error_code, f"heartbeat in group {group!r}")


def ask_leave(connection: Connection, group: str, member: GroupMember, reason: str, timeout: float) -> None:
    leaving = {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "reason": reason[:REASON_LENGTH],
    }
    response = _call(connection, LEAVE_GROUP, group, member, timeout, members=[leaving])
    for error_code in (response.error_code, *(each.error_code for each in response.members)):
        _check(error_code, f"leaving group {group!r}")


def _call(connection: Connection, api: Api, group: str, member: GroupMember, timeout: float, **values: Any) -> Any:
    """Send a request in the name of a member."""
    version = connection.version(api)
    if member.instance_id is not None and version < STATIC_MEMBERS[api]:
        raise BrokerError(
            f"broker {connection.address} does not know static members (Kafka 2.3 and newer do). Remove "
            "group.instance.id"
        )
    request = api.request(
        version,
        group_id=group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        **values,
    )
    return connection.call(request, timeout)


def _check(error_code: int, what: str) -> None:
    check_membership(error_code, what)
    if error_code in HINTS:
        raise BrokerError(f"{what}: {error_name(error_code)}: {HINTS[error_code]}")
    check(error_code, what)
