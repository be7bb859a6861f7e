"""What the cluster says of itself: topics, leaders, offsets, group commits.

The planning side's only door to Kafka. Every question is asked until it is answered or its deadline passes; what
cannot get better by asking again (a wrong password, no permission) fails at once.
"""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from kafka.protocol.consumer import ListOffsetsRequest

from penstock.errors import ProtocolError, UnknownTopic
from penstock.topics import TopicPartition
from penstock.wire.codes import UNKNOWN_TOPIC_OR_PARTITION, NotYet, check
from penstock.wire.config import ClientConfig
from penstock.wire.connection import Connection, ConnectionLost
from penstock.wire.deadline import Attempts, Interrupted
from penstock.wire.groups import ask_commit, ask_committed, find_coordinator
from penstock.wire.metadata import Broker, Leader, Metadata, Topic, ask_metadata, nearest
from penstock.wire.pool import POOL

__all__ = ["Broker", "Cluster", "Leader", "Metadata", "Topic"]

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

EARLIEST = -2
LATEST = -1
EARLIEST_LOCAL = -4

UNKNOWN_TOPIC_GRACE = 2.0
"""A topic created a moment ago is unknown to some brokers; after this long it is taken to be missing."""


class Cluster:
    """Asks one cluster. Keeps the last metadata; connections come from the process's pool.

    For one thread; only `abort` may come from another one, when `wait` has begun to return True.
    """

    def __init__(self, config: ClientConfig, wait: Callable[[float], object] = time.sleep) -> None:
        self.config = config
        self._wait = wait
        self._brokers: Mapping[int, Broker] = {}
        self._known: Metadata | None = None
        self._coordinators: dict[str, Broker] = {}
        self._connection: Connection | None = None

    def abort(self) -> None:
        """Wake a thread that waits for an answer. May be called by any thread."""
        connection = self._connection
        if connection is not None:
            connection.abort()

    # --- topics ---------------------------------------------------------------------------------------------------

    def metadata(self, topics: Sequence[str] | None) -> Metadata:
        """The named topics (None: all) with their leaders. Raises UnknownTopic for a name the cluster does not have."""
        metadata, unknown = self.listing(topics)
        if unknown:
            attempts = self._attempts(f"asking {self.config.bootstrap_text} for all topics")
            others = self._retry(attempts, lambda: self._ask_metadata(None, attempts))[0]
            raise UnknownTopic(unknown[0], detail=nearest(unknown[0], others))
        return metadata

    def listing(self, topics: Sequence[str] | None) -> tuple[Metadata, list[str]]:
        """The named topics (None: all) with their leaders, and the names that the cluster does not have."""
        attempts = self._attempts(f"asking {self.config.bootstrap_text} for topics")
        started = time.monotonic()

        def ask() -> tuple[Metadata, list[str]]:
            metadata, unknown = self._ask_metadata(topics, attempts)
            if unknown and not self._is_over(started):
                raise NotYet(f"topic {unknown[0]!r} is unknown so far")
            missing = [name for name in topics or () if name not in metadata.topics and name not in unknown]
            if missing:
                raise NotYet(f"the answer leaves out topic {missing[0]!r}")
            return metadata, unknown

        metadata, unknown = self._retry(attempts, ask)
        known = metadata if topics is None or self._known is None else self._known.updated(metadata)
        self._known = known.without(unknown) if unknown else known
        return metadata, unknown

    def _ask_metadata(self, topics: Sequence[str] | None, attempts: Attempts) -> tuple[Metadata, list[str]]:
        with self._any_broker(attempts) as connection:
            timeout = attempts.remaining(self.config.request_timeout)
            metadata, unknown = ask_metadata(connection, topics, timeout)
        self._brokers = metadata.brokers
        return metadata, unknown

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
            return ask_committed(connection, group, wanted, attempts.remaining(self.config.request_timeout))

        return self._ask_coordinator(group, attempts, ask)

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int] | None = None,
        metadata: str = "",
    ) -> None:
        """Commit the next offsets to read for a group that has no members: one request while its coordinator stays.

        Raises when any partition could not be committed; the others then may have been.
        """
        for tp, offset in offsets.items():
            if offset < 0:
                raise ValueError(f"offset {offset} of {tp} cannot be committed: an offset is 0 or more")
        missing = dict(offsets)
        if not missing:
            return
        attempts = self._attempts(f"committing {len(offsets)} offsets of group {group!r}")
        started = time.monotonic()

        def ask(connection: Connection) -> None:
            timeout = attempts.remaining(self.config.request_timeout)
            outcomes = ask_commit(connection, group, missing, epochs or {}, metadata, timeout)
            for tp, problem in outcomes.items():
                if problem is None:
                    del missing[tp]
            for tp in missing:
                problem = outcomes[tp]
                assert problem is not None
                if problem.error_code == UNKNOWN_TOPIC_OR_PARTITION and self._is_over(started):
                    raise UnknownTopic(tp.topic, tp.partition, f"so group {group!r} cannot commit offset {offsets[tp]}")
            if missing:
                raise next(problem for problem in outcomes.values() if problem is not None)

        self._ask_coordinator(group, attempts, ask)

    def _ask_coordinator(self, group: str, attempts: Attempts, ask: Callable[[Connection], Answer]) -> Answer:
        """Ask a group's coordinator, which is looked up once and again when it proves wrong."""

        def tried() -> Answer:
            coordinator = self._coordinators.get(group)
            if coordinator is None:
                with self._any_broker(attempts) as connection:
                    timeout = attempts.remaining(self.config.request_timeout)
                    coordinator = find_coordinator(connection, group, timeout)
                self._coordinators[group] = coordinator
            try:
                with self._borrowed(coordinator.host, coordinator.port, attempts) as connection:
                    return ask(connection)
            except (ConnectionLost, NotYet, ProtocolError):
                del self._coordinators[group]
                raise

        return self._retry(attempts, tried)

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

    def _is_over(self, started: float) -> bool:
        """Whether a topic that has been unknown since then is taken to be missing."""
        return time.monotonic() - started >= min(UNKNOWN_TOPIC_GRACE, self.config.api_timeout / 2)

    def _retry(self, attempts: Attempts, ask: Callable[[], Answer]) -> Answer:
        """Ask until there is an answer."""
        while True:
            try:
                return ask()
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
