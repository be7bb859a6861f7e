"""The Metadata API: topics, leaders and brokers, as values and as a request."""

from __future__ import annotations

import difflib
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from penstock.errors import UnknownTopic
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import INVALID_TOPIC, UNKNOWN_TOPIC_OR_PARTITION, RetriableError, check
from penstock.wire.api.frame import FrameReader
from penstock.wire.api.message import (
    Api,
    Structure,
    array,
    boolean,
    int16,
    int32,
    nullable_text,
    numbers,
    text,
    topic_id,
)
from penstock.wire.transport.connection import Connection

_LEADER_EPOCHS, _OFFLINE_REPLICAS = 7, 5  # the versions that brought them


_FEW = 4
"""Below this many partitions of a topic, reading them at once saves nothing."""


class ListedPartition(NamedTuple):
    """A partition in a response. Its replicas are not read."""

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int = -1


_PARTITION = struct.Struct(">hiii")
_PARTITION_WITHOUT_EPOCH = struct.Struct(">hii")


def _read_partitions(reader: FrameReader, version: int) -> list[ListedPartition]:
    """Read the partitions of a topic by hand: 2,000 of them take 2 ms, and 9 ms field by field."""
    layout = _PARTITION if version >= _LEADER_EPOCHS else _PARTITION_WITHOUT_EPOCH
    replica_lists = range(3 if version >= _OFFLINE_REPLICAS else 2)
    frame, flexible = reader.frame, reader.flexible
    count = reader.count(layout.size)
    if flexible and count >= _FEW and (rows := _equal_rows(reader, layout, len(replica_lists), count)) is not None:
        return rows
    found = []
    for _ in range(count):
        found.append(ListedPartition(*layout.unpack_from(frame, reader.at)))
        at = reader.at + layout.size
        for _ in replica_lists:
            if flexible and (count := frame[at]) < 0x80:  # one more than the replicas; 0 for null
                at += 4 * count - 3 if count else 1
            else:
                reader.at = at
                reader.take(4 * reader.count(4))
                at = reader.at
        reader.at = at
        reader.tags()
    return found


def _equal_rows(reader: FrameReader, layout: struct.Struct, lists: int, count: int) -> list[ListedPartition] | None:
    """Read all partitions at once if each has as many replicas as the first one, as they do while all brokers are up.

    None, and nothing is read, if they differ. One by one, most of the time goes into calls per partition.
    """
    frame, start = reader.frame, reader.at
    size, repeated = layout.size, []
    for _ in range(lists):
        replicas = frame[start + size]
        if replicas >= 0x80:
            return None
        repeated.append((size, replicas))
        size += 4 * replicas - 3 if replicas else 1
    repeated.append((size, 0))  # no tagged fields
    size += 1
    rows = frame[start : start + size * count]
    # The first row has this layout. If a row has it, the next row begins where it is expected to.
    if len(rows) < size * count or any(rows[at::size].tobytes() != bytes([byte]) * count for at, byte in repeated):
        return None
    reader.at += size * count
    return [*map(ListedPartition._make, struct.iter_unpack(f"{layout.format}{size - layout.size}x", rows))]


METADATA = Api(
    "Metadata",
    3,
    lowest=1,
    highest=13,
    flexible=9,
    request_body=Structure(
        array("topics", topic_id("topic_id", since=10), text("name")),
        boolean("allow_auto_topic_creation", since=4),
        boolean("include_cluster_authorized_operations", since=8, until=10, default=False),
        boolean("include_topic_authorized_operations", since=8, default=False),
    ),
    response_body=Structure(
        int32("throttle_time_ms", since=3),
        array("brokers", int32("node_id"), text("host"), int32("port"), nullable_text("rack")),
        nullable_text("cluster_id", since=2),
        int32("controller_id"),
        array(
            "topics",
            int16("error_code"),
            text("name"),
            topic_id("topic_id", since=10),
            boolean("is_internal"),
            array(
                "partitions",
                int16("error_code"),
                int32("partition_index"),
                int32("leader_id"),
                int32("leader_epoch", since=_LEADER_EPOCHS, default=-1),
                numbers("replica_nodes"),
                numbers("isr_nodes"),
                numbers("offline_replicas", since=_OFFLINE_REPLICAS),
                read=_read_partitions,
            ),
            int32("topic_authorized_operations", since=8),
        ),
        int32("cluster_authorized_operations", since=8, until=10),
        int16("error_code", since=13, default=0),
    ),
)

UNLISTED = "the cluster does not list this broker any more"


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition. Plans carry it, so that an executor need not ask for it."""

    broker: Broker
    epoch: int = -1

    def superseded_by(self, other: Leader) -> bool:
        """Whether `other`, in another broker's metadata, has replaced this leader. Stale metadata proves nothing."""
        if min(self.epoch, other.epoch) >= 0 and self.epoch != other.epoch:
            return other.epoch > self.epoch
        return self.broker.address != other.broker.address


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: uuid.UUID | None
    internal: bool
    partitions: Mapping[int, Leader | None]


@dataclass(frozen=True, slots=True)
class Metadata:
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]
    cluster_id: str | None = None

    def leader(self, tp: TopicPartition) -> Leader | None:
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[Broker, list[TopicPartition]], list[TopicPartition]]:
        """Partitions by the broker that leads them, and those without a leader."""
        # By the identity of the leader first, which partitions share: hashing a Broker takes longer than the rest.
        topics = self.topics
        by_identity: dict[int, tuple[Leader, list[TopicPartition]]] = {}
        leaderless: list[TopicPartition] = []
        for tp in partitions:
            topic = topics.get(tp[0])
            leader = None if topic is None else topic.partitions.get(tp[1])
            if leader is None:
                leaderless.append(tp)
            elif (found := by_identity.get(id(leader))) is not None:
                found[1].append(tp)
            else:
                by_identity[id(leader)] = leader, [tp]
        by_node: dict[int, list[TopicPartition]] = {}
        brokers: dict[int, Broker] = {}
        for leader, led in by_identity.values():
            node_id = leader.broker.node_id
            if node_id in by_node:
                by_node[node_id] += led
            else:
                by_node[node_id], brokers[node_id] = led, leader.broker
        return {brokers[node_id]: tps for node_id, tps in by_node.items()}, leaderless

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The leader epochs of partitions; without those that have no leader, or whose broker is too old for epochs."""
        topics = self.topics
        found = {}
        for tp in partitions:
            topic = topics.get(tp[0])
            leader = None if topic is None else topic.partitions.get(tp[1])
            if leader is not None and leader.epoch >= 0:
                found[tp] = leader.epoch
        return found

    def has(self, broker: Broker) -> bool:
        """Whether the cluster lists this broker. It drops a broker that is silent for some seconds."""
        return any(broker.address == other.address for other in self.brokers.values())

    def lists(self, tp: TopicPartition) -> bool:
        """Whether the partition exists, with a leader or without."""
        topic = self.topics.get(tp.topic)
        return topic is not None and tp.partition in topic.partitions

    def updated(self, newer: Metadata) -> Metadata:
        """This metadata, with newer metadata of some topics."""
        return Metadata(newer.brokers, {**self.topics, **newer.topics}, newer.cluster_id)

    def without(self, topics: Sequence[str]) -> Metadata:
        others = {name: topic for name, topic in self.topics.items() if name not in topics}
        return Metadata(self.brokers, others, self.cluster_id)


def departed(
    broker: Broker, read_from: Mapping[TopicPartition, Leader | None], now: Metadata
) -> dict[TopicPartition, str]:
    """The partitions that must no longer be read from this broker, and why.

    `read_from`: the leaders as known so far; None if the broker is read as a follower.
    """
    if not now.has(broker):
        return dict.fromkeys(read_from, UNLISTED)
    found = {}
    for tp, known in read_from.items():
        leader = now.leader(tp)
        if known is not None and leader is not None and known.superseded_by(leader):
            found[tp] = f"{leader.broker.host}:{leader.broker.port} leads {tp} now"
    return found


def ask_metadata(
    connection: Connection, topics: Sequence[str] | None, timeout: float, create: bool = False
) -> tuple[Metadata, list[str]]:
    """The named topics (None: all) that this broker knows, and the names it does not know.

    `create`: a broker with auto.create.topics.enable begins to create those that it does not know.
    """
    request = METADATA.request(
        connection.version(METADATA),
        topics=None if topics is None else [{"name": name} for name in topics],
        allow_auto_topic_creation=create,
    )
    response = connection.call(request, timeout)
    check(response.error_code, f"topics of {connection.address}")
    brokers = {each.node_id: Broker(each.node_id, each.host, each.port, each.rack) for each in response.brokers}
    if not brokers:
        raise RetriableError("the response names no broker")
    found: dict[str, Topic] = {}
    unknown: list[str] = []
    leaders: dict[tuple[int, int], Leader | None] = {}
    for topic in response.topics:
        if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            unknown.append(topic.name)
            continue
        if topic.error_code == INVALID_TOPIC:
            raise UnknownTopic(topic.name, detail="Kafka does not allow such a topic name")
        check(topic.error_code, f"topic {topic.name!r}")
        found[topic.name] = Topic(
            topic.name,
            topic.topic_id,
            topic.is_internal,
            _leaders_of(topic.partitions, brokers, leaders),
        )
    return Metadata(brokers, found, response.cluster_id), unknown


WRITE = 4
"""Kafka's number of the operation, and its bit in `topic_authorized_operations`."""

_NOT_SAID = -(1 << 31)


def ask_may_write(connection: Connection, topic: str, timeout: float) -> bool | None:
    """Whether ACLs allow this user to write to a topic. None if the broker is too old to say (before Kafka 2.3)."""
    if not connection.speaks(METADATA, 8):
        return None
    request = METADATA.request(
        connection.version(METADATA),
        topics=[{"name": topic}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    for each in connection.call(request, timeout).topics:
        if each.name == topic and each.error_code == 0 and each.topic_authorized_operations != _NOT_SAID:
            return bool(each.topic_authorized_operations >> WRITE & 1)
    return None


def nearest(name: str, metadata: Metadata) -> str:
    """A hint for a user who named a topic that does not exist."""
    names = [topic.name for topic in metadata.topics.values() if not topic.internal]
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return "did you mean " + " or ".join(repr(other) for other in close) + "?"
    return "the cluster has no topic that this user may see" if not names else f"the cluster has {len(names)} others"


def _leaders_of(
    partitions: Sequence[ListedPartition],
    brokers: Mapping[int, Broker],
    leaders: dict[tuple[int, int], Leader | None],
) -> dict[int, Leader | None]:
    """The leaders of a topic's partitions. Partitions share one object per leader: it is slow to make, and there are
    few leaders. `leaders`: those made so far, by node id and epoch."""
    found: dict[int, Leader | None] = {}
    for _, number, node_id, epoch in sorted(partitions, key=itemgetter(1)):
        key = (node_id, epoch)
        if key not in leaders:
            broker = brokers.get(node_id)
            leaders[key] = None if broker is None else Leader(broker, epoch)
        found[number] = leaders[key]
    return found
