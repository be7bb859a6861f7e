"""A member of a group of the protocol `consumer` (KIP-848), as a state machine (H5). Pure: no lock, no clock, no I/O.

    JOINING ──answer──> RECONCILING <──an assignment that differs──> STABLE
       ^                     │
       │                     │ revoke what left, acknowledge, then take what is new, acknowledge
       │ rejoin              v
     FENCED <──fenced, or forgotten──  any of them  ──leave──> LEFT

The coordinator gives a partition to another member when a heartbeat says that this member does not own it any more. So
the partitions of a heartbeat are exact, or more than those that are read, never fewer:

- A partition is among the owned ones before work on it starts, and until it is revoked.
- While an answer to a heartbeat with partitions is missing, no partition is taken. The coordinator may have given a
  partition of an older assignment to another member.
- What has left is revoked and acknowledged first, so that others need not wait until this member has started on new
  partitions.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from penstock.wire.api.consumer_group_heartbeat import LEAVING_FOR_A_RESTART, MemberHeartbeat
from penstock.wire.api.group_member import GroupMember
from penstock.wire.api.heartbeat_answer import JOINING, LEAVING, HeartbeatAnswer, PartitionsById


class State(Enum):
    JOINING = "joining"
    RECONCILING = "reconciling"
    STABLE = "stable"
    FENCED = "fenced"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Interest:
    """What a member subscribes to: topics by name, or by a regular expression that the coordinator evaluates."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Revoke:
    """Stop reading these partitions, then call `revoked`."""

    partitions: PartitionsById


@dataclass(frozen=True, slots=True)
class Take:
    """Call `taking`, start to read these partitions, then call `taken`. None are new if others were revoked only, or
    if the coordinator has none for a member that joins."""

    partitions: PartitionsById


Step: TypeAlias = Revoke | Take


class ConsumerMember:
    """The caller holds a lock: one thread sends heartbeats, another carries out steps."""

    def __init__(
        self,
        member_id: str,
        interest: Interest,
        *,
        rebalance_timeout: float,
        instance_id: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self._member_id = member_id
        self._interest = interest
        self._rebalance_timeout = rebalance_timeout
        self._instance_id = instance_id
        self._rack = rack
        self._assignor = assignor
        self._epoch = JOINING
        self._target: PartitionsById = {}
        """What the coordinator has assigned."""
        self._owned: PartitionsById = {}
        self._known: Interest | None = None
        """The interest that the coordinator is known to have."""
        self._says_all = True
        """Whether the next heartbeat has all fields: at a join, and after a heartbeat that was not answered."""
        self._says_owned = False
        """Whether the next heartbeat acknowledges partitions."""
        self._is_uncertain = False
        """Whether a heartbeat with partitions is not answered yet."""
        self._owes_take = True
        """Whether a `Take` is due even if no partition is new: each assignment ends with one."""
        self._sent: MemberHeartbeat | None = None
        self._fenced = False
        self._left = False
        self.was_sent = False
        """Whether the coordinator may know this member: a heartbeat was sent since the last join."""

    @property
    def state(self) -> State:
        if self._left:
            return State.LEFT
        if self._fenced:
            return State.FENCED
        if self._epoch == JOINING:
            return State.JOINING
        is_settled = self._target == self._owned and not (self._says_owned or self._owes_take)
        return State.STABLE if is_settled else State.RECONCILING

    @property
    def identity(self) -> GroupMember | None:
        """The member as which to commit; None if it is not a member now."""
        if self.state in (State.JOINING, State.FENCED, State.LEFT):
            return None
        return GroupMember(self._member_id, self._epoch, self._instance_id)

    @property
    def member_id(self) -> str:
        return self._member_id

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def owned(self) -> PartitionsById:
        return self._owned

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    @property
    def sends(self) -> bool:
        """Whether heartbeats are sent at all."""
        return not (self._fenced or self._left)

    @property
    def sends_now(self) -> bool:
        """Whether a heartbeat must not wait for its interval."""
        if not self.sends or self._sent is not None:
            return False
        return self._epoch == JOINING or self._says_all or self._says_owned or self._interest != self._known

    def heartbeat(self) -> MemberHeartbeat:
        """The next heartbeat. Call `answered`, `unanswered` or `fenced` before the next one."""
        assert self.sends
        everything = self._says_all or self._epoch == JOINING
        new = everything or self._interest != self._known
        owned = self._owned if everything or self._says_owned else None
        self._sent = MemberHeartbeat(
            self._member_id,
            self._epoch,
            self._instance_id,
            self._rack if everything else None,
            self._rebalance_timeout if everything else None,
            self._interest.topics if new else None,
            self._interest.pattern if new else None,
            self._assignor if everything else None,
            owned,
        )
        self._says_all = self._says_owned = False
        self._is_uncertain = self._is_uncertain or owned is not None
        self.was_sent = True
        return self._sent

    def answered(self, sent: MemberHeartbeat, answer: HeartbeatAnswer) -> bool:
        """The coordinator has answered. Returns whether the epoch is a new one."""
        if sent is not self._sent:  # the answer is for a membership that has ended meanwhile
            return False
        self._sent = None
        self._is_uncertain = False
        if sent.topics is not None:
            self._known = Interest(sent.topics, sent.pattern)
        if answer.member_id:
            self._member_id = answer.member_id
        if answer.assigned is not None:
            self._target = {topic: each for topic, each in answer.assigned.items() if each}
        changed = answer.epoch != self._epoch
        self._epoch = answer.epoch
        return changed

    def unanswered(self, sent: MemberHeartbeat) -> None:
        """A heartbeat has failed, and the coordinator may have received it or not. The next one has all fields."""
        if sent is self._sent:
            self._sent = None
            self._says_all = True

    # --- steps --------------------------------------------------------------------------------------------------------

    def step(self) -> Step | None:
        """What to do next to reach the assignment; None for now."""
        if self.identity is None or self._is_uncertain or self._says_owned:
            return None
        if leaving := without(self._owned, self._target):
            return Revoke(leaving)
        new = without(self._target, self._owned)
        return Take(new) if new or self._owes_take else None

    def revoked(self, partitions: PartitionsById) -> None:
        self._owned = without(self._owned, partitions)
        self._says_owned = self._owes_take = True

    def taking(self, partitions: PartitionsById) -> None:
        self._owned = together(self._owned, partitions)

    def taken(self, partitions: PartitionsById) -> None:
        self._owes_take = False
        self._says_owned = self._says_owned or bool(partitions)

    def subscribe(self, interest: Interest) -> None:
        self._interest = interest

    # --- the end of a membership --------------------------------------------------------------------------------------

    def fenced(self, sent: MemberHeartbeat | None = None) -> bool:
        """The coordinator does not count this member any more. Revoke all partitions as lost, then call `rejoin`.

        `sent`: the heartbeat whose answer said so. Returns False if it is of a membership that has ended already.
        """
        if sent is not None and sent is not self._sent:
            return False
        self._fenced = True
        self._sent = None
        return True

    def rejoin(self) -> None:
        """Join again, under the same id."""
        self._fenced = False
        self._epoch = JOINING
        self._target = self._owned = {}
        self._known = None
        self._says_all = self._owes_take = True
        self._says_owned = self._is_uncertain = self.was_sent = False
        self._sent = None

    def leave(self) -> MemberHeartbeat | None:
        """The last heartbeat; None if the coordinator does not know this member. A static member only says that it
        restarts, and keeps its partitions for its session."""
        knows = self.was_sent and not self._fenced and not self._left
        self._left = True
        if not knows:
            return None
        epoch = LEAVING if self._instance_id is None else LEAVING_FOR_A_RESTART
        return MemberHeartbeat(self._member_id, epoch, self._instance_id)


def without(some: PartitionsById, others: PartitionsById) -> PartitionsById:
    left = {topic: each - others.get(topic, frozenset()) for topic, each in some.items()}
    return {topic: each for topic, each in left.items() if each}


def together(some: PartitionsById, others: PartitionsById) -> PartitionsById:
    found: dict[uuid.UUID, frozenset[int]] = dict(some)
    for topic, each in others.items():
        found[topic] = found.get(topic, frozenset()) | each
    return found
