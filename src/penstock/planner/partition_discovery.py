"""Finds the partitions of a running stream, at every discovery interval (F14).

The rules are in `partition_diff`; this module asks the cluster. A topic counts as deleted only if the cluster denies it
when asked for it by name, for as long as `Cluster.listing` asks.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.masking import get_logger
from penstock.model.subscription import AssignedPartitions, Subscription, TopicNames, select_partitions, wanted_topics
from penstock.model.topic_partition import TopicPartition, listed
from penstock.planner.partition_diff import KnownPartitions, PartitionChanges, diff, remember, unidentified
from penstock.wire.cluster import Metadata, Topic

log = get_logger(__name__)

CONFIRM_SECONDS = 2.0
"""How long a partition of the state must stay unlisted until it counts as deleted, if the id of its topic is unknown.
With a known id the answering broker is behind: Kafka never takes partitions from a topic."""


class TopicListing(Protocol):
    """What discovery asks a cluster."""

    @property
    def known(self) -> Metadata | None: ...
    def listing(self, topics: Sequence[str] | None) -> tuple[Metadata, list[str]]: ...


@dataclass(slots=True)
class Discovery:
    """Finds partitions for one stream. For one thread."""

    subscription: Subscription
    cluster: TopicListing
    interval: float
    clock: Callable[[], float] = time.monotonic
    _due: float = float("-inf")
    _seen: Metadata | None = None
    """The metadata that the last look has evaluated."""
    _known: KnownPartitions = field(default_factory=KnownPartitions)
    _deleted_topics: set[str] = field(default_factory=set)
    _unlisted: frozenset[TopicPartition] = frozenset()
    _warned: set[str] = field(default_factory=set)

    def look(self, state: Iterable[TopicPartition], force: bool = False) -> PartitionChanges:
        """How the partitions have changed since the last look. Asks the cluster if the interval has passed, or if
        `force` is set."""
        now = self.clock()
        state = list(state)
        is_first, asks = self._seen is None, force or now >= self._due
        if asks:
            self._ask({tp.topic for tp in state})
            self._due = now + self.interval
        elif self.is_current:
            return PartitionChanges(self._known.partitions, unlisted=self._unlisted)
        confirmed = self._confirm(unidentified(self._known, self._topics, state))
        topics, self._seen = self._topics, self.cluster.known
        # Metadata is also refreshed between two looks, to find leaders. Partitions that it adds join at the next look.
        selects = is_first or (asks and self.interval < math.inf)
        changes = diff(
            self._known,
            topics,
            state,
            self._select(topics) if selects else None,
            deleted_topics=self._deleted_topics,
            deleted_partitions=confirmed,
        )
        if changes.new and (self._known.partitions or state):
            log.info("%d new partitions: %s", len(changes.new), listed(changes.new, 10))
        names = {tp.topic for tp in state} | self._deleted_topics
        self._known, self._unlisted = remember(self._known, topics, changes.partitions, names), changes.unlisted
        return changes

    def remember(self, partitions: Iterable[TopicPartition]) -> None:
        """Notes the ids of the topics that a query starts with: another id is a recreated topic from now on."""
        names = {*self._known.topic_ids, *(tp.topic for tp in partitions)}
        self._known = remember(self._known, self._topics, self._known.partitions, names)

    @property
    def is_current(self) -> bool:
        """Whether the last look has evaluated the newest metadata."""
        return self._seen is self.cluster.known

    def locate(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Make sure that the topics of these partitions are known; returns the partitions of deleted topics."""
        wanted = list(partitions)
        unknown = {tp.topic for tp in wanted} - set(self._topics)
        deleted = self.cluster.listing(sorted(unknown))[1] if unknown else ()
        return frozenset(tp for tp in wanted if tp.topic in deleted)

    def is_recreated(self, name: str) -> bool:
        """Whether the topic of this name has another id than at the last look."""
        return self._known.is_recreated(name, self._topics)

    def topic_id(self, name: str) -> uuid.UUID | None:
        """The id that the topic has now."""
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    def id_of_deleted(self, name: str) -> uuid.UUID | None:
        """The id that a deleted topic had; None if it is not deleted, or its id was never known."""
        return self._known.topic_ids.get(name) if name in self._deleted_topics else None

    @property
    def _topics(self) -> Mapping[str, Topic]:
        return {} if self.cluster.known is None else self.cluster.known.topics

    def _ask(self, state_topics: set[str]) -> None:
        """Refresh the metadata, and note which topics of the subscription and the state are deleted."""
        names = wanted_topics(self.subscription)
        wanted = {*state_topics, *(names or ()), *(tp.topic for tp in self._known.partitions)}
        self._deleted_topics = self._denied(wanted, asks_by_name=names is not None)
        missing = sorted(self._deleted_topics - state_topics - self._warned)
        if missing:
            again = "; looking for them at every discovery interval" if self.interval < math.inf else ""
            log.warning("topics %s do not exist: reading the others%s", ", ".join(map(repr, missing)), again)
        self._warned |= self._deleted_topics

    def _denied(self, wanted: set[str], asks_by_name: bool) -> set[str]:
        """The wanted topics that the cluster does not have."""
        if asks_by_name and not self._deleted_topics:
            return set(self.cluster.listing(sorted(wanted))[1])
        # List all topics also if a name is known to be deleted: asking by name waits for that topic each time.
        existing = set(self.cluster.listing(None)[0].topics)
        denied = (self._deleted_topics & wanted) - existing
        unlisted = sorted(wanted - existing - denied)
        return denied | set(self.cluster.listing(unlisted)[1]) if unlisted else denied

    def _confirm(self, unlisted: set[TopicPartition]) -> set[TopicPartition]:
        """Of unlisted partitions those that stay unlisted while the cluster is asked again."""
        deadline = time.monotonic() + CONFIRM_SECONDS
        while unlisted and time.monotonic() < deadline:
            time.sleep(CONFIRM_SECONDS / 10)
            self.cluster.listing(sorted({tp.topic for tp in unlisted}))
            unlisted = unidentified(self._known, self._topics, unlisted)
        return unlisted

    def _select(self, topics: Mapping[str, Topic]) -> list[TopicPartition]:
        """The partitions that the subscription selects from the listed ones."""
        listing = {name: list(topic.partitions) for name, topic in topics.items()}
        internal = frozenset(name for name, topic in topics.items() if topic.internal)
        subscription = self.subscription
        if isinstance(subscription, TopicNames):
            subscription = TopicNames(tuple(name for name in subscription.names if name in listing))
        selected = select_partitions(subscription, listing, internal)
        if not isinstance(subscription, AssignedPartitions):
            return selected  # from the listing
        return [tp for tp in selected if tp.topic in topics and tp.partition in topics[tp.topic].partitions]
