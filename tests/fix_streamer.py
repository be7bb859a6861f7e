"""Fixture: a Connector made of lists, for what a real one cannot be made to do on order: fail here, rebalance there.

It keeps the real one's contract: a position moves when a batch is handed out, nothing of a partition is handed out once
`before_releasing` is called, and commits count from then on.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from chaos.processes import until
from penstock import ConsumerTimeout, Message, Streamer, TopicPartition
from penstock.columns import arrow_schema

TICK = 0.02
ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def batch_of(topic: str, partition: int, start: int, values: Sequence[bytes | None]) -> pa.RecordBatch:
    rows = [
        {
            "key": b"k%d" % (start + at),
            "value": value,
            "topic": topic,
            "partition": partition,
            "offset": start + at,
            "timestamp": (1_700_000_000_000 + start + at) * 1000,
            "timestampType": 0,
            "headers": [{"key": "trace", "value": b"%d" % (start + at)}],
        }
        for at, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(ALL))


class FakeStream:
    def __init__(self, connector: FakeConnector, number: int) -> None:
        self.thread_id = f"{connector.consumer_id}-{number}"
        self.readers: set[int] = set()
        self._connector = connector
        self._queue: deque[tuple[TopicPartition, pa.RecordBatch | Exception, int]] = deque()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        connector = self._connector
        self.readers.add(threading.get_ident())
        while True:
            with connector.changed:
                deadline = time.monotonic() + TICK
                while not (ready := [one for one in self._queue if one[0] not in connector.on_pause]):
                    if connector.closed:
                        return
                    if connector.failure is not None:
                        raise connector.failure
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise ConsumerTimeout(self.thread_id, TICK)
                    connector.changed.wait(left)
                tp, what, end = ready[0]
                self._queue.remove(ready[0])
                if isinstance(what, Exception):
                    raise what
                connector.positions[tp] = end
            yield what.select(list(columns))


class FakeConnector:
    """One topic. Partition p belongs to stream p % threads, until it is taken away."""

    def __init__(self) -> None:
        self.consumer_id = "fake"
        self.changed = threading.Condition()
        self.closed = False
        self.failure: Exception | None = None
        """What has ended it: raised again and again."""
        self.positions: dict[TopicPartition, int] = {}
        self.on_pause: set[TopicPartition] = set()
        self.owners: dict[TopicPartition, str] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.commits: list[dict[TopicPartition, int]] = []
        self.seeks: list[dict[TopicPartition, int]] = []
        self.on_commit: Callable[[Mapping[TopicPartition, int]], None] = lambda offsets: None
        self.streams: list[FakeStream] = []
        self.listener: Any = None
        self.given: frozenset[TopicPartition] = frozenset()
        self.settings: Mapping[str, object] = {}
        self.linger: Callable[[], None] = lambda: None
        """What happens between the listener's return and the end of a release."""
        self._ends: dict[TopicPartition, int] = {}

    def __call__(self, settings: Mapping[str, object], *, start: object = None) -> FakeConnector:
        """Where the Streamer makes its connector."""
        self.settings = settings
        return self

    # --- for tests --------------------------------------------------------------------------------------------------

    def put(self, partition: int, values: Sequence[bytes | None], gap: int = 0) -> None:
        """Records on a partition, with so many offsets after them that are no records."""
        tp = TopicPartition("t", partition)
        with self.changed:
            start = self._ends.get(tp, 0)
            end = self._ends[tp] = start + len(values) + gap
            self._stream(tp)._queue.append((tp, batch_of("t", partition, start, values), end))
            self.changed.notify_all()

    def raise_at(self, partition: int, error: Exception) -> None:
        tp = TopicPartition("t", partition)
        with self.changed:
            self._stream(tp)._queue.append((tp, error, 0))
            self.changed.notify_all()

    def assign(self, partitions: Sequence[int], starts: Mapping[int, int] | None = None) -> None:
        tps = [TopicPartition("t", p) for p in partitions]
        self.given = frozenset(tps)
        self.listener.before_starting("fake", {"t": {tp.partition: self._owner(tp) for tp in tps}})
        with self.changed:
            for tp in tps:
                self.owners[tp] = self._owner(tp)
                self.positions[tp] = self._ends[tp] = (starts or {}).get(tp.partition, 0)

    def release(self, partitions: Sequence[int]) -> None:
        tps = [TopicPartition("t", p) for p in partitions]
        with self.changed:
            for tp in tps:
                stream = self._stream(tp)
                stream._queue = deque(one for one in stream._queue if one[0] != tp)
        self.listener.before_releasing(tps)
        self.linger()
        with self.changed:
            for tp in tps:
                self.owners.pop(tp, None)
                self.positions.pop(tp, None)

    def _owner(self, tp: TopicPartition) -> str:
        return f"fake-{tp.partition % len(self.streams)}"

    def _stream(self, tp: TopicPartition) -> FakeStream:
        return self.streams[tp.partition % len(self.streams)]

    # --- what a Connector has ---------------------------------------------------------------------------------------

    def set_rebalance_listener(self, listener: object) -> None:
        self.listener = listener

    def create_message_streams(self, topics: Mapping[str, int]) -> dict[str, list[FakeStream]]:
        [(topic, count)] = topics.items()
        self.streams = [FakeStream(self, number) for number in range(count)]
        return {topic: self.streams}

    def commit_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.on_commit(offsets)
        with self.changed:
            self.commits.append(dict(offsets))
            self.committed.update(offsets)

    def position(self) -> dict[TopicPartition, int]:
        with self.changed:
            return dict(self.positions)

    def assignment(self) -> dict[TopicPartition, str]:
        with self.changed:
            return dict(self.owners)

    def assigned(self) -> frozenset[TopicPartition]:
        return self.given

    def lag(self) -> dict[TopicPartition, int]:
        with self.changed:
            return {tp: self._ends[tp] - at for tp, at in self.positions.items()}

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.seeks.append(dict(offsets))

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        with self.changed:
            self.on_pause.update(partitions)

    def shutdown(self, timeout: float = 30.0) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        if self.owners:
            self.release([tp.partition for tp in list(self.owners)])


@pytest.fixture
def fake_connector(monkeypatch: pytest.MonkeyPatch) -> FakeConnector:
    fake = FakeConnector()
    monkeypatch.setattr("penstock.streamer.streamer.Connector", fake)
    return fake


CONFIG = {"bootstrap.servers": "nowhere:9", "group.id": "g"}
SECONDS = 60.0
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class ListSink:
    """Takes rows into a list, unless told otherwise."""

    needs_arrow = False

    def __init__(self) -> None:
        self.rows: list[object] = []
        self.trouble: Callable[[list[object]], None] = lambda rows: None
        self.opened: list[str] = []
        self.closed = 0
        self.writers: set[int] = set()

    def open(self, thread: str) -> ListSink:
        self.opened.append(thread)
        return self

    def write(self, rows: Any) -> None:
        rows = rows.column("value").to_pylist() if isinstance(rows, pa.Table) else rows
        self.writers.add(threading.get_ident())
        self.trouble(rows)
        self.rows += rows

    def close(self) -> None:
        self.closed += 1


def value(message: Message) -> Any:
    return message.value


@contextmanager
def running(
    connector: FakeConnector,
    sink: Any,
    threads: int = 1,
    extractor: Callable[[Any], Any] | None = None,
    partitions: Sequence[int] = (0, 1),
    **more: Any,
) -> Iterator[Streamer]:
    """A Streamer on a connector made of lists, with its partitions, in a hurry."""
    options = {"flush_interval": 0.01, "retry_timeout": 0.03, **more}
    streamer = Streamer("t", threads, extractor, sink, config=CONFIG, **options).start()
    connector.assign(partitions)
    try:
        yield streamer
    finally:
        streamer.stop(SECONDS)


def committed(connector: FakeConnector, expected: dict[TopicPartition, int]) -> None:
    assert until(lambda: connector.committed == expected, SECONDS), connector.committed
