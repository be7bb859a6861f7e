"""The moves of a reset, of a real group: for `penstock groups reset` and the page of `penstock watch`."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.cli.groups.lookup import in_use_text
from penstock.cli.groups.moves import Listed, Move, Target, moves
from penstock.cli.output import counted
from penstock.errors import BrokerError, UnknownTopic
from penstock.model.offset_spec import AtTimestamp
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_admin import DescribedGroup, GroupAdmin


def unused_group(admin: GroupAdmin, group: str) -> DescribedGroup | None:
    """The group, which must have no members; None if it does not exist."""
    described = admin.describe(group)
    if described is not None and described.members:
        raise BrokerError(in_use_text(described, "its offsets can be reset"))
    return described


def plan_reset(
    admin: GroupAdmin,
    group: str,
    target: Target,
    topics: Iterable[tuple[str, Iterable[int] | None]] | None,
) -> list[Move]:
    """`topics`: with their partitions, or None for all of a topic. None: every partition with a committed offset."""
    committed = {tp: commit.offset for tp, commit in admin.all_commits(group).items()}
    if isinstance(target, Listed) or topics is None:
        given = target.offsets if isinstance(target, Listed) else committed
        if not given:
            raise BrokerError(f"group {group!r} has no committed offsets: name a topic")
        topics = [(tp.topic, (tp.partition,)) for tp in given]
    partitions = _partitions(admin, topics)
    # The ends first: a record that is produced during the lookup of a time must not be past them.
    ends = admin.end(partitions)
    begins = admin.begin(partitions)
    times = {tp: time for tp in partitions if isinstance(target, AtTimestamp) and (time := target.of(tp)) is not None}
    return moves(target, partitions, committed, begins, ends, admin.first_at(times, ends))


def _partitions(admin: GroupAdmin, named: Iterable[tuple[str, Iterable[int] | None]]) -> list[TopicPartition]:
    """The named partitions; None means all partitions of a topic. Each must exist."""
    named = list(named)
    listed = admin.metadata(sorted({topic for topic, _ in named})).topics
    wanted = set()
    for topic, numbers in named:
        there = listed[topic].partitions
        for partition in there if numbers is None else numbers:
            if partition not in there:
                raise UnknownTopic(topic, partition, f"the topic has {counted(len(there), 'partition')}")
            wanted.add(TopicPartition(topic, partition))
    return sorted(wanted)
