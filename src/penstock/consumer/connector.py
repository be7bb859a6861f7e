"""The connector: a member of a consumer group, and the streams that its partitions are read by.

    with penstock.ConsumerConnector({"bootstrap.servers": "broker:9092", "group.id": "words"}) as connector:
        for stream in connector.create_message_streams({"words": 4})["words"]:
            threading.Thread(target=count, args=[stream]).start()

Threads: the membership's, which joins the group and rebalances, and its heart's; one fetcher per broker; the leader
finder's; that of auto-commit; with a watermark strategy that of event time and, if there is one, its listener's. A
rebalance walks like this (H7), all of it in the membership thread:

    release    streams drop what is queued of these cursors and hand out nothing more -> the finder and the fetchers let
               go of them -> commit -> the listener's revoked -> gone
    assign     the group's offsets -> the listener's assigned -> new cursors -> the leader finder
"""

from __future__ import annotations

import atexit
import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import index
from types import TracebackType
from typing import Any, Protocol, SupportsIndex

from penstock.config.consumer import ConsumerConfig, parse_config
from penstock.config.option import warn_of_ignored
from penstock.config.source import default_options
from penstock.consumer.auto_commit import AutoCommit
from penstock.consumer.event_time.alignment import EventTime, checked_strategy
from penstock.consumer.event_time.batch import as_datetime
from penstock.consumer.event_time.clock import WatermarkClock
from penstock.consumer.event_time.stream import EventStream
from penstock.consumer.fetch.chunk import LAST_OFFSET
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.leader_finder import LeaderFinder, ResetRule
from penstock.consumer.group.membership import Assignment, Membership
from penstock.consumer.shutdown import Shutdown
from penstock.consumer.start import Start, check_topics, mine_of, start_mode
from penstock.consumer.stream.stream import Decode, Stream
from penstock.consumer.subscription import AllowTopics, DenyTopics, FilteredTopics, NamedTopics, StreamSubscription
from penstock.errors import CommitRefused, OptionError, PenstockError
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.eventtime.tracker import EventTimeStatus
from penstock.formats.plan import TypedSource
from penstock.metrics.consumer import ConsumerCounters, ConsumerMetrics, ConsumerPartition, StreamQueue
from penstock.model.offset_spec import GroupOffsets, StartRules
from penstock.model.subscription import Subscription, TopicNames, TopicPattern
from penstock.model.topic_partition import TopicPartition
from penstock.planner.starting_offsets import resolve_start
from penstock.wire.api.group_offsets import Committed
from penstock.wire.cluster import Cluster

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 30.0
NOTHING_TO_DO = "What it had consumed was committed then, if auto-commit was on"
RELEASE_SECONDS = 10.0
"""For the commit before partitions are released. The group waits for us meanwhile."""


class RebalanceListener(Protocol):
    """Who wants to know of rebalances. Called by the membership thread, whose group waits until they return; at the end
    by the shutdown's own."""

    def revoked(self, owned: list[TopicPartition]) -> None:
        """Nothing more of these partitions leaves a stream; offsets may still be committed."""

    def assigned(self, consumer_id: str, assignment: Mapping[str, Mapping[int, str]]) -> None:
        """Who reads what from now on: by topic and partition the thread's id. Of the whole group if its leader is a
        Penstock, else of this consumer."""


class ConsumerConnector:
    """A consumer in a group. Every method may be called by any thread."""

    def __init__(
        self,
        config: Mapping[str, object],
        *,
        start: Start | None = None,
        watermarks: WatermarkStrategy | None = None,
    ) -> None:
        """`config`: Kafka's own settings (docs/consumer.md). `start`: where to begin when the whole group starts, in
        place of the group's offsets: "earliest", "latest", a datetime, or offsets by partition. `watermarks`: how
        event time is read from records; without it there is none."""
        if not hasattr(config, "items"):
            example = '{"bootstrap.servers": "broker:9092", "group.id": "words"}'
            raise OptionError("config", config, "is no mapping", f"Give Kafka's settings, as {example}")
        self.config: ConsumerConfig = parse_config(config)
        warn_of_ignored(self.config.ignored, "setting")
        self.consumer_id = self.config.consumer_id or _made_id(self.config.group)
        self._start = start_mode(start)
        self._event_time: EventTime | None = None
        self._watermark_clock: WatermarkClock | None = None
        if watermarks is not None:
            strategy, max_wait = checked_strategy(watermarks), self.config.client.fetch_max_wait
            self._event_time = EventTime(strategy, fetch_max_wait=max_wait)
            self._watermark_clock = WatermarkClock(self.config, self._event_time, lambda: list(self._cursors.values()))
        self._lock = threading.Lock()
        self._rebalancing = threading.RLock()
        self._committing = threading.Lock()
        self._stopped = threading.Event()
        self._shutdown = Shutdown(self._close)
        self._listener: RebalanceListener | None = None
        self._cursors: dict[TopicPartition, Cursor] = {}
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._streams: list[Stream] = []
        self._queues: list[tuple[str, Stream]] = []
        """The streams by topic; those of a filter belong to none."""
        self._counters = ConsumerCounters()
        self._unregister: list[Callable[[], None]] = []
        self._stream_of: Callable[[str, int], Stream] | None = None
        self._membership: Membership | None = None
        self._cluster = Cluster(self.config.client, self._stopped.wait)
        """The membership thread's own."""
        self._auto_commit = AutoCommit(self.config, self._commit_changed)
        self._finder = LeaderFinder(
            self.config.client,
            ResetRule(self.config.group, self.config.reset),
            fetchers=self.config.fetchers,
            backoff=self.config.refresh_leader_backoff,
            on_broken=self._refused,
            on_fetched=self._counters.fetched,
            on_reset=self._counters.out_of_range,
        )

    def __repr__(self) -> str:
        return f"ConsumerConnector(group={self.config.group!r}, consumer_id={self.consumer_id!r})"

    def __enter__(self) -> ConsumerConnector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()

    # --- streams ----------------------------------------------------------------------------------------------------

    def create_message_streams(
        self,
        topics: Mapping[str, int],
        key_decoder: Decode | None = None,
        value_decoder: Decode | None = None,
    ) -> dict[str, list[Stream]]:
        """So many streams per topic, and join the group. Once per connector (H2)."""
        if not hasattr(topics, "items"):
            raise OptionError("topics", topics, "is no mapping", 'Give the streams per topic, as {"words": 4}')
        subscription = NamedTopics(dict(topics))
        check_topics(self._start, subscription.streams.__contains__)
        typed = self._typed_source(TopicNames(tuple(subscription.streams)))
        streams = {
            topic: [self._stream(number, key_decoder, value_decoder, typed) for number in range(count)]
            for topic, count in subscription.streams.items()
        }
        queues = [(topic, stream) for topic, each in streams.items() for stream in each]
        self._begin(subscription, queues, lambda topic, at: streams[topic][at])
        return streams

    def create_message_streams_by_filter(
        self,
        filter: AllowTopics | DenyTopics | str,  # noqa: A002 (as the method is called)
        n: int = 1,
        key_decoder: Decode | None = None,
        value_decoder: Decode | None = None,
    ) -> list[Stream]:
        """So many streams over all topics that a filter lets through; new ones join by themselves (H3)."""
        chosen = AllowTopics(filter) if isinstance(filter, str) else filter
        if not isinstance(chosen, AllowTopics | DenyTopics):
            raise OptionError("filter", filter, "is no filter", 'Give AllowTopics("shop-.*"), DenyTopics or a pattern')
        subscription = FilteredTopics(chosen, n)
        check_topics(self._start, lambda topic: topic in chosen.allowed([topic]))
        typed = self._typed_source(TopicPattern(chosen.expression))
        streams = [self._stream(number, key_decoder, value_decoder, typed) for number in range(n)]
        self._begin(subscription, [("", stream) for stream in streams], lambda topic, at: streams[at])
        return streams

    def _typed_source(self, subscription: Subscription) -> TypedSource | None:
        """The formats of the config, settled: asks a schema registry if it must, or looks at records."""
        if not self.config.formats.typed:
            return None
        from penstock.sampling.typed_source import typed_source

        formats = replace(self.config.formats, dead_letter_transactional=False)  # letters go out with each batch
        options = default_options(self.config.client, subscription, formats)
        return typed_source(replace(options, include_headers=True))

    def _stream(
        self, number: int, key_decoder: Decode | None, value_decoder: Decode | None, typed: TypedSource | None
    ) -> Stream:
        for name, decoder in (("key_decoder", key_decoder), ("value_decoder", value_decoder)):
            if decoder is not None and not callable(decoder):
                raise OptionError(name, decoder, "must be a function of bytes", f"Example: {name}=json.loads")
        make = Stream if self._event_time is None else partial(EventStream, self._event_time)
        return make(
            f"{self.consumer_id}-{number}",
            self.config.client,
            queued_chunks=self.config.queued_chunks,
            timeout=self.config.consumer_timeout,
            typed=typed,
            group=self.config.group,
            key_decoder=key_decoder,
            value_decoder=value_decoder,
            on_room=self._finder.wake,
            on_consumed=self._counters.consumed,
            on_corrupt=self._counters.corrupt,
            on_typed=self._counters.typed,
        )

    def _begin(
        self,
        subscription: StreamSubscription,
        queues: list[tuple[str, Stream]],
        stream_of: Callable[[str, int], Stream],
    ) -> None:
        with self._lock:
            if self._shutdown.begun:
                raise RuntimeError("this connector is shut down")
            if self._membership is not None:
                raise RuntimeError("a connector makes its streams once: make another connector for other streams")
            self._queues, self._stream_of = queues, stream_of
            self._streams = [stream for _, stream in queues]
            self._membership = Membership(self.config, self.consumer_id, subscription, self)
            atexit.register(self.shutdown)
            self._finder.start()
            self._auto_commit.start()
            if self._watermark_clock is not None:
                self._watermark_clock.start()
            self._membership.start()

    # --- offsets ----------------------------------------------------------------------------------------------------

    def position(self) -> dict[TopicPartition, int]:
        """Per partition the next offset to hand out: a snapshot of what was consumed. Partitions whose start is not
        known yet are left out."""
        positions = {tp: cursor.stream.position(cursor) for tp, cursor in sorted(self._cursors.items())}
        return {tp: position for tp, position in positions.items() if position is not None}

    def assignment(self) -> dict[TopicPartition, str]:
        """The partitions that are this consumer's now, and the thread ids of the streams that have them."""
        return {tp: cursor.stream.thread_id for tp, cursor in sorted(self._cursors.items())}

    def assigned(self) -> frozenset[TopicPartition]:
        """What the group has given this consumer last, from the listener's `assigned` on: `assignment` has what
        is new when that has returned."""
        return self._assigned

    def lag(self) -> dict[TopicPartition, int]:
        """Records that wait, per partition; those of which nothing was fetched yet are left out."""
        lags = {tp: cursor.stream.lag(cursor) for tp, cursor in sorted(self._cursors.items())}
        return {tp: lag for tp, lag in lags.items() if lag is not None}

    def commit_offsets(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit what was consumed, or the next offsets to read that are named. Raises CommitRefused if the group has
        rebalanced meanwhile."""
        if self._stopped.is_set() and not self._cursors:
            raise CommitRefused(self.config.group, "this connector is shut down", NOTHING_TO_DO)
        named = None
        if offsets is not None:
            named = {_partition(tp): _checked_offset(tp, offset) for tp, offset in offsets.items()}
        self._commit(named, self.config.client.api_timeout)

    def _commit_changed(self) -> bool:
        """Commit what has changed since the last commit; returns whether anything has."""
        return self._commit(None, self.config.client.request_timeout, changed_only=True)

    def _commit(
        self, offsets: Mapping[TopicPartition, int] | None, timeout: float, *, changed_only: bool = False
    ) -> bool:
        if self._membership is None:
            raise RuntimeError("this connector has no streams, so it has consumed nothing")
        deadline = time.monotonic() + timeout
        # One at a time, from the look at the positions to the answer: an older one must not overtake a newer one.
        if not self._committing.acquire(timeout=timeout):
            raise PenstockError(f"another commit of group {self.config.group!r} has not ended within {timeout:g} s")
        try:
            cursors = dict(self._cursors)
            wanted = self.position() if offsets is None else dict(offsets)
            if changed_only:
                wanted = {tp: at for tp, at in wanted.items() if tp in cursors and cursors[tp].committed != at}
            if not wanted:
                return False
            epochs = {tp: cursors[tp].epoch for tp in wanted if tp in cursors}
            self._tell_group(wanted, epochs, deadline - time.monotonic())
            for tp, offset in wanted.items():
                if tp in cursors:
                    cursors[tp].committed = offset
            return True
        finally:
            self._committing.release()

    def _tell_group(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int], timeout: float
    ) -> None:
        assert self._membership is not None
        try:
            self._membership.commit(offsets, epochs, max(0.001, timeout))
        except BaseException:
            self._counters.commit_failed()
            raise
        self._counters.committed()

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on from other offsets. All partitions must be this consumer's now."""
        for cursor, offset in [(self._cursor(tp), _checked_offset(tp, at)) for tp, at in offsets.items()]:
            cursor.stream.move(cursor, offset)  # its fetcher has it, also if an error had parked it there
        self._finder.wake()

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of these until they are resumed, or released."""
        for cursor in [self._cursor(tp) for tp in partitions]:
            cursor.stream.pause(cursor)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        for cursor in [self._cursor(tp) for tp in partitions]:
            cursor.stream.resume(cursor)
        self._finder.wake()

    def paused(self) -> list[TopicPartition]:
        return [tp for tp, cursor in sorted(self._cursors.items()) if cursor.paused]

    def _cursor(self, tp: TopicPartition) -> Cursor:
        cursor = self._cursors.get(_partition(tp))
        if cursor is None:
            raise ValueError(f"{tp[0]}-{tp[1]} is not assigned to this consumer now: assignment() says what is")
        return cursor

    # --- event time -------------------------------------------------------------------------------------------------

    def watermark(self) -> datetime | None:
        """The event-time watermark of all partitions of this consumer together: it never goes back. None while it is
        not known."""
        return as_datetime(self._with_strategy().combined())

    def event_time(self) -> EventTimeStatus:
        """The same by partition, in milliseconds since 1970, and which of them are idle or held back."""
        return self._with_strategy().status()

    def set_watermark_listener(self, listener: Callable[[datetime], object] | None) -> None:
        """Who is called with each new combined watermark, by a thread of its own: at most every
        `auto.watermark.interval.ms`, or at once if the strategy is punctuated. None: nobody."""
        self._with_strategy()
        if listener is not None and not callable(listener):
            raise TypeError(f"a watermark listener is a function; {type(listener).__name__} is none")
        assert self._watermark_clock is not None
        self._watermark_clock.teller.listener = listener

    def _with_strategy(self) -> EventTime:
        if self._event_time is None:
            raise RuntimeError(
                "this connector has no event time: give it a strategy, as in "
                'ConsumerConnector(config, watermarks=WatermarkStrategy.bounded("10s"))'
            )
        return self._event_time

    # --- metrics ------------------------------------------------------------------------------------------------------

    def metrics(self) -> ConsumerMetrics:
        """Everything that is counted (H16), as of now."""
        membership, event_time = self._membership, self._event_time
        status = None if event_time is None else event_time.status()
        by_partition = {} if status is None else status.partitions

        def partition(cursor: Cursor) -> ConsumerPartition:
            event = by_partition.get(cursor.tp)
            return ConsumerPartition(
                topic=cursor.tp.topic,
                partition=cursor.tp.partition,
                thread_id=cursor.stream.thread_id,
                position=cursor.stream.position(cursor),
                end=cursor.readable,
                committed=cursor.committed,
                watermark=None if event is None else event.watermark,
                idle=None if event is None else event.idle,
                held=None if event is None else event.held,
            )

        return self._counters.snapshot(
            self.config.group,
            self.consumer_id,
            [partition(cursor) for _, cursor in sorted(self._cursors.items())],
            [StreamQueue(topic, stream.thread_id, stream.queue_size) for topic, stream in self._queues],
            rebalances=membership.rebalances if membership else 0,
            rebalance_seconds=membership.rebalance_seconds if membership else 0.0,
            last_rebalance_seconds=membership.last_rebalance_seconds if membership else None,
            watermark=None if status is None else status.combined,
            late_records=None if event_time is None else event_time.late,
        )

    def register_prometheus(self, registry: Any = None) -> None:
        """Show the metrics at a Prometheus registry (None: the process's own) until the shutdown. Needs the extra
        `penstock[prometheus]`."""
        from penstock.metrics.prometheus import register_consumer

        self._unregister.append(register_consumer(registry, self.config.group, self.consumer_id, self.metrics))

    # --- rebalances: the membership thread --------------------------------------------------------------------------

    def set_rebalance_listener(self, listener: RebalanceListener | None) -> None:
        """Who is called before partitions are released and before new ones are fetched; None: nobody."""
        for name in ("revoked", "assigned"):
            if listener is not None and not callable(getattr(listener, name, None)):
                raise TypeError(f"a rebalance listener has a method {name}; {type(listener).__name__} has none")
        self._listener = listener

    def owned(self) -> list[TopicPartition]:
        return sorted(self._cursors)

    def release(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        with self._rebalancing:
            self._let_go(partitions, lost=lost, timeout=RELEASE_SECONDS)

    def _let_go(self, partitions: Collection[TopicPartition], *, lost: bool, timeout: float) -> None:
        """With `_rebalancing` held."""
        leaving = {tp: self._cursors[tp] for tp in partitions if tp in self._cursors}
        if not leaving:
            return
        for cursor in leaving.values():
            cursor.stream.release(cursor)
        # After that: a fetcher that reports one as leaderless in between would bring it back to the finder for good.
        self._finder.remove(list(leaving.values()))
        if self.config.auto_commit and not lost:
            self._try_to_commit(timeout)
        self._tell("revoked", sorted(leaving))
        self._cursors = {tp: cursor for tp, cursor in self._cursors.items() if tp not in leaving}
        self._tell_event_time()

    def assign(self, assignment: Assignment) -> None:
        with self._rebalancing:
            if self._stopped.is_set():
                return
            assert self._stream_of is not None
            new = sorted(tp for tp in assignment.partitions if tp not in self._cursors)
            starts = self._starts(new, assignment.fresh)
            self._assigned = frozenset(assignment.partitions)
            self._tell("assigned", self.consumer_id, assignment.threads_of_group)
            cursors: dict[TopicPartition, Cursor] = {}
            for tp in new:
                start = starts.get(tp)
                stream = self._stream_of(tp.topic, assignment.partitions[tp])
                cursor = Cursor(tp, stream, start.offset if start else None, start.leader_epoch if start else -1)
                cursor.committed = start.offset if start else None
                cursors[tp] = cursor
            self._cursors = {**self._cursors, **cursors}
            self._tell_event_time()
            self._finder.add(cursors.values())

    def _tell_event_time(self) -> None:
        """Partitions have come or gone. Nothing of those that have gone leaves a stream any more, and nothing of those
        that have come does so yet."""
        if self._event_time is not None:
            self._event_time.set_partitions(self._cursors.keys())
            self._event_time.let_go_on()

    def _starts(self, partitions: list[TopicPartition], fresh: bool) -> dict[TopicPartition, Committed]:
        """Where to begin: at the group's offsets, unless the user said otherwise and the whole group starts. Partitions
        without an offset are left to the reset rule, which the leader finder knows."""
        group, mode = self.config.group, self._start
        if not partitions:
            return {}
        if isinstance(mode, GroupOffsets) or not fresh:
            if not isinstance(mode, GroupOffsets):
                log.info("group %r is running: it goes on from its own offsets, not from `start`", group)
            return self._cluster.commits(group, partitions)
        rules = StartRules(group, self.config.reset)
        found = resolve_start(mine_of(mode, partitions), partitions, self._cluster, rules)
        # At once: whoever gets one of these partitions before the first commit would begin somewhere else.
        self._tell_group(found, {}, self.config.client.request_timeout)
        return {tp: Committed(offset) for tp, offset in found.items()}

    def failed(self, error: BaseException) -> None:
        """Nothing goes on any more: every reader is to know."""
        for stream in self._streams:
            stream.end_with(error)

    def _refused(self, error: BaseException) -> None:
        """A broker does not want us: every reader is to know, and it is tried again. Called by fetchers and the
        finder."""
        for stream in self._streams:
            stream.tell(None, error)

    def _tell(self, name: str, *arguments: Any) -> None:
        listener = self._listener
        if listener is None:
            return
        try:
            getattr(listener, name)(*arguments)
        except Exception:
            log.exception("the rebalance listener's %s failed; the rebalance goes on", name)

    def _try_to_commit(self, timeout: float) -> None:
        try:
            self._commit(None, timeout, changed_only=True)
        except Exception as error:
            log.warning("what was consumed last is not committed, and may be read again: %s", error)

    # --- the end ----------------------------------------------------------------------------------------------------

    def shutdown(self, timeout: float = SHUTDOWN_SECONDS) -> None:
        """End all iterations, commit what was consumed (with auto-commit), leave the group, end every thread.

        From any thread, more than once, and from a signal's handler: one that interrupts a call of this connector
        returns at once, and the rest happens when that call has returned.
        """
        self._shutdown.end(timeout)

    def _close(self, timeout: float) -> None:
        """First what nobody may wait for, then the last commit, then the threads, each with a share of the time."""
        deadline = time.monotonic() + timeout

        def share(part: float) -> float:
            return max(0.1, (deadline - time.monotonic()) * part)

        with self._lock:  # not in the middle of `_begin`
            self._stopped.set()
        for stream in self._streams:
            stream.close()
        self._cluster.abort()
        self._finder.end()
        self._let_go_of_all(share)
        if self._membership is not None:
            self._membership.close(share(0.5))
        self._auto_commit.close(share(0.5))
        if self._watermark_clock is not None:
            self._watermark_clock.close(share(0.5))
        self._finder.close(share(1.0))
        while self._unregister:
            self._unregister.pop()()
        atexit.unregister(self.shutdown)

    def _let_go_of_all(self, share: Callable[[float], float]) -> None:
        if not self._rebalancing.acquire(timeout=share(0.3)):
            return
        try:
            self._let_go(self.owned(), lost=False, timeout=min(RELEASE_SECONDS, share(0.3)))
        except Exception:  # the rest must end all the same: a member that stays keeps others from its partitions
            log.exception("letting go of all partitions failed; the shutdown goes on")
        finally:
            self._rebalancing.release()


def _made_id(group: str) -> str:
    """H1: group, host, time, and eight hex digits of a uuid."""
    return f"{group}_{socket.gethostname()}-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"


def _partition(tp: object) -> TopicPartition:
    match tp:
        case (str(topic), SupportsIndex() as partition):  # also one of numpy's: rows of pandas have such
            return TopicPartition(topic, index(partition))
    raise TypeError(f"{tp!r} is no partition: give TopicPartition(topic, number), or (topic, number)")


def _checked_offset(tp: TopicPartition, offset: object) -> int:
    if not isinstance(offset, SupportsIndex) or not 0 <= index(offset) <= LAST_OFFSET:
        raise ValueError(f"{offset!r} is no offset of {tp[0]}-{tp[1]}: an offset is a whole number from 0 on")
    return index(offset)
