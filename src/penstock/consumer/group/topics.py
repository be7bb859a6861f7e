"""Which topics a member subscribes to and, if it leads the group, how many partitions the group's topics have (H5)."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.coordinator import Coordinator, Listing
from penstock.consumer.subscription import StreamSubscription
from penstock.errors import BrokerUnavailable

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How long one look at the cluster's topics may take; and when a failed one is repeated."""

LOOK_SOON = 1.0
"""How soon to look again for a topic that is subscribed to and does not exist."""


class TopicWatch:
    """Whoever subscribes by a filter watches which topics there are; only leaders watch how many partitions they have.

    For the membership thread.
    """

    def __init__(self, config: ConsumerConfig, subscription: StreamSubscription, coordinator: Coordinator) -> None:
        self._config = config
        self._subscription = subscription
        self._coordinator = coordinator
        self._counts: dict[str, int] = {}
        """The group's topics, and how many partitions they had when they were assigned. Empty if we do not lead."""
        self._leads = False
        self.threads: dict[str, int] = {}
        """What we subscribe to, with the number of streams."""
        self.look_at = 0.0

    def find(self) -> None:
        """Find out what to subscribe to. Raises BrokerUnavailable."""
        if self._subscription.names is None:
            # A broker whose metadata lags may leave one out: what we had is asked for twice.
            listing = self._coordinator.listing(None, dict.fromkeys(self.threads, 1), LOOK_SECONDS)
            self.threads = self._threads(listing)
        else:
            self.threads = self._subscription.threads({}, ())

    def lead(self, topics: Collection[str]) -> Mapping[str, int]:
        """How many partitions the group's topics have; 0 for one that does not exist. Raises BrokerUnavailable."""
        expected = {topic: count for topic, count in self._counts.items() if topic in topics}
        # We may be the one that everybody waits for, and our session goes on, too.
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

    def plan_look(self) -> None:
        age = self._config.metadata_max_age
        if not self._leads and self._subscription.names is not None:
            age = float("inf")
        elif 0 in self._counts.values():
            age = min(age, LOOK_SOON)
        self.look_at = time.monotonic() + age

    def look(self) -> str | None:
        """Look whether something has changed: why to join again, or None."""
        try:
            listing = self._coordinator.listing(self._names(self._counts), self._counts, LOOK_SECONDS)
        except BrokerUnavailable as error:
            log.debug("group %r: %s", self._config.group, error)
            self.look_at = time.monotonic() + LOOK_SECONDS
            return None
        self.plan_look()
        before = self.threads, self._counts
        # Kept: what is gone has been asked for long enough, and is not expected in the rebalance that follows.
        self.threads = self._threads(listing)
        self._counts = {topic: listing.partitions.get(topic, 0) for topic in self._counts}
        if self.threads != before[0]:
            return "other topics match the subscription now"
        return "topics have other partitions now" if self._counts != before[1] else None

    def _threads(self, listing: Listing) -> dict[str, int]:
        hidden = listing.internal if self._config.exclude_internal else frozenset()
        return self._subscription.threads(listing.partitions, hidden)

    def _names(self, topics: Collection[str]) -> Sequence[str] | None:
        """What to ask about. All there is, when others subscribe to more than we do: by name, a topic that one of them
        made up would be an error of ours."""
        names = self._subscription.names
        return names if names is not None and set(topics) <= set(names) else None
