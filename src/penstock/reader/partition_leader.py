"""Where to fetch a partition from: its leader, or the replica that the leader recommends (KIP-392)."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.errors import DataLoss, UnknownTopic
from penstock.model.log_identity import is_recreated, truncated_at
from penstock.model.offset_range import OffsetRange
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import UNKNOWN_TOPIC_GRACE, Broker, Cluster, Leader

FOLLOWER_TIME = 300.0
"""How long a recommended replica is used before the leader is asked again: Kafka's metadata.max.age.ms."""


class PartitionLeader:
    """Knows the broker to fetch one range from; asks the cluster only when the plan's hint has proved wrong."""

    def __init__(self, range_: OffsetRange, config: ClientConfig, wait: Callable[[float], object]) -> None:
        self._range = range_
        self.cluster = Cluster(config, wait)
        self._leader: Leader | None = None
        self._follower: Broker | None = None
        self._follower_until = 0.0
        self._missing_since: float | None = None
        self._held_against = range_.leader_epoch
        if range_.host:
            self._leader = Leader(Broker(-1, range_.host, range_.port), range_.leader_epoch)

    @property
    def epoch(self) -> int:
        """The leader epoch to send, which fences a broker that knows less. Not to a follower: whose metadata lags a
        little would refuse us, and the leader would send us back to it."""
        return -1 if self.on_follower else self.leader_epoch

    @property
    def leader_epoch(self) -> int:
        """Of the leader we know, wherever we fetch from; -1 if it is unknown."""
        return -1 if self._leader is None else self._leader.epoch

    @property
    def on_follower(self) -> bool:
        return self._follower is not None

    def broker(self) -> Broker:
        """The broker to fetch from now. Raises RetriableError while the partition has no leader."""
        if self._follower is not None:
            if time.monotonic() < self._follower_until:
                return self._follower
            self._follower = None
        if self._leader is None:
            self._leader = self._look_up()
        return self._leader.broker

    def doubt(self) -> str | None:
        """Why not to wait any longer for the broker that was handed out last, if another one knows a reason."""
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
                raise RetriableError(f"{wanted.topic_partition} is not listed so far")
            raise UnknownTopic(wanted.topic, wanted.partition)
        self._missing_since = None
        leader = topic.partitions[wanted.partition]
        if leader is None:
            raise RetriableError(f"{wanted.topic_partition} has no leader")
        return leader

    def find_truncation(self) -> int | None:
        """Where the log was cut since the range was planned, if that is before the range's end; asked once per leader.

        A leader elected from among replicas that lagged (an unclean election) lacks records that could be read before,
        and gives their offsets to others. It knows where the records of earlier leaders end in its own log.
        """
        planned = self._range.leader_epoch
        if planned < 0 or self.leader_epoch <= self._held_against:
            return None
        tp = self._range.topic_partition
        _, end = self.cluster.epoch_ends({tp: planned}).get(tp, (-1, -1))
        self._held_against = self.leader_epoch
        return truncated_at(end, self._range.stop)

    def forget(self) -> None:
        """What we knew was wrong: the next `broker` asks the cluster."""
        self._leader = None
        self._follower = None

    def prefer(self, node_id: int) -> None:
        """The leader recommends a replica. Raises RetriableError if the cluster lists no such broker (any more)."""
        broker = self.cluster.metadata((self._range.topic,)).brokers.get(node_id)
        if broker is None:
            raise RetriableError(f"replica {node_id} is recommended, but the cluster does not list it")
        self._follower = broker
        self._follower_until = time.monotonic() + FOLLOWER_TIME

    def back_to_leader(self) -> None:
        self._follower = None
