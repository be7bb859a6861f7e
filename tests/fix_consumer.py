"""Fixtures: connectors whose streams are drained by threads that note what was handed out; and what is left of them."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Connector, ConsumerTimeout, TopicPartition
from penstock.wire.pool import POOL

WAIT = 90.0
"""For things that take seconds on an idle machine."""

QUICK = {
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 20_000,  # a process that gets no processor for seconds is not dead
    "heartbeat.interval.ms": 300,
    "metadata.max.age.ms": 500,
    "auto.commit.interval.ms": 200,
    "rebalance.backoff.ms": 200,
}
"""A group whose rebalances a test can wait for."""

MORTAL = {"session.timeout.ms": 6000}
"""For who is to be missed soon: the shortest session that a broker grants."""


def eventually(condition: Callable[[], Any], what: str | Callable[[], str], seconds: float = WAIT) -> Any:
    """Wait until something is so; returns what the condition returned. A function says what is wrong at the end."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)
    return found


class Reading:
    """Streams drained by a thread each. `seen` are the coordinates of what was handed out, in order per stream."""

    def __init__(self, connector: Connector, streams: list[Any], by: str = "messages") -> None:
        self.connector = connector
        self.streams = streams
        self.seen: list[list[tuple[str, int, int]]] = [[] for _ in streams]
        self.errors: list[BaseException] = []
        drain = {"messages": self._messages, "batches": self._batches}[by]
        self._threads = [
            threading.Thread(target=self._run, args=[drain, stream, seen], daemon=True)
            for stream, seen in zip(streams, self.seen, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, drain: Callable[..., None], stream: Any, seen: list[Any]) -> None:
        while True:
            try:
                drain(stream, seen)
                return
            except ConsumerTimeout:
                continue
            except BaseException as error:
                self.errors.append(error)
                return

    @staticmethod
    def _messages(stream: Any, seen: list[Any]) -> None:
        for message in stream:
            seen.append((message.topic, message.partition, message.offset))

    @staticmethod
    def _batches(stream: Any, seen: list[Any]) -> None:
        for batch in stream.batches(["topic", "partition", "offset"]):
            seen.extend(zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def count(self) -> int:
        return sum(map(len, self.seen))

    def records(self) -> Counter[tuple[str, int, int]]:
        return counted([self])

    def join(self, seconds: float = WAIT) -> None:
        for thread in self._threads:
            thread.join(seconds)
            assert not thread.is_alive(), "a stream's iteration has not ended"


def counted(readings: list[Reading]) -> Counter[tuple[str, int, int]]:
    """What readings were given, in all. Do not simplify to a sum of their counters: that takes fifteen times as long,
    and with a hundred thousand records, on a busy machine, longer than a test waits for them."""
    found: Counter[tuple[str, int, int]] = Counter()
    for reading in readings:
        for seen in reading.seen:
            found.update(list(seen))
    return found


class Consumers:
    """Makes connectors of one group, and shuts down what a test leaves open."""

    def __init__(self, kafka: Any) -> None:
        self._kafka = kafka
        self.group = f"g-{uuid.uuid4().hex[:12]}"
        self.made: list[Connector] = []
        self.readings: list[Reading] = []

    def connector(self, start: Any = None, watermarks: Any = None, **settings: Any) -> Connector:
        config = {"group.id": self.group, **QUICK, **self._kafka.client_options(prefix="")}
        config |= {name.replace("_", "."): value for name, value in settings.items()}
        connector = Connector(config, start=start, watermarks=watermarks)
        self.made.append(connector)
        return connector

    def reading(
        self, topic: str, streams: int = 1, by: str = "messages", start: Any = None, **settings: Any
    ) -> Reading:
        """A connector with so many streams of a topic, all of them drained."""
        connector = self.connector(start, **settings)
        reading = Reading(connector, connector.create_message_streams({topic: streams})[topic], by)
        self.readings.append(reading)
        return reading

    def records(self) -> Counter[tuple[str, int, int]]:
        """What all readings of this test were given, in all."""
        return counted(self.readings)

    def close(self) -> None:
        for connector in self.made:
            connector.shutdown()
        for reading in self.readings:
            reading.join()


@pytest.fixture
def consumers(kafka: Any) -> Iterator[Consumers]:
    made = Consumers(kafka)
    yield made
    made.close()


@pytest.fixture
def cluster_consumers(kafka_cluster: Any) -> Iterator[Consumers]:
    made = Consumers(kafka_cluster)
    yield made
    made.close()


class Left:
    """Threads and sockets of Penstock in this process, held against what there was before."""

    def __init__(self) -> None:
        POOL.close()
        gc.collect()
        self._threads = set(threading.enumerate())
        self._sockets = self._open()

    @staticmethod
    def _open() -> set[str]:
        """The sockets by their own names: one of others that is closed meanwhile must not make up for one of ours."""
        found = set()
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(path.readlink()))
        return {name for name in found if name.startswith("socket:")}

    def threads(self) -> list[str]:
        return sorted(
            thread.name for thread in set(threading.enumerate()) - self._threads if thread.name.startswith("penstock")
        )

    def sockets(self) -> int:
        gc.collect()
        return len(self._open() - self._sockets)

    def nothing(self) -> None:
        POOL.close()  # idle connections are kept for the next user, by design
        eventually(lambda: not self.threads(), lambda: f"no thread is left, but there are {self.threads()}")
        eventually(lambda: not self.sockets(), lambda: f"no socket is left, but there are {self.sockets()}")


@pytest.fixture
def left() -> Left:
    return Left()


def ends(topic: str, counts: dict[int, int]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): count for partition, count in counts.items()}
