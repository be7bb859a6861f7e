"""What is said in a rebalance: a member's offer, the leader's plan, and what a member makes of its part of it. Pure."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.consumer.group.assignors import Member, assign_threads, divide, thread_id
from penstock.consumer.group.ownership import Assignment
from penstock.consumer.group.user_data import LeaderNote, MemberNote, leader_notes, member_notes
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_membership import (
    Joined,
    JoinedMember,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from penstock.wire.api.group_offsets import GroupMember

log = logging.getLogger(__name__)

ROOM_FOR_NOTES = 256 << 10
"""The coordinator keeps a generation, with all that was said in it, as one record of at most `message.max.bytes`: 1 MB
unless it was changed. A quarter of that is enough for some hundred thousand (partition, member) pairs."""


# --- a member's offer -------------------------------------------------------------------------------------------------


def offer(member: GroupMember, note: MemberNote, rack: str) -> bytes:
    """What a member that joins tells whoever will lead: the same under the name of every assignor it can do with."""
    return encode_subscription(
        Subscription(
            tuple(sorted(note.threads)),
            # Always with our last generation: a member that joins again and says nothing new starts no rebalance.
            note.encode(member.generation),
            tuple(sorted(note.streams)),
            member.generation if note.streams else -1,
            rack or None,
        )
    )


# --- the leader's plan ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupView:
    """All members of a generation, as its leader sees them."""

    members: tuple[Member, ...]
    penstocks: frozenset[str]
    """Ids of the members that can read a note of ours."""
    fresh: bool
    """Whether all of them have just started. Not if there are others: they do not say."""

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(topic for member in self.members for topic in member.threads)


def read_members(joined: Sequence[JoinedMember]) -> GroupView:
    said = {each.member_id: _subscription(each) for each in joined}
    notes = member_notes({member_id: (each.user_data, each.topics) for member_id, each in said.items()})
    members = tuple(_member(each, said[each.member_id], notes.get(each.member_id)) for each in joined)
    fresh = len(notes) == len(joined) and all(note.fresh for note in notes.values())
    return GroupView(members, frozenset(notes), fresh)


def _subscription(joined: JoinedMember) -> Subscription:
    try:
        return decode_subscription(joined.subscription)
    except ValueError as error:
        log.warning("member %s sent %s: it gets no partitions", joined.member_id, error)
        return Subscription(())


def _member(joined: JoinedMember, said: Subscription, note: MemberNote | None) -> Member:
    return Member(
        joined.member_id,
        joined.member_id if note is None else note.consumer_id,
        dict.fromkeys(said.topics, 1) if note is None else note.threads,
        said.owned,
        _generation(said),
        joined.instance_id,
        {} if note is None else note.streams,
    )


def _generation(said: Subscription) -> int:
    # Java's clients from 2.4 to 3.3 have no field for it, and put it here.
    if said.generation < 0 and len(said.user_data) == 4:
        (generation,) = struct.unpack(">i", said.user_data)
        return int(generation)
    return said.generation


def plan(assignor: str, group: GroupView, partitions: Mapping[str, int]) -> dict[str, bytes]:
    """By member id, what a SyncGroup hands to each. `partitions`: how many each topic has."""
    topics = group.topics
    threads = assign_threads(assignor, group.members, {t: n for t, n in partitions.items() if t in topics})
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in group.members}
    for tp, thread in threads.items():
        given[thread.member_id].append(tp)
    consumers = {member.member_id: member.consumer_id for member in group.members}
    notes = leader_notes(threads, consumers, group.penstocks, group.fresh, ROOM_FOR_NOTES)
    return {member_id: encode_assignment(tps, notes.get(member_id, b"")) for member_id, tps in given.items()}


# --- a member's part --------------------------------------------------------------------------------------------------


def read_assignment(joined: Joined, given: bytes, offered: MemberNote) -> Assignment:
    """What a member makes of what it was given. Raises ValueError for bytes that are no assignment."""
    mine, user_data = decode_assignment(given)
    strange = [tp for tp in mine if tp.topic not in offered.threads]
    if strange:
        log.warning("the group's leader assigned %s and more that was not subscribed to: left alone", strange[0])
        mine = [tp for tp in mine if tp.topic in offered.threads]
    note = LeaderNote.decode(user_data)
    streams = _told_streams(mine, note, offered.threads)
    if streams is None:
        streams = divide(joined.assignor, offered.threads, mine, offered.streams)
    # Whatever a leader says: what stays is not moved to another stream.
    streams |= {tp: offered.streams[tp] for tp in mine if tp in offered.streams}
    threads = {} if note is None else note.threads_of_group(offered.consumer_id)
    for tp, stream in streams.items():
        threads.setdefault(tp.topic, {})[tp.partition] = thread_id(offered.consumer_id, stream)
    return Assignment(
        joined.member.generation,
        joined.member.member_id,
        joined.leader,
        joined.assignor,
        streams,
        threads,
        fresh=offered.fresh and note is not None and note.fresh and note.member_id == joined.member.member_id,
    )


def _told_streams(
    mine: Iterable[TopicPartition], note: LeaderNote | None, threads: Mapping[str, int]
) -> dict[TopicPartition, int] | None:
    """The streams that the leader has chosen, if it has, and if we have them."""
    if note is None or any(not 0 <= note.streams.get(tp, -1) < threads[tp.topic] for tp in mine):
        return None
    return {tp: note.streams[tp] for tp in mine}
