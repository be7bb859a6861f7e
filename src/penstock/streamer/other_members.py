"""Whether other members of the group have read their partitions to the end, for a Streamer that stops there.

A Streamer that stops when its own partitions are read would leave out those of a member that was killed: the group
gives them away only when that member's session has ended. In the classic protocol a join waits for that, in the
protocol `consumer` it does not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from penstock.errors import BrokerUnavailable, UnknownTopic
from penstock.masking import get_logger
from penstock.model.topic_partition import Offsets, TopicPartition, listed
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Cluster

log = get_logger(__name__)

CHECK_SECONDS = 1.0
"""Between two questions about the group's offsets."""

LOOKUP_SECONDS = 5.0
"""For one question: a worker that asks writes nothing meanwhile."""


class OtherMembers:
    """Any thread may call any method."""

    def __init__(
        self, client: ClientConfig, group: str, ends: Offsets, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`ends`: where the Streamer stops, by partition."""
        self._client = replace(client, api_timeout=min(client.api_timeout, LOOKUP_SECONDS))
        self._group = group
        self._ends = ends
        self._left = {tp for tp, end in ends.items() if end > 0}
        self._clock = clock
        self._check_at = 0.0
        self._is_logged = False
        self._lock = threading.Lock()

    def have_ended(self, mine: Collection[TopicPartition]) -> bool:
        """Whether all partitions but these are empty, or committed up to their ends. Does not wait: False as long as it
        is not known."""
        if not self._lock.acquire(blocking=False):
            return False  # another worker asks
        try:
            others = sorted(self._left - set(mine))
            if others and self._clock() >= self._check_at:
                self._check(others)
                self._check_at = self._clock() + CHECK_SECONDS
                others = sorted(self._left - set(mine))
                if others and not self._is_logged:
                    self._is_logged = True
                    log.info(
                        "group %r: other members have not committed up to the end of %s yet: waiting for them",
                        *(self._group, listed(others)),
                    )
            return not others
        finally:
            self._lock.release()

    def _check(self, others: list[TopicPartition]) -> None:
        cluster = Cluster(self._client)
        try:
            committed, begin = cluster.committed(self._group, others), cluster.begin(others)
        except BrokerUnavailable as error:
            log.debug("the offsets of group %r are not known: %s", self._group, error)
            return
        except UnknownTopic as error:  # deleted meanwhile: nothing of it is left
            self._left = {tp for tp in self._left if tp.topic != error.topic}
            return
        self._left -= {tp for tp in others if max(committed[tp] or 0, begin[tp]) >= self._ends[tp]}
