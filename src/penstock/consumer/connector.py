"""The connector: one member of a consumer group, and the streams that read its partitions.

    with penstock.ConsumerConnector({"bootstrap.servers": "broker:9092", "group.id": "words"}) as connector:
        for stream in connector.create_message_streams({"words": 4})["words"]:
            threading.Thread(target=count, args=[stream]).start()

Threads: the membership's, which joins the group and carries out rebalances, and its heartbeat thread; one fetcher per
broker; the leader finder; auto-commit. A watermark strategy adds the event-time thread and, with a watermark listener,
that listener's thread.
"""

from __future__ import annotations

import atexit
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any

from penstock.config.consumer import ConsumerConfig, check_share_settings, missing_group, parse_config
from penstock.config.in_force import options_text, versions
from penstock.config.option import warn_of_ignored
from penstock.consumer.assigned_partitions import AssignedPartitions
from penstock.consumer.auto_commit import AutoCommit
from penstock.consumer.event_time.batch import as_datetime
from penstock.consumer.event_time.event_time_thread import EventTimeThread
from penstock.consumer.event_time.shared_tracker import SharedTracker, checked_strategy
from penstock.consumer.fetch.cursor import CursorReader
from penstock.consumer.fetch.leader_finder import LeaderFinder
from penstock.consumer.fetch.position_check import ResetRule
from penstock.consumer.group.protocols import GroupMembership, new_membership
from penstock.consumer.manual_assignment import ManualAssignment, PartitionStart, checked_partitions, needs_group
from penstock.consumer.offsets import Offsets
from penstock.consumer.partition_metrics import partition_metrics
from penstock.consumer.rebalancer import RebalanceListener, Rebalancer
from penstock.consumer.share.share_group import ShareGroup
from penstock.consumer.share.share_stream import ShareStream
from penstock.consumer.shutdown import Shutdown
from penstock.consumer.start import Start, StartingOffsets, check_topics, checked_start
from penstock.consumer.stream.records import Decode
from penstock.consumer.stream.stream import Stream
from penstock.consumer.stream_factory import StreamFactory
from penstock.consumer.subscription import AllowTopics, DenyTopics, FilteredTopics, NamedTopics, StreamSubscription
from penstock.consumer.transactional_offsets import TransactionalOffsets
from penstock.consumer.wait_reason import wait_reason
from penstock.errors import CommitRefused, MessageStreamsExist, OptionError
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.eventtime.tracker import EventTimeStatus
from penstock.masking import get_logger
from penstock.metrics.consumer import ConsumerMetrics, StreamQueue
from penstock.metrics.consumer_counters import ConsumerCounters
from penstock.metrics.group_counters import NO_GROUP
from penstock.model.offset_spec import GroupOffsets
from penstock.model.subscription import AssignedPartitions as OfPartitions
from penstock.model.subscription import TopicNames, TopicPattern
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import GroupMember
from penstock.wire.cluster import Cluster
from penstock.wire.transport.pool import POOL

log = get_logger(__name__)

SHUTDOWN_SECONDS = 30.0


class ConsumerConnector:
    """A consumer in a group. Every method may be called by any thread."""

    def __init__(
        self,
        config: Mapping[str, object],
        *,
        start: Start | None = None,
        watermarks: WatermarkStrategy | None = None,
    ) -> None:
        """`config`: Kafka's consumer settings (docs/consumer.md).

        `start`: where to start when the whole group starts, instead of at the group's offsets: "earliest", "latest", a
        time such as "-1h", a datetime, or offsets by partition. `watermarks`: how records get event time; without it
        they have none.
        """
        if not hasattr(config, "items"):
            example = '{"bootstrap.servers": "broker:9092", "group.id": "words"}'
            raise OptionError("config", config, "is not a mapping", f"Give Kafka's settings, as {example}")
        self.config: ConsumerConfig = parse_config(config, needs_group=False)
        warn_of_ignored(self.config.ignored, "setting")
        _ = self.config.client.rack  # a rack that cannot be found is an error here, not in a thread
        own_id = self.config.consumer_id or _generated_id()
        self.consumer_id = f"{self.config.group}_{own_id}" if self.config.group else own_id
        self._start = checked_start(start, self.config)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._shutdown = Shutdown(self._close)
        self._assigned = AssignedPartitions()
        self._counters = ConsumerCounters()
        self._streams: list[tuple[str, Stream]] = []
        """The streams with their topics; a stream of a filter has the topic ""."""
        self._share: ShareGroup | None = None
        """The membership and the streams of a share group, instead of the others."""
        self._membership: GroupMembership | None = None
        self._unregister: list[Callable[[], None]] = []
        self._tracker: SharedTracker | None = None
        self._event_time_thread: EventTimeThread | None = None
        if watermarks is not None:
            strategy, max_wait = checked_strategy(watermarks), self.config.client.fetch_max_wait
            self._tracker = SharedTracker(strategy, fetch_max_wait=max_wait)
            self._event_time_thread = EventTimeThread(self.config, self._tracker, self._assigned.in_order)
        self._finder = LeaderFinder(
            self.config.client,
            ResetRule(self.config.group, self.config.reset),
            fetchers=self.config.fetchers,
            backoff=self.config.refresh_leader_backoff,
            on_error=self._report,
            on_fetched=self._counters.fetched,
            on_retry=self._counters.retried,
            on_reset=self._counters.out_of_range,
        )
        self._factory = StreamFactory(
            self.config, self.consumer_id, self._counters, self._tracker, wake_fetchers=self._finder.wake
        )
        self._offsets = Offsets(
            self.config, self._assigned, self._counters, lambda: self._membership, self._finder.wake
        )
        self.transactional_offsets = self._transactional_offsets(None)
        """For `penstock.Writer`, which commits the offsets of all streams in a transaction."""
        self._auto_commit = AutoCommit(self.config, self._offsets.commit_changed)
        self._cluster = Cluster(self.config.client, self._stopped.wait, self._counters.retried)
        """For the membership thread."""
        self._rebalancer = Rebalancer(
            self.config,
            self.consumer_id,
            self._assigned,
            self._offsets,
            StartingOffsets(
                self.config, self._start, self._cluster, self._offsets.commit_to_group, self._offset_reader
            ),
            self._finder,
            self._tracker,
            self._fail,
        )

    def __repr__(self) -> str:
        return f"ConsumerConnector(group={self.config.group!r}, consumer_id={self.consumer_id!r})"

    def __enter__(self) -> ConsumerConnector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()

    # --- streams ------------------------------------------------------------------------------------------------------

    def create_message_streams(
        self,
        topics: Mapping[str, int],
        key_decoder: Decode | None = None,
        value_decoder: Decode | None = None,
    ) -> dict[str, list[Stream]]:
        """Create the given number of streams per topic, and join the group. Once per connector (H2)."""
        if not hasattr(topics, "items"):
            raise OptionError("topics", topics, "is not a mapping", 'Give the streams per topic, as {"words": 4}')
        self._check_group()
        subscription = NamedTopics(dict(topics))
        check_topics(self._start, subscription.streams.__contains__)
        make = self._factory.maker(TopicNames(tuple(subscription.streams)), key_decoder, value_decoder)
        streams = {topic: [make(number) for number in range(count)] for topic, count in subscription.streams.items()}
        with_topics = [(topic, stream) for topic, each in streams.items() for stream in each]
        member = partial(self._member, subscription)
        self._begin(subscription, with_topics, lambda topic, number: streams[topic][number], member)
        return streams

    def create_message_streams_by_filter(
        self,
        filter: AllowTopics | DenyTopics | str,  # noqa: A002 (the name in Kafka's consumer)
        n: int = 1,
        key_decoder: Decode | None = None,
        value_decoder: Decode | None = None,
    ) -> list[Stream]:
        """Create `n` streams over all topics that a filter allows, and join the group. New topics are added by
        rebalances (H3). Once per connector."""
        self._check_group()
        chosen = AllowTopics(filter) if isinstance(filter, str) else filter
        if not isinstance(chosen, AllowTopics | DenyTopics):
            raise OptionError(
                "filter", filter, "is not a filter", 'Give AllowTopics("shop-.*"), DenyTopics or a pattern'
            )
        subscription = FilteredTopics(chosen, n)
        check_topics(self._start, lambda topic: topic in chosen.allowed([topic]))
        make = self._factory.maker(TopicPattern(chosen.expression), key_decoder, value_decoder)
        streams = [make(number) for number in range(n)]
        with_topics = [("", stream) for stream in streams]
        member = partial(self._member, subscription)
        self._begin(subscription, with_topics, lambda topic, number: streams[number], member)
        return streams

    def create_assigned_streams(
        self,
        partitions: Collection[TopicPartition] | Mapping[TopicPartition, PartitionStart],
        n: int = 1,
        key_decoder: Decode | None = None,
        value_decoder: Decode | None = None,
    ) -> list[Stream]:
        """Create `n` streams over these partitions, without a group. Once per connector.

        A mapping says where each partition starts: at an offset, "earliest", "earliest-local", "latest" or a datetime.
        Without it `start` of the connector counts, else `auto.offset.reset`. Nothing is committed.
        """
        if self.config.group:
            hint = "Leave it out, or call create_message_streams"
            raise OptionError("group.id", self.config.group, "is not used by create_assigned_streams", hint)
        starts = checked_partitions(partitions, n, self._start, self.config.reset)
        check_topics(self._start, {tp.topic for tp in starts}.__contains__)
        make = self._factory.maker(OfPartitions(tuple(starts)), key_decoder, value_decoder)
        streams = [make(number) for number in range(n)]
        self._begin(
            starts,
            [("", stream) for stream in streams],
            lambda topic, number: streams[number],
            lambda: ManualAssignment(starts, n, self._rebalancer, self._finder),
        )
        return streams

    def create_share_streams(
        self,
        topics: Mapping[str, int],
        key_decoder: Decode | None = None,
        value_decoder: Decode | None = None,
    ) -> dict[str, list[ShareStream]]:
        """Create the given number of streams per topic, and join the share group (KIP-932). Once per connector.

        Any number of streams and members can read the same partition. Each record goes to one of them, and comes again
        if it is not accepted (docs/share-groups.md). Needs Kafka 4.1.
        """
        if not hasattr(topics, "items"):
            raise OptionError("topics", topics, "is not a mapping", 'Give the streams per topic, as {"words": 4}')
        self._check_group()
        check_share_settings(self.config)
        if not isinstance(self._start, GroupOffsets):
            hint = "Set share.auto.offset.reset of the group: earliest, latest or by_duration:PT1H"
            raise OptionError("start", None, "is not supported with share streams", hint)
        if self._tracker is not None:
            hint = "Records of a share group come in any order, and again: they have no watermark"
            raise OptionError("watermarks", None, "are not supported with share streams", hint)
        subscription = NamedTopics(dict(topics))
        make = self._factory.share_maker(TopicNames(tuple(subscription.streams)), key_decoder, value_decoder)
        streams = {topic: [make(number) for number in range(count)] for topic, count in subscription.streams.items()}
        with self._lock:
            self._begins(subscription)
            self._share = ShareGroup(self.config, streams, self._counters)
            atexit.register(self.shutdown)
            self._share.start()
        return streams

    def _check_group(self) -> None:
        if not self.config.group:
            raise missing_group()

    def _member(self, subscription: StreamSubscription) -> GroupMembership:
        config = self.config
        if config.user_data is None and not isinstance(self._start, GroupOffsets):
            config = replace(config, user_data=True)  # others must know that this member has just started
        return new_membership(config, self.consumer_id, subscription, self._rebalancer)

    def _begin(
        self,
        wanted: object,
        streams: list[tuple[str, Stream]],
        stream_of: Callable[[str, int], Stream],
        membership: Callable[[], GroupMembership],
    ) -> None:
        """`wanted`: what is read, for the log."""
        warn_of_ignored(self.config.share_only, "setting")
        with self._lock:
            self._begins(wanted)
            self._streams = streams
            for _, stream in streams:
                stream.transactional_offsets = self._transactional_offsets(stream.reader)
                stream.reader.queue.wait_reason = partial(self._wait_reason, stream.thread_id)
            self._rebalancer.reader_of = lambda topic, number: stream_of(topic, number).reader
            self._membership = membership()
            atexit.register(self.shutdown)
            self._finder.start()
            self._auto_commit.start()
            if self._event_time_thread is not None:
                self._event_time_thread.start()
            self._membership.start()

    def _begins(self, wanted: object) -> None:
        """With the lock held."""
        if self._shutdown.begun:
            raise RuntimeError("this connector is shut down")
        if self._membership is not None or self._share is not None:
            raise MessageStreamsExist(self.consumer_id)
        log.info(
            "consumer %s starts: %s; streams: %s; settings: %s",
            *(self.consumer_id, versions(), wanted, options_text(self.config.shown)),
        )

    def _offset_reader(self) -> GroupMember:
        """Called when partitions are assigned, so there is a membership."""
        assert self._membership is not None
        return self._membership.offset_reader()

    def _fail(self, error: BaseException) -> None:
        """End every stream with an error: the membership has ended."""
        for _, stream in self._streams:
            stream.reader.queue.fail_all(error)

    def _report(self, error: BaseException) -> None:
        """Raise an error to every stream's thread, while fetching is retried. Called by fetchers and the finder."""
        for _, stream in self._streams:
            stream.reader.report(None, error)

    def _wait_reason(self, thread_id: str) -> str:
        membership = self._membership
        status = None if membership is None else membership.status()
        return wait_reason(self.config, status, self._assigned.cursors.values(), thread_id)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def position(self) -> dict[TopicPartition, int]:
        """The next offset to hand out, per partition. Partitions whose start is not known yet are left out."""
        return self._offsets.positions()

    def assignment(self) -> dict[TopicPartition, str]:
        """The partitions that this consumer reads now, and the thread ids of their streams."""
        if self._share is not None:  # each of them is read by all streams of its topic
            return dict.fromkeys(self._share.assignment(), self.consumer_id)
        return {cursor.tp: cursor.reader.thread_id for cursor in self._assigned.in_order()}

    def assigned(self) -> frozenset[TopicPartition]:
        """The group's latest assignment. It includes new partitions from the listener's `assigned` on; `assignment`
        includes them when that method has returned."""
        return self._assigned.latest

    def lag(self) -> dict[TopicPartition, int]:
        """The number of records that wait, per partition. Partitions that were not fetched yet are left out."""
        return self._offsets.lag()

    def commit_offsets(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit these offsets (of the next records to read), or all positions.

        Raises CommitRefused if the group has rebalanced meanwhile.
        """
        if not self.config.group:
            raise needs_group("commit_offsets")
        self._refuse_in_share_group("commit_offsets", "Acknowledge records, and call commit() of the stream")
        if self._stopped.is_set() and not self._assigned.cursors:
            hint = "The shutdown has committed the positions, if auto-commit was on"
            raise CommitRefused(self.config.group, "this connector is shut down", hint)
        self._offsets.commit(offsets)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue from other offsets. All partitions must be assigned to this consumer. In a listener's `assigned`,
        new partitions start there."""
        self._refuse_in_share_group("seek", "Reset the group while it has no members: kafka-share-groups.sh")
        self._offsets.seek(offsets)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these partitions until they are resumed, or revoked."""
        self._refuse_in_share_group("pause", "Do not read the streams: nothing is acquired while their queues are full")
        self._offsets.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Continue with partitions that were paused."""
        self._offsets.resume(partitions)

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return self._offsets.paused()

    def _transactional_offsets(self, reader: CursorReader | None) -> TransactionalOffsets:
        return TransactionalOffsets(self.config, self._assigned, self._offsets, lambda: self._membership, reader)

    def set_rebalance_listener(self, listener: RebalanceListener | None) -> None:
        """Call the listener when partitions are revoked, and before new ones are fetched. None removes it."""
        if listener is not None and not self.config.group:
            raise needs_group("a rebalance listener")
        if listener is not None:
            self._refuse_in_share_group("set_rebalance_listener", "Its members have no partitions of their own")
        self._rebalancer.set_listener(listener)

    def _refuse_in_share_group(self, call: str, hint: str) -> None:
        if self._share is not None:
            raise RuntimeError(f"{call} is not for share streams: a share group has no positions. {hint}")

    # --- event time ---------------------------------------------------------------------------------------------------

    def watermark(self) -> datetime | None:
        """The combined event-time watermark of this consumer's partitions. It never goes back; None while unknown."""
        return as_datetime(self._event_time().combined())

    def event_time(self) -> EventTimeStatus:
        """The watermarks by partition, in milliseconds since 1970, and which partitions are idle or held back."""
        return self._event_time().status()

    def set_watermark_listener(self, listener: Callable[[datetime], object] | None) -> None:
        """Call the listener with each new combined watermark, in a thread of its own. None removes it.

        It is called at most every `auto.watermark.interval.ms`, or at once if the strategy is punctuated.
        """
        self._event_time()
        if listener is not None and not callable(listener):
            raise TypeError(f"a watermark listener must be a function, not {type(listener).__name__}")
        assert self._event_time_thread is not None
        self._event_time_thread.notifier.listener = listener

    def _event_time(self) -> SharedTracker:
        if self._tracker is None:
            raise RuntimeError(
                "this connector has no event time: give it a strategy, as in "
                'ConsumerConnector(config, watermarks=WatermarkStrategy.bounded("10s"))'
            )
        return self._tracker

    # --- metrics ------------------------------------------------------------------------------------------------------

    def metrics(self) -> ConsumerMetrics:
        """All metrics (H16), as of now."""
        share, tracker = self._share, self._tracker
        membership = self._membership
        queues = [(topic, stream.thread_id, stream.reader.queue.size) for topic, stream in self._streams]
        status = None if tracker is None else tracker.status()
        return self._counters.snapshot(
            self.config.group,
            self.consumer_id,
            partition_metrics(self._assigned.in_order(), status),
            [StreamQueue(*each) for each in (queues if share is None else share.queues())],
            open_connections=POOL.open_count(self.config.client),
            requests=joined.counters.snapshot() if (joined := membership or share) else NO_GROUP,
            rebalances=joined.rebalances if joined else 0,
            rebalance_seconds=membership.rebalance_seconds if membership else 0.0,
            last_rebalance_seconds=membership.last_rebalance_seconds if membership else None,
            watermark=None if status is None else status.combined,
            late_records=None if tracker is None else tracker.late,
        )

    def register_prometheus(self, registry: Any = None) -> None:
        """Export the metrics to a Prometheus registry until the shutdown. None means the default registry. Requires
        `penstock[prometheus]`."""
        from penstock.metrics.prometheus import register_consumer

        self._unregister.append(register_consumer(registry, self.config.group, self.consumer_id, self.metrics))

    # --- shutdown -----------------------------------------------------------------------------------------------------

    def shutdown(self, timeout: float = SHUTDOWN_SECONDS) -> None:
        """End all iterations, commit the positions (with auto-commit), leave the group, and end every thread.

        Any thread may call it, more than once, and so may a signal handler. A handler that interrupts a call of this
        connector returns at once, and the shutdown completes when that call has returned.
        """
        self._shutdown.end(timeout)

    def _close(self, timeout: float) -> None:
        """Stop reading and fetching, then make the last commit, then end the threads, each within a share of the
        time."""
        deadline = time.monotonic() + timeout

        def share(part: float) -> float:
            return max(0.1, (deadline - time.monotonic()) * part)

        with self._lock:  # not in the middle of `_begin`
            self._stopped.set()
            self._rebalancer.stop()
        if self._share is not None:
            self._share.close(share(0.9))
        for _, stream in self._streams:
            stream.close()
        self._cluster.abort()
        self._finder.end()
        self._rebalancer.revoke_all(wait=share(0.3), timeout=share(0.3))
        if self._membership is not None:
            self._membership.close(share(0.5))
        self._auto_commit.close(share(0.5))
        if self._event_time_thread is not None:
            self._event_time_thread.close(share(0.5))
        self._finder.close(share(1.0))
        while self._unregister:
            self._unregister.pop()()
        atexit.unregister(self.shutdown)


def _generated_id() -> str:
    """The part after the group's name (H1): host, time, and eight hex digits of a uuid."""
    return f"{socket.gethostname()}-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"
