"""Streams with event time that tests feed with chunks, without a broker."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hostile.record_batches import BASE_TIME, TOPIC, Batch, record
from penstock import ConsumerTimeout, TopicPartition, WatermarkStrategy
from penstock.config.consumer import parse_config
from penstock.consumer.event_time.batch import as_datetime
from penstock.consumer.event_time.event_time_thread import EventTimeThread
from penstock.consumer.event_time.shared_tracker import SharedTracker
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.lease import Lease
from penstock.consumer.stream_factory import make_stream
from penstock.wire.api.fetch import FetchedPartition
from support.configs import client_config

CONFIG = client_config(bootstrap=(("localhost", 1),))
MONOTONOUS = WatermarkStrategy.monotonous()
ALIGNED = MONOTONOUS.with_alignment("100ms")
IDLE = MONOTONOUS.with_idleness("5s")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Fed:
    """Streams that share one event time, and their cursors. The test plays the fetcher. Times are in milliseconds after
    BASE_TIME."""

    def __init__(self, strategy=MONOTONOUS, partitions=2, streams=1, **more):
        self.clock = Clock()
        self.room = 0
        self.event_time = SharedTracker(strategy, self.clock)
        more = {"timeout": 0.0, "on_room": self._room} | more
        self.streams = [
            make_stream(f"me-{at}", CONFIG, tracker=self.event_time, **{"queued_chunks": 2, **more})
            for at in range(streams)
        ]
        self.stream = self.streams[0]
        self.reader = self.stream.reader
        self.cursors = [
            Cursor(TopicPartition(TOPIC, at), self.streams[at % streams].reader, 0) for at in range(partitions)
        ]
        self.event_time.set_partitions([cursor.tp for cursor in self.cursors])

    def _room(self):
        self.room += 1

    def put(self, partition, *times):
        cursor = self.cursors[partition]
        base = cursor.fetched
        records = [record(at, b"%d" % each, time_delta=each) for at, each in enumerate(times)]
        data = bytearray(Batch(base, records, max_time=BASE_TIME + max(times)).encode())
        end = base + len(times)
        cursor.readable, cursor.answered_at = end, self.clock.now
        fetched = FetchedPartition(*cursor.tp, 0, 10**6, 10**6, [], -1, memoryview(data))
        lease = Lease(data, lambda buffer: None)
        assert cursor.reader.put(cursor, cursor.version, base, fetched, end, lease)
        lease.release()

    def answer(self, *partitions):
        """Brokers answer that these partitions have no records beyond those that were fetched."""
        for cursor in [self.cursors[at] for at in partitions]:
            cursor.readable, cursor.answered_at = cursor.fetched, self.clock.now

    def look(self, *answered):
        self.answer(*answered)
        self.event_time.check_idle(self.cursors)

    @property
    def idle(self):
        return [tp.partition for tp in self.event_time.status().idle]

    def batches(self, count=None, stream=0):
        """(partition, times, combined watermark, the partition's watermark) of all batches, or of the first `count`."""
        found = []
        with contextlib.suppress(ConsumerTimeout):
            for batch in self.streams[stream].batches(["partition", "timestamp"]):
                found.append((batch["partition"][0].as_py(), times_of(batch), *map(after, marks_of(batch))))
                if len(found) == count:
                    break
        return found

    def ask_for_more(self, stream=0):
        """Readers ask for more when they have processed their records; there are none."""
        with pytest.raises(ConsumerTimeout):
            self.streams[stream].batch_source(None)(0.0)

    def messages(self, count=None):
        found = []
        with contextlib.suppress(ConsumerTimeout):
            for message in self.stream:
                found.append((message.partition, message.timestamp - BASE_TIME))
                if len(found) == count:
                    break
        return found

    @property
    def combined(self):
        return after(as_datetime(self.event_time.combined()))


def times_of(batch):
    return [each - BASE_TIME for each in batch.event_times.cast(pa.int64()).to_pylist()]


def marks_of(batch):
    return batch.watermark, batch.partition_watermark


def after(moment):
    return None if moment is None else (moment - as_datetime(BASE_TIME)) // timedelta(milliseconds=1)


def until_time_out(iteration):
    with contextlib.suppress(ConsumerTimeout):
        yield from iteration


def odd(batch):
    """Watermarks by marker records: a record with an odd time carries that time."""
    values = pc.cast(pc.cast(batch["value"], pa.string()), pa.int64())
    return pc.if_else(pc.equal(pc.bit_wise_and(values, 1), 1), pc.add(values, BASE_TIME), None)


def started(fed, listener=None, **config):
    settings = {"bootstrap.servers": "x:1", "group.id": "g"} | config
    clock = EventTimeThread(parse_config(settings), fed.event_time, lambda: fed.cursors)
    clock.notifier.listener = listener
    clock.start()
    return clock
