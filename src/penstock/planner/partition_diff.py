"""How a stream's partitions have changed between two listings of the cluster. Pure: no client, no clock.

A topic that the cluster does not list may be deleted, or the answering broker may not know it yet. A topic that it does
list may be recreated: the same name with another id.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

from penstock.model.log_identity import is_recreated
from penstock.model.topic_partition import TopicPartition


class ListedTopic(Protocol):
    """A topic as the cluster lists it."""

    @property
    def topic_id(self) -> uuid.UUID | None: ...
    @property
    def partitions(self) -> Collection[int]: ...


@dataclass(frozen=True, slots=True)
class KnownPartitions:
    """The partitions of a subscription at the last look, and the ids of their topics as far as brokers have them."""

    partitions: tuple[TopicPartition, ...] = ()
    topic_ids: Mapping[str, uuid.UUID] = field(default_factory=dict)

    def is_recreated(self, name: str, topics: Mapping[str, ListedTopic]) -> bool:
        """Whether the topic of this name has another id than at the last look."""
        topic = topics.get(name)
        return topic is not None and is_recreated(self.topic_ids.get(name), topic.topic_id)


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """The subscription's partitions, and what has happened to the partitions of the stream's state."""

    partitions: tuple[TopicPartition, ...] = ()
    new: tuple[TopicPartition, ...] = ()
    """Partitions of the subscription that neither the last look nor the state had."""
    deleted: frozenset[TopicPartition] = frozenset()
    recreated: frozenset[TopicPartition] = frozenset()
    """Partitions whose topic was recreated, and that the new topic has too."""
    unlisted: frozenset[TopicPartition] = frozenset()
    """Partitions that the answering broker does not list at the moment. They exist."""


def diff(
    known: KnownPartitions,
    topics: Mapping[str, ListedTopic],
    state: Collection[TopicPartition],
    subscribed: Iterable[TopicPartition] | None = None,
    *,
    deleted_topics: AbstractSet[str] = frozenset(),
    deleted_partitions: AbstractSet[TopicPartition] = frozenset(),
) -> PartitionChanges:
    """Compare what the stream knew with a new listing.

    `subscribed`: the partitions that the subscription selects from the listing; None keeps those known that still
    exist. `deleted_topics`: names that the cluster denies. `deleted_partitions`: those of `unidentified` that stayed
    unlisted when the cluster was asked again.
    """
    renewed = {name for name in {tp.topic for tp in state} if known.is_recreated(name, topics)}
    recreated = {tp for tp in state if tp.topic in renewed} if renewed else set()
    lacking = _lacking(topics, state)
    # A topic that was recreated with fewer partitions does not have the others.
    deleted = deleted_partitions | (recreated & lacking)
    if deleted_topics:
        deleted |= {tp for tp in state if tp.topic in deleted_topics}
    if subscribed is None:
        found = tuple(tp for tp in known.partitions if tp not in deleted and tp.topic not in deleted_topics)
    else:
        found = tuple(subscribed)
    return PartitionChanges(
        found,
        tuple(sorted(set(found) - set(known.partitions) - set(state))),
        frozenset(deleted),
        frozenset(recreated - deleted),
        frozenset(lacking - recreated - deleted),
    )


def unidentified(
    known: KnownPartitions, topics: Mapping[str, ListedTopic], state: Iterable[TopicPartition]
) -> set[TopicPartition]:
    """Partitions that their listed topic lacks, where no topic id tells whether it is the same topic.

    Kafka never takes partitions from a topic. So either the topic was recreated, or the answering broker is behind.
    """
    return {tp for tp in _lacking(topics, state) if tp.topic not in known.topic_ids}


def remember(
    known: KnownPartitions,
    topics: Mapping[str, ListedTopic],
    partitions: tuple[TopicPartition, ...],
    also: Iterable[str] = (),
) -> KnownPartitions:
    """What is known after a look: the ids of the topics of `partitions` and of the topics named in `also`. A topic that
    is not listed keeps the id it had."""
    names = {tp.topic for tp in partitions}.union(also)
    ids = {name: topic_id for name, topic_id in known.topic_ids.items() if name in names}
    ids |= {name: topic_id for name in names if name in topics and (topic_id := topics[name].topic_id) is not None}
    return KnownPartitions(partitions, ids)


def _lacking(topics: Mapping[str, ListedTopic], state: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Partitions that their listed topic does not have."""
    return {tp for tp in state if (topic := topics.get(tp[0])) is not None and tp[1] not in topic.partitions}
