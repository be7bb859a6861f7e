"""Watches the topics that a member subscribes to and, on the group's leader, their partition counts (H5)."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.coordinator import Coordinator, Listing
from penstock.consumer.subscription import StreamSubscription
from penstock.errors import BrokerUnavailable
from penstock.masking import get_logger

log = get_logger(__name__)

CHECK_SECONDS = 5.0
"""The time-out of one check of the cluster's topics, and the delay after a failed one."""

MISSING_TOPIC_SECONDS = 1.0
"""The delay of the next check while a subscribed topic does not exist."""


class TopicWatch:
    """A member that subscribes by a filter watches the cluster's topics; only the leader watches partition counts.

    For the membership thread, unless a method says otherwise.
    """

    def __init__(self, config: ConsumerConfig, subscription: StreamSubscription, coordinator: Coordinator) -> None:
        self._config = config
        self._subscription = subscription
        self._coordinator = coordinator
        self._counts: dict[str, int] = {}
        """The group's topics, and their partition counts at the last assignment. Empty if another member leads."""
        self._leads = False
        self.threads: dict[str, int] = {}
        """The subscribed topics, with their numbers of streams."""
        self.check_at = 0.0

    def find(self) -> None:
        """Determine the topics to subscribe to. Raises BrokerUnavailable."""
        if self._subscription.names is None:
            # A broker with stale metadata may leave out a topic, so a topic that disappears is checked twice.
            listing = self._coordinator.listing(None, dict.fromkeys(self.threads, 1), CHECK_SECONDS)
            self.threads = self._threads(listing)
        else:
            self.threads = self._subscription.threads({}, ())

    def lead(self, topics: Collection[str]) -> Mapping[str, int]:
        """This member leads: the partition counts of the group's topics, 0 for a missing one. Raises
        BrokerUnavailable."""
        expected = {topic: count for topic, count in self._counts.items() if topic in topics}
        # All members may be waiting for this one, and its own session continues to run.
        listing = self._coordinator.listing(self._names(topics), expected, self._config.session_timeout / 2)
        self._leads = True
        self._counts = {topic: listing.partitions.get(topic, 0) for topic in topics}
        missing = sorted(topic for topic, count in self._counts.items() if count == 0)
        if missing:
            log.warning("group %r: waiting for topics that do not exist: %s", self._config.group, ", ".join(missing))
        return self._counts

    def follow(self) -> None:
        """Another member leads."""
        self._leads = False
        self._counts = {}

    @property
    def missing(self) -> tuple[str, ...]:
        """Topics of the group that do not exist, if this member leads it. Any thread."""
        return tuple(sorted(topic for topic, count in self._counts.items() if count == 0))

    @property
    def partitions(self) -> int | None:
        """The number of partitions of the group's topics, if this member leads it. Any thread."""
        counts = self._counts
        return sum(counts.values()) if counts else None

    def schedule_check(self) -> None:
        age = self._config.metadata_max_age
        if not self._leads and self._subscription.names is not None:
            age = float("inf")
        elif 0 in self._counts.values():
            age = min(age, MISSING_TOPIC_SECONDS)
        self.check_at = time.monotonic() + age

    def check(self) -> str | None:
        """Check for changes: returns the reason to join again, or None."""
        try:
            listing = self._coordinator.listing(self._names(self._counts), self._counts, CHECK_SECONDS)
        except BrokerUnavailable as error:
            log.debug("group %r: %s", self._config.group, error)
            self.check_at = time.monotonic() + CHECK_SECONDS
            return None
        self.schedule_check()
        before = self.threads, self._counts
        # Stored now: a topic that is gone was checked twice, and the next rebalance must not expect it again.
        self.threads = self._threads(listing)
        self._counts = {topic: listing.partitions.get(topic, 0) for topic in self._counts}
        if self.threads != before[0]:
            return "the topics that match the subscription have changed"
        return "the partition counts have changed" if self._counts != before[1] else None

    def _threads(self, listing: Listing) -> dict[str, int]:
        hidden = listing.internal if self._config.exclude_internal else frozenset()
        return self._subscription.threads(listing.partitions, hidden)

    def _names(self, topics: Collection[str]) -> Sequence[str] | None:
        """The topics to ask for. All topics, if other members subscribe to more: asking by name for a topic that does
        not exist would be an error."""
        names = self._subscription.names
        return names if names is not None and set(topics) <= set(names) else None
