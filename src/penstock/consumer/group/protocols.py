"""The group protocols behind one interface: the rest of the consumer does not know which one runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.assignment import PartitionOwner
from penstock.consumer.group.consumer_membership import ConsumerMembership
from penstock.consumer.group.membership import Membership
from penstock.consumer.subscription import StreamSubscription
from penstock.consumer.wait_reason import MembershipStatus
from penstock.metrics.group_counters import GroupCounters
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import GroupMember


class GroupMembership(Protocol):
    """One member of one group. `start` and `close` are called once each."""

    rebalances: int
    rebalance_seconds: float
    last_rebalance_seconds: float | None
    counters: GroupCounters

    def start(self) -> None: ...

    def close(self, timeout: float, leave: bool = True) -> None: ...

    def status(self) -> MembershipStatus: ...

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int] | None = None,
        timeout: float | None = None,
    ) -> None: ...

    def member_for(self, partitions: Collection[TopicPartition]) -> GroupMember: ...

    def offset_reader(self) -> GroupMember: ...


def new_membership(
    config: ConsumerConfig, consumer_id: str, subscription: StreamSubscription, owner: PartitionOwner
) -> GroupMembership:
    kind = ConsumerMembership if config.server_assigns else Membership
    return kind(config, consumer_id, subscription, owner)
