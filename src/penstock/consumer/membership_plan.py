"""The leader's part of a rebalance: what the members said -> who gets what -> what they are told. Pure."""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.consumer.assignors import Member, assign_threads
from penstock.consumer.membership_notes import MemberNote, leader_notes
from penstock.topics import TopicPartition
from penstock.wire.membership import JoinedMember, Subscription, decode_subscription, encode_assignment

log = logging.getLogger(__name__)

ROOM_FOR_NOTES = 256 << 10
"""The coordinator keeps a generation, with all that was said in it, as one record of at most `message.max.bytes`: 1 MB
unless it was changed. A quarter of that is enough for some hundred thousand (partition, member) pairs."""


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
    members: list[Member] = []
    notes: dict[str, MemberNote] = {}
    for each in joined:
        try:
            said = decode_subscription(each.subscription)
        except ValueError as error:
            log.warning("member %s sent %s: it gets no partitions", each.member_id, error)
            said = Subscription(())
        note = MemberNote.decode(said.user_data, said.topics)
        if note is not None:
            notes[each.member_id] = note
        members.append(_member(each, said, note))
    fresh = len(notes) == len(joined) and all(note.fresh for note in notes.values())
    return GroupView(tuple(members), frozenset(notes), fresh)


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
    threads = assign_threads(assignor, group.members, {t: n for t, n in partitions.items() if t in group.topics})
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in group.members}
    for tp, thread in threads.items():
        given[thread.member_id].append(tp)
    consumers = {member.member_id: member.consumer_id for member in group.members}
    notes = leader_notes(threads, consumers, group.penstocks, group.fresh, ROOM_FOR_NOTES)
    return {member_id: encode_assignment(tps, notes.get(member_id, b"")) for member_id, tps in given.items()}
