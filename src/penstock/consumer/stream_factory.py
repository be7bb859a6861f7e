"""Builds the streams of a connector from their parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.config.consumer import ConsumerConfig
from penstock.config.source import default_options
from penstock.consumer.event_time.records import EventTimeRecords
from penstock.consumer.event_time.shared_tracker import SharedTracker
from penstock.consumer.fetch.queue import ChunkQueue
from penstock.consumer.group.assignors import thread_id
from penstock.consumer.share.share_group import StreamSettings, make_share_stream
from penstock.consumer.share.share_stream import ShareStream
from penstock.consumer.stream.chunk_reader import ChunkReader
from penstock.consumer.stream.decoders import DecoderCache
from penstock.consumer.stream.prepared import TypedPreparer
from penstock.consumer.stream.records import Decode, Records
from penstock.consumer.stream.stream import Stream
from penstock.consumer.stream.typed import Converted, TypedFormats
from penstock.errors import OptionError
from penstock.formats.plan import TypedSource, raw_source
from penstock.metrics.consumer_counters import ConsumerCounters
from penstock.model.subscription import Subscription
from penstock.wire.client_config import ClientConfig


class StreamFactory:
    """Builds streams with the settings of one connector."""

    def __init__(
        self,
        config: ConsumerConfig,
        consumer_id: str,
        counters: ConsumerCounters,
        tracker: SharedTracker | None,
        *,
        wake_fetchers: Callable[[], None],
    ) -> None:
        self._config = config
        self._consumer_id = consumer_id
        self._counters = counters
        self._tracker = tracker
        self._wake_fetchers = wake_fetchers

    def maker(
        self, topics: Subscription, key_decoder: Decode | None, value_decoder: Decode | None
    ) -> Callable[[int], Stream]:
        """A function that builds the stream with a given number. Resolves the formats of these topics."""
        _check_decoders(key_decoder, value_decoder)
        config, counters, typed = self._config, self._counters, self._typed_source(topics)
        return lambda number: make_stream(
            thread_id(self._consumer_id, number),
            config.client,
            tracker=self._tracker,
            queued_chunks=config.queued_chunks,
            timeout=config.consumer_timeout,
            typed=typed,
            group=config.group,
            key_decoder=key_decoder,
            value_decoder=value_decoder,
            on_room=self._wake_fetchers,
            on_consumed=counters.consumed,
            on_corrupt=counters.corrupt,
            on_converted=counters.typed,
        )

    def share_maker(
        self, topics: Subscription, key_decoder: Decode | None, value_decoder: Decode | None
    ) -> Callable[[int], ShareStream]:
        """The same for the streams of a share group."""
        _check_decoders(key_decoder, value_decoder)
        settings = StreamSettings(
            self._config, self._consumer_id, self._counters, key_decoder, value_decoder, self._typed_source(topics)
        )
        return lambda number: make_share_stream(settings, number)

    def _typed_source(self, topics: Subscription) -> TypedSource | None:
        """The formats of the config. Asks a schema registry, or samples records, if they require it."""
        if not self._config.formats.typed:
            return None
        from penstock.sampling.typed_source import typed_source

        formats = replace(self._config.formats, dead_letter_transactional=False)  # dead letters are written per batch
        options = default_options(self._config.client, topics, formats)
        return typed_source(replace(options, include_headers=True))


def _check_decoders(key_decoder: Decode | None, value_decoder: Decode | None) -> None:
    for name, decoder in (("key_decoder", key_decoder), ("value_decoder", value_decoder)):
        if decoder is not None and not callable(decoder):
            raise OptionError(name, decoder, "must be a function of bytes", f"Example: {name}=json.loads")


def make_stream(
    name: str,
    client: ClientConfig,
    *,
    tracker: SharedTracker | None = None,
    queued_chunks: int,
    timeout: float | None = None,
    typed: TypedSource | None = None,
    group: str = "",
    key_decoder: Decode | None = None,
    value_decoder: Decode | None = None,
    on_room: Callable[[], None] = lambda: None,
    on_consumed: Callable[[str, int, int], None] = lambda topic, messages, size: None,
    on_corrupt: Callable[[], None] = lambda: None,
    on_converted: Converted = lambda malformed, dropped, skipped, read, passed: None,
) -> Stream:
    """A stream over an empty queue; `name` is its thread id. With a `tracker` its records carry event time, and
    alignment may hold them back.

    `on_room` wakes the fetchers. The other functions count: `on_consumed` records (topic, messages, bytes),
    `on_corrupt` damaged chunks that are fetched again, `on_converted` records that were converted and filtered.
    """
    formats = None if typed is None else TypedFormats(typed, client, group, on_converted)
    plain = TypedFormats(raw_source(), client, group, on_converted)
    if tracker is None:
        queue = ChunkQueue(name, queued_chunks, on_room)
    else:
        queue = ChunkQueue(name, queued_chunks, on_room, holds_back=tracker.holds_back, on_records=tracker.has_records)
    decoders = DecoderCache(client, queue.lock)
    reader = ChunkReader(queue, decoders, on_room=on_room, on_consumed=on_consumed, on_corrupt=on_corrupt)
    if tracker is not None:
        timed = EventTimeRecords(
            reader, tracker, key_decoder=key_decoder, value_decoder=value_decoder, typed=formats, plain=plain
        )
        return Stream(reader, timed, timeout=timeout)
    records = Records(reader, key_decoder=key_decoder, value_decoder=value_decoder, typed=formats, plain=plain)
    return Stream(reader, records, None if formats is None else TypedPreparer(reader, formats), timeout)
