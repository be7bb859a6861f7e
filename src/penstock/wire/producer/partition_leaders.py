"""The leaders of partitions: where their batches are sent from."""

from __future__ import annotations

import time
import uuid

from penstock.errors import TopicRecreated, UnknownTopic
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.metadata import Broker, Metadata
from penstock.wire.brokers import RETRIABLE_ERRORS
from penstock.wire.cluster import Cluster
from penstock.wire.producer.failures import Failures
from penstock.wire.producer.leader_line import LeaderLine
from penstock.wire.producer.partition_queue import PartitionQueue
from penstock.wire.producer.producer_config import ProducerConfig


class PartitionLeaders:
    """Puts queues into the lines of their leaders, and looks leaders up. For one thread."""

    def __init__(
        self, cluster: Cluster, settings: ProducerConfig, failures: Failures, topic_ids: dict[str, uuid.UUID | None]
    ) -> None:
        """`topic_ids`: those of the topics that the producer has seen; a topic must keep its id."""
        self._cluster = cluster
        self._settings = settings
        self._failures = failures
        self.topic_ids = topic_ids
        self.lines: dict[tuple[str, int], LeaderLine] = {}
        """By the address of the broker."""
        self.leaderless: dict[PartitionQueue, None] = {}
        """Queues whose leader is to be looked up."""
        self.ask_at = 0.0
        """The cluster is not asked before this time."""

    def learn(self, metadata: Metadata) -> None:
        """Remember topic ids. Raises TopicRecreated if one has changed."""
        for name, topic in metadata.topics.items():
            known = self.topic_ids.setdefault(name, topic.topic_id)
            if None not in (known, topic.topic_id) and known != topic.topic_id:
                raise TopicRecreated(name)

    def add(self, queue: PartitionQueue) -> None:
        """A new partition."""
        known = self._cluster.known
        if known is not None and queue.tp.topic in self.topic_ids:
            queue.leader = known.leader(queue.tp)
        self.place(queue)

    def place(self, queue: PartitionQueue) -> None:
        """Put a queue where its batches are sent from next."""
        if queue.leader is None:
            self.leaderless[queue] = None
        elif queue.waiting:
            self.line_of(queue).queues[queue] = None

    def line_of(self, queue: PartitionQueue) -> LeaderLine:
        assert queue.leader is not None
        broker: Broker = queue.leader.broker
        line = self.lines.get(broker.address)
        if line is None:
            line = self.lines[broker.address] = LeaderLine(broker)
        return line

    def forget(self, queue: PartitionQueue) -> None:
        if queue.leader is not None:
            self.line_of(queue).queues.pop(queue, None)
            queue.leader = None
        self.leaderless[queue] = None

    def find(self, now: float) -> None:
        """Ask the cluster once for the leaders that are missing."""
        if now < self.ask_at:
            return
        config, queues = self._cluster.config, list(self.leaderless)
        topics = tuple(dict.fromkeys(queue.tp.topic for queue in queues))
        timeout = min(config.request_timeout, self._settings.delivery_timeout)
        pause = config.retry_backoff
        try:
            metadata, _ = self._cluster.try_listing(topics, timeout)
        except RETRIABLE_ERRORS as error:
            for queue in queues:
                pause = self._failures.note(queue, error)
            self.ask_at = time.monotonic() + pause
            return
        self.learn(metadata)
        now = time.monotonic()
        self.ask_at = now + pause
        for queue in queues:
            queue.leader = metadata.leader(queue.tp)
            if not metadata.lists(queue.tp):
                self._check_unknown(queue, metadata, now)
            elif queue.leader is None:
                self._failures.note(queue, RetriableError(f"{queue.tp} has no leader"))
            else:
                queue.unknown_since = None
                del self.leaderless[queue]
                self.place(queue)

    def _check_unknown(self, queue: PartitionQueue, metadata: Metadata, now: float) -> None:
        """A topic or partition that was created a moment ago is unknown to some brokers."""
        if queue.unknown_since is None:
            queue.unknown_since = now
        if now - queue.unknown_since >= self._cluster.unknown_topic_grace:
            topic = metadata.topics.get(queue.tp.topic)
            if topic is None:
                self._cluster.metadata((queue.tp.topic,))  # raises UnknownTopic, with a hint
                raise UnknownTopic(queue.tp.topic)
            count = len(topic.partitions)
            raise UnknownTopic(queue.tp.topic, queue.tp.partition, f"the topic has partitions 0 to {count - 1}")
        self._failures.note(queue, RetriableError(f"{queue.tp} is unknown so far"))
