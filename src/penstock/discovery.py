"""WHICH partitions a running stream has: found anew every interval (F14), and told apart when they are gone.

A topic that the cluster does not list may be late to be listed, deleted, or deleted and made anew under another id.
Only what the cluster denies when asked by name, for as long as `Cluster.listing` asks, counts as deleted.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.topics import Subscription, TopicNames, TopicPartition, select_partitions, wanted_topics
from penstock.wire.cluster import Cluster, Metadata, Topic

log = logging.getLogger(__name__)

MISSING_SECONDS = 2.0
"""How long a topic must be listed without a partition that the state knows until that one counts as gone. Partitions
are never taken from a topic, so either the answering broker is behind, or the topic is another one by now."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a look has shown: the subscription's partitions, and of the state's those that are gone or another
    topic's."""

    partitions: tuple[TopicPartition, ...] = ()
    vanished: frozenset[TopicPartition] = frozenset()
    recreated: frozenset[TopicPartition] = frozenset()


@dataclass(slots=True)
class Discovery:
    """Looks for partitions on behalf of one stream. For one thread."""

    subscription: Subscription
    cluster: Cluster
    interval: float
    clock: Callable[[], float] = time.monotonic
    _due: float = float("-inf")
    _seen: Metadata | None = None
    _ids: dict[str, uuid.UUID] = field(default_factory=dict)
    _absent: set[str] = field(default_factory=set)
    _missing_since: dict[TopicPartition, float] = field(default_factory=dict)
    _known: tuple[TopicPartition, ...] = ()

    def look(self, state: Iterable[TopicPartition], force: bool = False) -> Sighting:
        """Ask the cluster if it is time to, and hold the state against what it has said."""
        now = self.clock()
        state = list(state)
        if force or now >= self._due or self._missing_since:
            self._ask({tp.topic for tp in state})
            self._due = now + self.interval
        elif self.cluster.known is self._seen:
            return Sighting(self._known)
        self._seen = self.cluster.known
        topics = self._topics
        vanished = {tp for tp in state if tp.topic in self._absent} | self._long_missing(state, now)
        recreated = {
            tp for tp in state if tp not in vanished and tp.topic in topics and self._is_another(topics[tp.topic])
        }
        self._ids |= {name: topic.topic_id for name, topic in topics.items() if topic.topic_id is not None}
        found = tuple(self._select())
        fresh = sorted(set(found) - set(self._known) - set(state))
        if fresh and (self._known or state):
            log.info("%d new partitions: %s", len(fresh), ", ".join(map(str, fresh[:10])))
        self._known = found
        return Sighting(found, frozenset(vanished), frozenset(recreated))

    def locate(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Make sure that topics and leaders of these are known; which of them are gone."""
        wanted = list(partitions)
        strange = {tp.topic for tp in wanted} - set(self._topics)
        unknown = self.cluster.listing(sorted(strange))[1] if strange else ()
        return frozenset(tp for tp in wanted if tp.topic in unknown)

    @property
    def _topics(self) -> Mapping[str, Topic]:
        return {} if self.cluster.known is None else self.cluster.known.topics

    def _is_another(self, topic: Topic) -> bool:
        """Whether a topic has another id than the one of this name had before."""
        before = self._ids.get(topic.name)
        return before is not None and topic.topic_id is not None and before != topic.topic_id

    def _ask(self, state_topics: set[str]) -> None:
        """Bring what is known up to date, and note which topics of the subscription and the state are denied."""
        names = wanted_topics(self.subscription)
        wanted = {*state_topics, *(names or ()), *(tp.topic for tp in self._known)}
        if names is not None and not self._absent:
            self._absent = set(self.cluster.listing(sorted(wanted))[1])
            return
        # Everything is listed: also when a name is known to be absent, for asking by name waits for it each time.
        listed = set(self.cluster.listing(None)[0].topics)
        self._absent = (self._absent & wanted) - listed
        unlisted = sorted(wanted - listed - self._absent)
        if unlisted:
            self._absent |= set(self.cluster.listing(unlisted)[1])

    def _long_missing(self, state: list[TopicPartition], now: float) -> set[TopicPartition]:
        """Partitions that their topic is listed without, again and again."""
        missing = {
            tp for tp in state if tp.topic in self._topics and tp.partition not in self._topics[tp.topic].partitions
        }
        self._missing_since = {tp: self._missing_since.get(tp, now) for tp in missing}
        gone = {tp for tp, since in self._missing_since.items() if now - since >= MISSING_SECONDS}
        for tp in gone:
            del self._missing_since[tp]
        return gone

    def _select(self) -> list[TopicPartition]:
        listing = {name: list(topic.partitions) for name, topic in self._topics.items()}
        internal = frozenset(name for name, topic in self._topics.items() if topic.internal)
        subscription = self.subscription
        if isinstance(subscription, TopicNames):
            subscription = TopicNames(tuple(name for name in subscription.names if name in listing))
        chosen = select_partitions(subscription, listing, internal)
        return [tp for tp in chosen if tp.partition in listing.get(tp.topic, ())]
