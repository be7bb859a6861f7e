"""WHICH partitions a running stream has: found anew every interval (F14), and told apart when they are gone.

A topic that the cluster does not list may be late to be listed, deleted, or deleted and made anew under another id.
Only what the cluster denies when asked by name, for as long as `Cluster.listing` asks, counts as deleted.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.model.log_identity import is_recreated
from penstock.model.subscription import Subscription, TopicNames, select_partitions, wanted_topics
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster, Metadata, Topic

log = logging.getLogger(__name__)

MISSING_SECONDS = 2.0
"""How long a restarted query's topic must be listed without a partition that the state has until that one counts as
gone. Partitions are never taken from a topic: either the answering broker is behind, or the topic is another one by
now. Of a topic whose id is known it is always the broker."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a look has shown: the subscription's partitions, and of the state's those that are gone, another topic's,
    or not listed just now."""

    partitions: tuple[TopicPartition, ...] = ()
    vanished: frozenset[TopicPartition] = frozenset()
    recreated: frozenset[TopicPartition] = frozenset()
    missing: frozenset[TopicPartition] = frozenset()


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
    _missing: frozenset[TopicPartition] = frozenset()
    _warned: set[str] = field(default_factory=set)
    _known: tuple[TopicPartition, ...] = ()

    def look(self, state: Iterable[TopicPartition], force: bool = False) -> Sighting:
        """Ask the cluster if it is time to, and hold the state against what it has said."""
        now = self.clock()
        state = list(state)
        first, asks = self._seen is None, force or now >= self._due
        if asks:
            self._ask({tp.topic for tp in state})
            self._due = now + self.interval
        elif self.cluster.known is self._seen:
            return Sighting(self._known, missing=self._missing)
        another = {tp for tp in state if self.is_another(tp.topic)}
        missing = {tp for tp in state if tp not in another and self._lacks(tp)}
        unsure = {tp for tp in missing if tp.topic not in self._ids}
        stale = self._confirmed(unsure)
        missing -= unsure - stale
        topics, self._seen = self._topics, self.cluster.known
        # A topic that was made anew with fewer partitions does not have the others.
        vanished = stale | {tp for tp in another if self._lacks(tp)} | {tp for tp in state if tp.topic in self._absent}
        # Between two looks leaders are looked up, and new partitions seen: they join at the next look, or never.
        found = tuple(self._select()) if first or (asks and self.interval < math.inf) else self._still(vanished)
        names = {tp.topic for tp in (*found, *state)} | self._absent
        before = {name: known for name, known in self._ids.items() if name in names}
        self._ids = before | {name: known for name in names if name in topics and (known := topics[name].topic_id)}
        fresh = sorted(set(found) - set(self._known) - set(state))
        if fresh and (self._known or state):
            log.info("%d new partitions: %s", len(fresh), ", ".join(map(str, fresh[:10])))
        self._known, self._missing = found, frozenset(missing - vanished)
        return Sighting(found, frozenset(vanished), frozenset(another - vanished), self._missing)

    def remember(self, partitions: Iterable[TopicPartition]) -> None:
        """These are the topics that a query starts with: from now on one of another id is another one."""
        topics = self._topics
        names = {tp.topic for tp in partitions}
        self._ids |= {name: known for name in names if name in topics and (known := topics[name].topic_id)}

    @property
    def is_current(self) -> bool:
        """Whether the last look saw all that the cluster has said since."""
        return self._seen is self.cluster.known

    def locate(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Make sure that topics and leaders of these are known; which of them are gone."""
        wanted = list(partitions)
        strange = {tp.topic for tp in wanted} - set(self._topics)
        unknown = self.cluster.listing(sorted(strange))[1] if strange else ()
        return frozenset(tp for tp in wanted if tp.topic in unknown)

    @property
    def _topics(self) -> Mapping[str, Topic]:
        return {} if self.cluster.known is None else self.cluster.known.topics

    def is_another(self, name: str) -> bool:
        """Whether the topic of this name has another id now than at the last look."""
        return is_recreated(self._ids.get(name), self.id_of(name))

    def id_of_absent(self, name: str) -> uuid.UUID | None:
        """The id that a topic had which the cluster denies now; None if it is there, or was never known."""
        return self._ids.get(name) if name in self._absent else None

    def id_of(self, name: str) -> uuid.UUID | None:
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    def _lacks(self, tp: TopicPartition) -> bool:
        """Whether a topic is listed, and without this partition."""
        topic = self._topics.get(tp.topic)
        return topic is not None and tp.partition not in topic.partitions

    def _ask(self, state_topics: set[str]) -> None:
        """Bring what is known up to date, and note which topics of the subscription and the state are denied."""
        names = wanted_topics(self.subscription)
        wanted = {*state_topics, *(names or ()), *(tp.topic for tp in self._known)}
        self._ask_for(wanted, names)
        strange = sorted(self._absent - state_topics - self._warned)
        if strange:
            again = ", and looking for it again" if self.interval < math.inf else ""
            log.warning("no topic %s: reading the others%s", ", ".join(map(repr, strange)), again)
        self._warned |= self._absent

    def _ask_for(self, wanted: set[str], names: tuple[str, ...] | None) -> None:
        if names is not None and not self._absent:
            self._absent = set(self.cluster.listing(sorted(wanted))[1])
            return
        # Everything is listed: also when a name is known to be absent, for asking by name waits for it each time.
        listed = set(self.cluster.listing(None)[0].topics)
        self._absent = (self._absent & wanted) - listed
        unlisted = sorted(wanted - listed - self._absent)
        if unlisted:
            self._absent |= set(self.cluster.listing(unlisted)[1])

    def _confirmed(self, unsure: set[TopicPartition]) -> set[TopicPartition]:
        """Of partitions that are not listed: those that are not when asked for again and again."""
        deadline = time.monotonic() + MISSING_SECONDS
        while unsure and time.monotonic() < deadline:
            time.sleep(MISSING_SECONDS / 10)
            self.cluster.listing(sorted({tp.topic for tp in unsure}))
            unsure = {tp for tp in unsure if self._lacks(tp)}
        return unsure

    def _still(self, vanished: set[TopicPartition]) -> tuple[TopicPartition, ...]:
        return tuple(tp for tp in self._known if tp not in vanished and tp.topic not in self._absent)

    def _select(self) -> list[TopicPartition]:
        listing = {name: list(topic.partitions) for name, topic in self._topics.items()}
        internal = frozenset(name for name, topic in self._topics.items() if topic.internal)
        subscription = self.subscription
        if isinstance(subscription, TopicNames):
            subscription = TopicNames(tuple(name for name in subscription.names if name in listing))
        chosen = select_partitions(subscription, listing, internal)
        return [tp for tp in chosen if tp.partition in listing.get(tp.topic, ())]
