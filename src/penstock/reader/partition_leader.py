"""Finds the broker to fetch a partition from: its leader, or the replica that the leader recommends (KIP-392)."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.errors import DataLoss, UnknownTopic
from penstock.model.log_identity import is_recreated, truncated_at
from penstock.model.offset_range import OffsetRange
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import UNKNOWN_TOPIC_GRACE, Broker, Cluster, Leader

FOLLOWER_SECONDS = 300.0
"""How long the reader uses a recommended replica before it asks the leader again: Kafka's metadata.max.age.ms."""


class PartitionLeader:
    """Finds the broker to fetch one range from. Asks the cluster only if the leader in the plan is out of date."""

    def __init__(
        self,
        range_: OffsetRange,
        config: ClientConfig,
        wait: Callable[[float], object],
        on_error: Callable[[], None] | None = None,
    ) -> None:
        """`on_error` is called when an attempt fails in a way that a retry may heal."""
        self._range = range_
        self.cluster = Cluster(config, wait, on_error)
        self._leader: Leader | None = None
        self._follower: Broker | None = None
        self._follower_until = 0.0
        self._missing_since: float | None = None
        self._checked_epoch = range_.leader_epoch
        if range_.host:
            self._leader = Leader(Broker(-1, range_.host, range_.port), range_.leader_epoch)

    @property
    def epoch(self) -> int:
        """The leader epoch to send, which fences a broker with older metadata. Not sent to a follower: one whose
        metadata lags would refuse the fetch, and the leader would recommend it again."""
        return -1 if self.on_follower else self.leader_epoch

    @property
    def leader_epoch(self) -> int:
        """Epoch of the known leader, also while a follower is used; -1 if unknown."""
        return -1 if self._leader is None else self._leader.epoch

    @property
    def on_follower(self) -> bool:
        return self._follower is not None

    def broker(self) -> Broker:
        """The broker to fetch from. Raises RetriableError while the partition has no leader."""
        if self._follower is not None:
            if time.monotonic() < self._follower_until:
                return self._follower
            self._follower = None
        if self._leader is None:
            self._leader = self._look_up()
        return self._leader.broker

    def overdue_check(self) -> str | None:
        """A reason not to wait for the current broker any longer, if another broker knows one."""
        broker = self._leader.broker if self._follower is None and self._leader is not None else self._follower
        if broker is None:
            return None
        tp = self._range.topic_partition
        return self.cluster.departed(broker, {tp: None if self.on_follower else self._leader}).get(tp)

    def _look_up(self) -> Leader:
        wanted = self._range
        metadata = self.cluster.metadata((wanted.topic,))
        topic = metadata.topics[wanted.topic]
        if is_recreated(wanted.topic_id, topic.topic_id):
            lost = f"offsets {wanted.start} to {wanted.stop}"
            raise DataLoss([(wanted.topic, wanted.partition, lost, "another topic of the same name, created since")])
        if wanted.partition not in topic.partitions:
            self._missing_since = self._missing_since or time.monotonic()
            if time.monotonic() - self._missing_since < UNKNOWN_TOPIC_GRACE:
                raise RetriableError(f"{wanted.topic_partition} is not listed yet")
            raise UnknownTopic(wanted.topic, wanted.partition)
        self._missing_since = None
        leader = topic.partitions[wanted.partition]
        if leader is None:
            raise RetriableError(f"{wanted.topic_partition} has no leader")
        return leader

    def find_truncation(self) -> int | None:
        """Where the log was truncated since the range was planned, if before the range's end. Asked once per leader.

        An unclean election makes a replica that lagged the leader. It lacks records that were readable before, and
        gives their offsets to others. It knows where the records of earlier leaders end in its own log.
        """
        planned = self._range.leader_epoch
        if planned < 0 or self.leader_epoch <= self._checked_epoch:
            return None
        tp = self._range.topic_partition
        _, end = self.cluster.epoch_ends({tp: planned}).get(tp, (-1, -1))
        self._checked_epoch = self.leader_epoch
        return truncated_at(end, self._range.stop)

    def forget(self) -> None:
        """Drop the known brokers: the next call of `broker` asks the cluster."""
        self._leader = None
        self._follower = None

    def prefer(self, node_id: int) -> None:
        """Use the replica that the leader recommends. Raises RetriableError if the cluster does not list it."""
        broker = self.cluster.metadata((self._range.topic,)).brokers.get(node_id)
        if broker is None:
            raise RetriableError(f"replica {node_id} is recommended, but the cluster does not list it")
        self._follower = broker
        self._follower_until = time.monotonic() + FOLLOWER_SECONDS

    def back_to_leader(self) -> None:
        self._follower = None
