"""Asks where the logs of a stream's partitions begin and end, while topics are deleted and leaders go down."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from penstock.errors import UnknownTopic
from penstock.masking import get_logger
from penstock.model.topic_partition import Offsets, TopicPartition, listed
from penstock.planner.partition_discovery import Discovery
from penstock.wire.cluster import Metadata

log = get_logger(__name__)


class BoundsLookup(Protocol):
    """What this module asks a cluster."""

    def listing(self, topics: Sequence[str] | None) -> tuple[Metadata, list[str]]: ...
    def begin(self, partitions: Iterable[TopicPartition]) -> Offsets: ...
    def reachable_ends(self, partitions: Iterable[TopicPartition], wait_for: Collection[TopicPartition]) -> Offsets: ...


class LogBounds:
    """The first and last offsets of a stream's partitions. For one thread."""

    def __init__(self, cluster: BoundsLookup, discovery: Discovery) -> None:
        self._cluster = cluster
        self._discovery = discovery
        self._leaderless: frozenset[TopicPartition] = frozenset()

    def begins(self, wanted: Collection[TopicPartition]) -> tuple[Offsets, set[TopicPartition]]:
        """The first offset of each log, and the partitions that are deleted by now."""
        deleted = set(self._discovery.locate(wanted))
        while True:
            asked = [tp for tp in wanted if tp not in deleted]
            try:
                return self._cluster.begin(asked), deleted
            except UnknownTopic as error:
                deleted |= _denied(asked, error)
                # Many topics may have been deleted together. Asked for one by one, each would take its time.
                unknown = self._cluster.listing(sorted({tp.topic for tp in asked}))[1]
                deleted |= {tp for tp in asked if tp.topic in unknown}

    def reachable_ends(self, wanted: Iterable[TopicPartition]) -> Offsets:
        """The ends of the logs that have a leader. A partition without one keeps its offset and waits for a leader."""
        asked = list(wanted)
        known = self._leaderless
        found = self._cluster.reachable_ends(asked, [tp for tp in asked if tp not in known] if known else asked)
        leaderless = frozenset() if len(found) == len(asked) else frozenset(tp for tp in asked if tp not in found)
        if added := sorted(leaderless - self._leaderless):
            log.warning("no leader answers for %s: reading the other partitions meanwhile", listed(added))
        self._leaderless = leaderless
        return found

    def existing_ends(self, wanted: Collection[TopicPartition]) -> tuple[Offsets, set[TopicPartition]]:
        """`reachable_ends`, and the partitions that are deleted by now."""
        deleted = set(self._discovery.locate(wanted))
        while True:
            try:
                return self.reachable_ends(tp for tp in wanted if tp not in deleted), deleted
            except UnknownTopic as error:
                denied = _denied([tp for tp in wanted if tp not in deleted], error)
                if not denied:
                    raise
                deleted |= denied


def _denied(partitions: Iterable[TopicPartition], error: UnknownTopic) -> set[TopicPartition]:
    return {tp for tp in partitions if tp.topic == error.topic and error.partition in (None, tp.partition)}
