"""What the cluster says of itself: topics, leaders, offsets, group commits.

The planning side's only door to Kafka. Every question is asked until it is answered or its deadline passes; what
cannot get better by asking again (a wrong password, no permission) fails at once.
"""

from __future__ import annotations

import difflib
import logging
import random
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from penstock.errors import ProtocolError, UnknownTopic
from penstock.topics import TopicPartition
from penstock.wire.codes import INVALID_TOPIC, UNKNOWN_TOPIC_OR_PARTITION, NotYet, check
from penstock.wire.config import ClientConfig
from penstock.wire.connection import Connection, ConnectionLost
from penstock.wire.deadline import Attempts, Interrupted
from penstock.wire.pool import POOL

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

EARLIEST = -2
LATEST = -1
EARLIEST_LOCAL = -4

UNKNOWN_TOPIC_GRACE = 2.0
"""A topic created a moment ago is unknown to some brokers; after this long it is taken to be missing."""


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Leader:
    """Where a partition is read: travels inside a plan, so that an executor need not ask first."""

    broker: Broker
    epoch: int = -1


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

    def leader(self, tp: TopicPartition) -> Leader | None:
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)


class Cluster:
    """Asks one cluster. Keeps the last metadata; connections come from the process's pool.

    For one thread; only `abort` may come from another one, when `wait` has begun to return True.
    """

    def __init__(self, config: ClientConfig, wait: Callable[[float], object] = time.sleep) -> None:
        self.config = config
        self._wait = wait
        self._brokers: Mapping[int, Broker] = {}
        self._known: Metadata | None = None
        self._connection: Connection | None = None

    def abort(self) -> None:
        """Wake a thread that waits for an answer. May be called by any thread."""
        connection = self._connection
        if connection is not None:
            connection.abort()

    # --- topics ---------------------------------------------------------------------------------------------------

    def metadata(self, topics: Sequence[str] | None) -> Metadata:
        """The named topics (None: all) with their leaders. Raises UnknownTopic for a name the cluster does not have."""
        attempts = self._attempts(f"asking {self.config.bootstrap_text} for topics")
        started = time.monotonic()

        def ask(connection: Connection) -> Metadata:
            metadata, unknown = self._ask_metadata(connection, topics, attempts)
            if unknown:
                if time.monotonic() - started < UNKNOWN_TOPIC_GRACE:
                    raise NotYet(f"topic {unknown[0]!r} is unknown so far")
                known, _ = self._ask_metadata(connection, None, attempts)
                raise UnknownTopic(unknown[0], detail=_nearest(unknown[0], known))
            missing = [name for name in topics or () if name not in metadata.topics]
            if missing:
                raise NotYet(f"the answer leaves out topic {missing[0]!r}")
            return metadata

        self._known = self._retry(attempts, ask)
        return self._known

    def _ask_metadata(
        self, connection: Connection, topics: Sequence[str] | None, attempts: Attempts
    ) -> tuple[Metadata, list[str]]:
        version = connection.version(MetadataRequest)
        topic_class = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            version=version,
            topics=None if topics is None else [topic_class(version=version, name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        response = connection.call(request, attempts.remaining(self.config.request_timeout))
        brokers = {b.node_id: Broker(b.node_id, b.host, b.port, getattr(b, "rack", None)) for b in response.brokers}
        if not brokers:
            raise NotYet("the answer names no broker")
        self._brokers = brokers
        found: dict[str, Topic] = {}
        unknown: list[str] = []
        for topic in response.topics:
            if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                unknown.append(topic.name)
                continue
            if topic.error_code == INVALID_TOPIC:
                raise UnknownTopic(topic.name, detail="Kafka does not allow such a topic name")
            check(topic.error_code, f"topic {topic.name!r}")
            found[topic.name] = Topic(
                topic.name,
                _topic_id(topic),
                bool(getattr(topic, "is_internal", False)),
                {p.partition_index: _leader(p, brokers) for p in sorted(topic.partitions, key=_partition_index)},
            )
        return Metadata(brokers, found), unknown

    # --- offsets --------------------------------------------------------------------------------------------------

    def begin(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def end(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where a consumer's reading ends now: the high watermark, or the last stable offset under read_committed."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time (ms) per partition; None where no record is that young."""
        found = self._offsets(times)
        return {tp: None if offset < 0 else offset for tp, offset in found.items()}

    def local_begin(self, tp: TopicPartition) -> int:
        """The first offset on the leader's own disk: below it lies tiered storage, if the topic has that."""
        return self._offsets({tp: EARLIEST_LOCAL}, below_version=(8, EARLIEST))[tp]

    def _offsets(
        self, wanted: Mapping[TopicPartition, int], below_version: tuple[int, int] | None = None
    ) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        attempts = self._attempts(f"asking for the offsets of {len(wanted)} partitions")
        found: dict[TopicPartition, int] = {}
        metadata = self._known
        while len(found) < len(wanted):
            missing = {tp: at for tp, at in wanted.items() if tp not in found}
            if attempts.count or metadata is None or any(metadata.leader(tp) is None for tp in missing):
                metadata = self.metadata(tuple(dict.fromkeys(tp.topic for tp in missing)))
            by_leader: dict[Broker, list[TopicPartition]] = defaultdict(list)
            for tp in missing:
                leader = metadata.leader(tp)
                if leader is not None:
                    by_leader[leader.broker].append(tp)
                elif tp.partition not in metadata.topics[tp.topic].partitions:
                    count = len(metadata.topics[tp.topic].partitions)
                    raise UnknownTopic(tp.topic, tp.partition, f"the topic has partitions 0 to {count - 1}")
                else:
                    attempts.failed(f"{tp} has no leader")
            for broker, partitions in by_leader.items():
                try:
                    connection = POOL.acquire(self.config, broker.host, broker.port, attempts.remaining())
                    try:
                        found |= self._ask_offsets(
                            connection,
                            {tp: wanted[tp] for tp in partitions},
                            metadata,
                            below_version,
                            attempts,
                        )
                    finally:
                        POOL.release(connection)
                except (ConnectionLost, NotYet) as error:
                    attempts.failed(str(error), error)
            if len(found) < len(wanted):
                attempts.pause()
        return found

    def _ask_offsets(
        self,
        connection: Connection,
        wanted: Mapping[TopicPartition, int],
        metadata: Metadata,
        below_version: tuple[int, int] | None,
        attempts: Attempts,
    ) -> dict[TopicPartition, int]:
        version = connection.version(ListOffsetsRequest)
        topic_class = ListOffsetsRequest.ListOffsetsTopic
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for tp, timestamp in wanted.items():
            if below_version is not None and version < below_version[0]:
                timestamp = below_version[1]
            leader = metadata.leader(tp)
            by_topic[tp.topic].append(
                topic_class.ListOffsetsPartition(
                    version=version,
                    partition_index=tp.partition,
                    current_leader_epoch=-1 if leader is None else leader.epoch,
                    timestamp=timestamp,
                )
            )
        request = ListOffsetsRequest(
            version=version,
            replica_id=-1,
            isolation_level=1 if self.config.read_committed else 0,
            topics=[topic_class(version=version, name=name, partitions=ps) for name, ps in by_topic.items()],
            timeout_ms=int(self.config.request_timeout * 1000),
        )
        response = connection.call(request, attempts.remaining(self.config.request_timeout))
        found: dict[TopicPartition, int] = {}
        for topic in response.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                try:
                    check(partition.error_code, f"offsets of {tp}")
                except NotYet as error:
                    attempts.failed(str(error))
                else:
                    if tp in wanted and (partition.offset >= 0 or wanted[tp] >= 0):
                        found[tp] = partition.offset
                    else:
                        attempts.failed(f"offset {partition.offset} of {tp} makes no sense")
        return found

    # --- groups ---------------------------------------------------------------------------------------------------

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The offsets a group has committed; None where it has committed nothing."""
        wanted = list(partitions)
        attempts = self._attempts(f"asking for the committed offsets of group {group!r}")

        def ask(connection: Connection) -> dict[TopicPartition, int | None]:
            coordinator = self._coordinator(connection, group, attempts)
            with self._borrowed(coordinator.host, coordinator.port, attempts) as held:
                return self._ask_committed(held, group, wanted, attempts)

        return self._retry(attempts, ask)

    def _coordinator(self, connection: Connection, group: str, attempts: Attempts) -> Broker:
        version = connection.version(FindCoordinatorRequest)
        names = {"coordinator_keys": [group]} if version >= 4 else {"key": group}
        request = FindCoordinatorRequest(version=version, key_type=0, **names)
        response = connection.call(request, attempts.remaining(self.config.request_timeout))
        answer = _only(response.coordinators, "coordinators") if version >= 4 else response
        check(answer.error_code, f"coordinator of group {group!r}")
        return Broker(answer.node_id, answer.host, answer.port)

    def _ask_committed(
        self, connection: Connection, group: str, wanted: Sequence[TopicPartition], attempts: Attempts
    ) -> dict[TopicPartition, int | None]:
        # Version 10 names topics by id; 9 is the last that takes names, and says no less.
        version = connection.version(OffsetFetchRequest, at_most=9)
        by_topic: dict[str, list[int]] = defaultdict(list)
        for tp in wanted:
            by_topic[tp.topic].append(tp.partition)
        if version >= 8:
            group_class = OffsetFetchRequest.OffsetFetchRequestGroup
            topics = [
                group_class.OffsetFetchRequestTopics(version=version, name=name, partition_indexes=numbers)
                for name, numbers in by_topic.items()
            ]
            groups = [group_class(version=version, group_id=group, member_id=None, member_epoch=-1, topics=topics)]
            request = OffsetFetchRequest(version=version, groups=groups, require_stable=True)
        else:
            topic_class = OffsetFetchRequest.OffsetFetchRequestTopic
            topics = [
                topic_class(version=version, name=name, partition_indexes=numbers) for name, numbers in by_topic.items()
            ]
            request = OffsetFetchRequest(version=version, group_id=group, topics=topics)
        response = connection.call(request, attempts.remaining(self.config.request_timeout))
        answer = _only(response.groups, "groups") if version >= 8 else response
        check(answer.error_code, f"committed offsets of group {group!r}")
        found: dict[TopicPartition, int | None] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                check(partition.error_code, f"committed offset of {tp} in group {group!r}")
                found[tp] = partition.committed_offset if partition.committed_offset >= 0 else None
        return {tp: found.get(tp) for tp in wanted}

    # --- asking ---------------------------------------------------------------------------------------------------

    def _attempts(self, what: str) -> Attempts:
        return Attempts(
            what,
            self.config.api_timeout,
            backoff=self.config.retry_backoff,
            backoff_max=self.config.retry_backoff_max,
            way_out="Check kafka.bootstrap.servers and kafka.security.protocol, and that the brokers run. To wait "
            "longer, set kafka.default.api.timeout.ms",
            wait=self._wait,
        )

    def _retry(self, attempts: Attempts, ask: Callable[[Connection], Answer]) -> Answer:
        """Ask any broker until one answers."""
        while True:
            try:
                with self._any_broker(attempts) as connection:
                    return ask(connection)
            except (ConnectionLost, NotYet, ProtocolError) as error:
                if attempts.count == 0 and isinstance(error, ConnectionLost):
                    log.warning("%s: %s; trying for %g s", attempts.what, error, attempts.timeout)
                attempts.failed(str(error), error)
            attempts.pause()

    @contextmanager
    def _any_broker(self, attempts: Attempts) -> Iterator[Connection]:
        """A connection to some broker: the known ones in random order, then the bootstrap list."""
        known = [(b.host, b.port) for b in self._brokers.values()]
        random.shuffle(known)
        addresses = [*known, *self.config.bootstrap]
        for host, port in addresses[:-1]:
            with suppress(ConnectionLost, ProtocolError):
                connection = self._acquire(host, port, attempts)
                break
        else:
            connection = self._acquire(*addresses[-1], attempts)
        with self._released(connection):
            yield connection

    @contextmanager
    def _borrowed(self, host: str, port: int, attempts: Attempts) -> Iterator[Connection]:
        connection = self._acquire(host, port, attempts)
        with self._released(connection):
            yield connection

    def _acquire(self, host: str, port: int, attempts: Attempts) -> Connection:
        if self._wait(0):
            raise Interrupted
        return POOL.acquire(self.config, host, port, attempts.remaining())

    @contextmanager
    def _released(self, connection: Connection) -> Iterator[None]:
        """Give a connection back afterwards; meanwhile `abort` reaches it."""
        before, self._connection = self._connection, connection
        try:
            yield
        finally:
            self._connection = before
            POOL.release(connection)


def _only(answers: Sequence[Any], what: str) -> Any:
    if len(answers) != 1:
        raise ProtocolError(f"asked about one group, the answer holds {len(answers)} {what}")
    return answers[0]


def _topic_id(topic: Any) -> uuid.UUID | None:
    topic_id = getattr(topic, "topic_id", None)
    return topic_id if topic_id is not None and topic_id.int != 0 else None


def _partition_index(partition: Any) -> int:
    return int(partition.partition_index)


def _leader(partition: Any, brokers: Mapping[int, Broker]) -> Leader | None:
    broker = brokers.get(partition.leader_id)
    epoch = getattr(partition, "leader_epoch", None)
    return None if broker is None else Leader(broker, -1 if epoch is None else epoch)


def _nearest(name: str, metadata: Metadata) -> str:
    names = [topic.name for topic in metadata.topics.values() if not topic.internal]
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return "did you mean " + " or ".join(repr(other) for other in close) + "?"
    return "the cluster has no topic that this user may see" if not names else f"the cluster has {len(names)} others"
