"""What the answers to heartbeats of consumer groups (KIP-848) and of share groups (KIP-932) have in common.

The coordinator answers with the member's epoch and the partitions that it may have now.
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
    Structure,
    array,
    int16,
    int32,
    nullable_structure,
    nullable_text,
    numbers,
    topic_id,
)

JOINING = 0
LEAVING = -1
"""Epochs that a member sends to join and to leave."""

MIN_INTERVAL = 0.05
"""A coordinator that names a shorter interval, in seconds, is not followed."""

PARTITIONS = (topic_id("topic_id", since=0), numbers("partitions"))

HEARTBEAT_RESPONSE = Structure(
    int32("throttle_time_ms"),
    int16("error_code"),
    nullable_text("error_message"),
    nullable_text("member_id"),
    int32("member_epoch"),
    int32("heartbeat_interval_ms"),
    nullable_structure("assignment", array("topic_partitions", *PARTITIONS)),
)

PartitionsById: TypeAlias = Mapping[uuid.UUID, frozenset[int]]
"""Partition numbers by topic id."""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    member_id: str | None
    """The id that the coordinator has given to the member; None if it keeps its own."""
    epoch: int
    interval: float
    """The time in seconds until the next heartbeat is due."""
    assigned: PartitionsById | None
    """The partitions that the member may have now. None: those of before."""


def read_heartbeat_answer(
    response: Any, epoch: int, what: str, *, other_kind: str, hints: Mapping[int, str]
) -> HeartbeatAnswer:
    """Read the answer to a heartbeat of this epoch. `what` names the request in errors. `other_kind`: the hint if the
    group is of another kind. `hints`: those of other error codes."""
    if response.error_code != 0:
        _raise_error(response.error_code, response.error_message, epoch, what, other_kind, hints)
    if epoch >= JOINING >= response.member_epoch:
        raise ProtocolError(f"{what}: the coordinator answered with epoch {response.member_epoch}")
    assigned = None if response.assignment is None else _by_id(response.assignment.topic_partitions)
    interval = max(MIN_INTERVAL, response.heartbeat_interval_ms / 1000)
    return HeartbeatAnswer(response.member_id, response.member_epoch, interval, assigned)


def _by_id(listed: Iterable[Any]) -> dict[uuid.UUID, frozenset[int]]:
    found: dict[uuid.UUID, frozenset[int]] = {}
    for each in listed:
        if each.topic_id is not None:
            found[each.topic_id] = found.get(each.topic_id, frozenset()) | frozenset(each.partitions)
    return found


def _raise_error(
    error_code: int, message: str | None, epoch: int, what: str, other_kind: str, hints: Mapping[int, str]
) -> None:
    check_membership(error_code, what)
    said = f" ({message})" if message else ""
    hint = hints.get(error_code)
    if error_code == CODES["GROUP_ID_NOT_FOUND"]:
        if epoch > JOINING:
            raise MembershipLost(f"{what}: the group does not exist any more{said}", forgotten=True)
        hint = other_kind
    if hint is not None:
        raise BrokerError(f"{what}: {error_name(error_code)}{said}: {hint}")
    check(error_code, what + said)
