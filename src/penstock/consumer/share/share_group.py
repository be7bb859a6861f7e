"""A connector's part in a share group: its membership, its fetchers and its streams, put together (S1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.assignors import thread_id
from penstock.consumer.share.share_chunk import ShareChunk
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
from penstock.consumer.subscription import StreamSubscription
from penstock.consumer.wait_reason import wait_reason
from penstock.formats.plan import TypedSource, raw_source
from penstock.metrics.consumer_counters import ConsumerCounters
from penstock.wire.api.metadata import Broker
from penstock.wire.client_config import ClientConfig


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
    queue = ShareQueue(thread_id(settings.consumer_id, number), config.queued_chunks)

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


class Router:
    """Passes chunks to the streams of their topics: to one that waits, or to the one with the shortest queue."""

    def __init__(self, streams_of: Callable[[str], Sequence[ShareStream]]) -> None:
        self._streams_of = streams_of

    def room(self, topic: str) -> int:
        return sum(stream.reader.queue.has_room for stream in self._streams_of(topic))

    def put(self, chunk: ShareChunk) -> bool:
        streams = self._streams_of(chunk.partition.tp.topic)
        if not streams:
            return False
        queues = [stream.reader.queue for stream in streams]
        at = min(range(len(queues)), key=lambda each: (queues[each].size, not queues[each].waiting))
        chunk.results = streams[at].reader
        return queues[at].put(chunk)


class ShareGroup:
    """One member, for all share streams of a connector. Every method may be called by any thread."""

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: StreamSubscription,
        streams: Mapping[str, Sequence[ShareStream]],
        counters: ConsumerCounters,
    ) -> None:
        """`streams`: those of each topic."""
        self._config = config
        self._streams = streams
        self._router = Router(lambda topic: streams.get(topic, ()))
        client: ClientConfig = replace(config.client, read_committed=False)
        self.leaders = ShareLeaders(
            client,
            config.group,
            self._new_fetcher,
            backoff=config.refresh_leader_backoff,
            on_error=self._report,
            on_fetched=counters.fetched,
            on_retry=counters.retried,
        )
        self.membership = ShareMembership(config, subscription, on_assigned=self._assign, on_failed=self._fail)
        self._client = client
        for stream in self.streams():
            stream.reader.queue.on_room = self.leaders.wake
            stream.reader.queue.wait_reason = self._wait_reason

    def streams(self) -> list[ShareStream]:
        return [stream for each in self._streams.values() for stream in each]

    def queues(self) -> list[tuple[str, str, int]]:
        """The topic of each stream, its thread id, and the chunks that wait."""
        return [
            (topic, stream.thread_id, stream.reader.queue.size)
            for topic, streams in self._streams.items()
            for stream in streams
        ]

    def start(self) -> None:
        self.leaders.start()
        self.membership.start()

    def close(self, timeout: float) -> None:
        """Release what is not acknowledged, send the last acknowledgements, and leave the group."""
        deadline = time.monotonic() + timeout
        unread = [chunk for stream in self.streams() for chunk in stream.reader.close()]
        self.leaders.close(max(0.1, timeout * 0.6))
        for chunk in unread:
            chunk.release_bytes()
        self.membership.close(max(0.1, deadline - time.monotonic()))

    def _new_fetcher(self, broker: Broker, owner: ShareLeaders) -> ShareFetcher:
        return ShareFetcher(
            broker,
            self._client,
            group=self._config.group,
            member_id=self.membership.member_id,
            max_records=self._config.max_poll_records,
            acquire_mode=self._config.share_acquire_mode,
            router=self._router,
            owner=owner,
        )

    def _assign(self, new: Collection[SharePartition], gone: Collection[SharePartition]) -> None:
        """Called by the membership thread."""
        self.leaders.remove(gone)
        self.leaders.add(new)

    def _report(self, error: BaseException) -> None:
        """Raise an error to every stream's thread, while fetching is retried."""
        for stream in self.streams():
            stream.reader.queue.report(error)

    def _fail(self, error: BaseException) -> None:
        """End every stream with an error: the membership has ended."""
        for stream in self.streams():
            stream.reader.queue.fail_all(error)

    def _wait_reason(self) -> str:
        return wait_reason(self._config, self.membership.status(), (), "")
