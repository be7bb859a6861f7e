"""The contents of JoinGroup and SyncGroup: a member's subscription, and the leader's assignments. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.consumer.group.assignment import Assignment
from penstock.consumer.group.assignors import Member, assign_threads, divide, thread_id
from penstock.consumer.group.user_data import (
    AssignmentUserData,
    SubscriptionUserData,
    encode_for_members,
    read_from_members,
)
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from penstock.wire.api.group_member import GroupMember
from penstock.wire.api.group_membership import Joined, JoinedMember

log = get_logger(__name__)

MAX_ASSIGNMENT_USER_DATA = 256 << 10
"""The coordinator stores a generation with all its user data as one record of at most `message.max.bytes`, 1 MB by
default. A quarter of that is enough for some hundred thousand (partition, member) pairs."""


# --- JoinGroup: a member's subscription -------------------------------------------------------------------------------


def encode_member(
    member: GroupMember, user_data: SubscriptionUserData, rack: str, *, with_user_data: bool = True
) -> bytes:
    """The subscription that a member joins with. It is the same for every assignor that the member supports.

    Without user data other members count this one as one stream.
    """
    return encode_subscription(
        Subscription(
            tuple(sorted(user_data.threads)),
            # Always with the last generation: a member that joins again with an unchanged subscription starts no
            # rebalance.
            user_data.encode(member.generation) if with_user_data else b"",
            tuple(sorted(user_data.streams)),
            member.generation if user_data.streams or not with_user_data else -1,
            rack or None,
        )
    )


# --- SyncGroup: the leader's assignments ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupView:
    """All members of a generation, as its leader sees them."""

    members: tuple[Member, ...]
    penstocks: frozenset[str]
    """Ids of the members that are Penstock consumers, and read its user data."""
    fresh: bool
    """Whether all of them have just started. False with members of other clients, which do not say."""

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(topic for member in self.members for topic in member.threads)


def read_members(joined: Sequence[JoinedMember]) -> GroupView:
    subscriptions = {each.member_id: _subscription(each) for each in joined}
    sent = read_from_members({member_id: (each.user_data, each.topics) for member_id, each in subscriptions.items()})
    members = tuple(_member(each, subscriptions[each.member_id], sent.get(each.member_id)) for each in joined)
    fresh = len(sent) == len(joined) and all(each.fresh for each in sent.values())
    return GroupView(members, frozenset(sent), fresh)


def _subscription(joined: JoinedMember) -> Subscription:
    try:
        return decode_subscription(joined.subscription)
    except ValueError as error:
        log.warning("member %s sent %s: it gets no partitions", joined.member_id, error)
        return Subscription(())


def _member(joined: JoinedMember, subscription: Subscription, sent: SubscriptionUserData | None) -> Member:
    return Member(
        joined.member_id,
        joined.member_id if sent is None else sent.consumer_id,
        dict.fromkeys(subscription.topics, 1) if sent is None else sent.threads,
        subscription.owned,
        _generation(subscription),
        joined.instance_id,
        {} if sent is None else sent.streams,
    )


def _generation(subscription: Subscription) -> int:
    # Java's clients from 2.4 to 3.3 have no field for it, and put it into their user data.
    if subscription.generation < 0 and len(subscription.user_data) == 4:
        (generation,) = struct.unpack(">i", subscription.user_data)
        return int(generation)
    return subscription.generation


def encode_assignments(assignor: str, group: GroupView, partitions: Mapping[str, int]) -> dict[str, bytes]:
    """The assignments by member id, as SyncGroup distributes them. `partitions`: the partition counts of the topics."""
    topics = group.topics
    threads = assign_threads(assignor, group.members, {t: n for t, n in partitions.items() if t in topics})
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in group.members}
    for tp, thread in threads.items():
        given[thread.member_id].append(tp)
    consumers = {member.member_id: member.consumer_id for member in group.members}
    data = encode_for_members(threads, consumers, group.penstocks, group.fresh, MAX_ASSIGNMENT_USER_DATA)
    return {member_id: encode_assignment(tps, data.get(member_id, b"")) for member_id, tps in given.items()}


# --- SyncGroup: a member's own assignment -----------------------------------------------------------------------------


def read_assignment(joined: Joined, given: bytes, sent: SubscriptionUserData) -> Assignment:
    """Read the assignment that a member got. `sent`: what it joined with. Raises ValueError for bytes that are not an
    assignment."""
    mine, user_data = decode_assignment(given)
    unsubscribed = [tp for tp in mine if tp.topic not in sent.threads]
    if unsubscribed:
        log.warning(
            "the group's leader assigned %d partitions of topics that are not subscribed to, such as %s: ignored",
            *(len(unsubscribed), unsubscribed[0]),
        )
        mine = [tp for tp in mine if tp.topic in sent.threads]
    received = AssignmentUserData.decode(user_data)
    streams = _assigned_streams(mine, received, sent.threads)
    if streams is None:
        streams = divide(joined.assignor, sent.threads, mine, sent.streams)
    # Whatever the leader assigned: a partition that stays with this member also stays with its stream.
    streams |= {tp: sent.streams[tp] for tp in mine if tp in sent.streams}
    threads = {} if received is None else received.threads_of_group(sent.consumer_id)
    for tp, stream in streams.items():
        threads.setdefault(tp.topic, {})[tp.partition] = thread_id(sent.consumer_id, stream)
    return Assignment(
        joined.member.generation,
        joined.member.member_id,
        joined.leader,
        joined.assignor,
        streams,
        threads,
        fresh=sent.fresh and received is not None and received.fresh and received.member_id == joined.member.member_id,
    )


def _assigned_streams(
    mine: Iterable[TopicPartition], received: AssignmentUserData | None, threads: Mapping[str, int]
) -> dict[TopicPartition, int] | None:
    """The streams that the leader has assigned; None if it has not, or if this member does not have them."""
    if received is None or any(not 0 <= received.streams.get(tp, -1) < threads[tp.topic] for tp in mine):
        return None
    return {tp: received.streams[tp] for tp in mine}
