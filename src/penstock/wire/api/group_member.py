"""The identity of a group's member, and what a coordinator's error codes say about it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import BrokerError
from penstock.wire.api.error_codes import CODES

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class GroupMember:
    """How a consumer identifies itself to its coordinator. The defaults are those of a client outside the group."""

    member_id: str = ""
    generation: int = NO_GENERATION
    """In a group of the protocol `consumer`, the epoch of the member."""
    instance_id: str | None = None


NOT_A_MEMBER = GroupMember()


class Rebalancing(Exception):
    """The group is being rebalanced: join again. A member of the protocol `consumer` has a new epoch instead, which its
    next heartbeat brings."""


class MembershipLost(Exception):
    """The coordinator no longer counts this consumer as a member. `forgotten`: it does not know the member id."""

    def __init__(self, text: str, forgotten: bool = False) -> None:
        super().__init__(text)
        self.forgotten = forgotten


class FencedInstance(BrokerError):
    """Another consumer with the same group.instance.id has replaced this one."""


def check_membership(error_code: int, what: str) -> None:
    """Raise if an error code is about the membership of the consumer that asked. Other codes pass."""
    if error_code == CODES["REBALANCE_IN_PROGRESS"]:
        raise Rebalancing(f"{what}: the group is being rebalanced")
    if error_code == CODES["UNKNOWN_MEMBER_ID"]:
        raise MembershipLost(f"{what}: the coordinator does not know this member (any more)", forgotten=True)
    if error_code == CODES["ILLEGAL_GENERATION"]:
        raise MembershipLost(f"{what}: the group has gone on without this member")
    if error_code == CODES["STALE_MEMBER_EPOCH"]:
        raise Rebalancing(f"{what}: this member has another epoch by now")
    if error_code == CODES["FENCED_MEMBER_EPOCH"]:
        raise MembershipLost(f"{what}: the coordinator has fenced this member: its epoch is not the coordinator's")
    if error_code == CODES["FENCED_INSTANCE_ID"]:
        raise FencedInstance(
            f"{what}: another consumer with the same group.instance.id has replaced this one. Give each consumer of "
            "the group an id of its own"
        )
