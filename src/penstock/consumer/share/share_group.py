"""A connector's part in a share group: its members, their fetchers and its streams, put together (Q1)."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.assignors import thread_id
from penstock.consumer.share.share_fetcher import ShareFetcher
from penstock.consumer.share.share_leaders import ShareLeaders
from penstock.consumer.share.share_membership import ShareMembership
from penstock.consumer.share.share_partition import SharePartition
from penstock.consumer.share.share_queue import ShareQueue
from penstock.consumer.share.share_reader import ShareReader
from penstock.consumer.share.share_stream import ShareStream
from penstock.consumer.stream.decoders import DecoderCache
from penstock.consumer.stream.records import Decode
from penstock.consumer.stream.typed import TypedFormats
from penstock.consumer.wait_reason import wait_reason
from penstock.formats.plan import TypedSource, raw_source
from penstock.metrics.consumer_counters import ConsumerCounters
from penstock.metrics.group_counters import GroupCounters
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.metadata import Broker


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What all share streams of a connector have in common."""

    config: ConsumerConfig
    consumer_id: str
    counters: ConsumerCounters
    key_decoder: Decode | None
    value_decoder: Decode | None
    typed: TypedSource | None


def make_share_stream(settings: StreamSettings, number: int) -> ShareStream:
    config, counters = settings.config, settings.counters
    # The broker decides which transactions a group reads (share.isolation.level), and acquires no others.
    client = replace(config.client, read_committed=False)
    queue = ShareQueue(thread_id(settings.consumer_id, number), config.queued_chunks, config.max_poll_records)

    def answered(is_accepted: bool) -> None:
        (counters.committed if is_accepted else counters.commit_failed)()

    reader = ShareReader(
        queue,
        DecoderCache(client, queue.lock),
        explicit=config.share_explicit,
        key_decoder=settings.key_decoder,
        value_decoder=settings.value_decoder,
        on_consumed=counters.consumed,
        on_corrupt=counters.corrupt,
        on_answered=answered,
    )
    return ShareStream(
        reader,
        timeout=config.consumer_timeout,
        commit_timeout=config.client.api_timeout,
        plain=TypedFormats(raw_source(), client, config.group, counters.typed),
        typed=None if settings.typed is None else TypedFormats(settings.typed, client, config.group, counters.typed),
    )


class ShareGroup:
    """The members of a connector: each stream of a topic is one. Every method may be called by any thread.

    The broker takes one request of a member at a time, and answers acknowledgements only when they are stored. Measured
    with four streams: one member for all of them reads a third as fast as four.
    """

    def __init__(
        self, config: ConsumerConfig, streams: Mapping[str, Sequence[ShareStream]], counters: ConsumerCounters
    ) -> None:
        """`streams`: those of each topic. Streams of different topics with the same number are one member."""
        self._config = config
        self._streams = streams
        self._client = replace(config.client, read_committed=False)
        self.counters = GroupCounters()
        self._leaders = ShareLeaders(
            self._client,
            config.group,
            self._new_fetcher,
            backoff=config.refresh_leader_backoff,
            on_error=self._report,
            on_fetched=counters.fetched,
            on_retry=counters.retried,
        )
        self._members = [
            ShareMembership(
                config,
                {topic: each[number].reader for topic, each in streams.items() if number < len(each)},
                self.counters,
                on_assigned=self._assign,
                on_failed=self._fail,
            )
            for number in range(max(map(len, streams.values())))
        ]
        for each in streams.values():
            for number, stream in enumerate(each):
                stream.reader.queue.on_room = self._leaders.wake
                stream.reader.queue.wait_reason = partial(self._wait_reason, self._members[number])

    def streams(self) -> list[ShareStream]:
        return [stream for each in self._streams.values() for stream in each]

    @property
    def rebalances(self) -> int:
        """Changes of the members' assignments."""
        return sum(member.rebalances for member in self._members)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that a member fetches."""
        return sorted({tp for member in self._members for tp in member.assignment()})

    def queues(self) -> list[tuple[str, str, int]]:
        """The topic of each stream, its thread id, and the chunks that wait."""
        return [
            (topic, stream.thread_id, stream.reader.queue.size)
            for topic, streams in self._streams.items()
            for stream in streams
        ]

    def start(self) -> None:
        self._leaders.start()
        for member in self._members:
            member.start()

    def close(self, timeout: float) -> None:
        """Release what is not acknowledged, send the last acknowledgements, and leave the group."""
        deadline = time.monotonic() + timeout
        unread = [chunk for stream in self.streams() for chunk in stream.reader.close()]
        self._leaders.close(max(0.1, timeout * 0.6))
        for chunk in unread:
            chunk.release_bytes()
        closing = [
            threading.Thread(target=member.close, args=(max(0.1, deadline - time.monotonic()),), daemon=True)
            for member in self._members
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def _new_fetcher(self, broker: Broker, member_id: str, owner: ShareLeaders) -> ShareFetcher:
        return ShareFetcher(
            broker,
            self._client,
            group=self._config.group,
            member_id=member_id,
            max_records=self._config.max_poll_records,
            acquire_mode=self._config.share_acquire_mode,
            owner=owner,
        )

    def _assign(self, new: Collection[SharePartition], gone: Collection[SharePartition]) -> None:
        """Called by the membership thread."""
        self._leaders.remove(gone)
        self._leaders.add(new)

    def _report(self, error: BaseException) -> None:
        """Raise an error to every stream's thread, while fetching is retried."""
        for stream in self.streams():
            stream.reader.queue.report(error)

    def _fail(self, error: BaseException) -> None:
        """End every stream with an error: the membership has ended."""
        for stream in self.streams():
            stream.reader.queue.fail_all(error)

    def _wait_reason(self, member: ShareMembership) -> str:
        return wait_reason(self._config, member.status(), (), "")
