"""A network that cuts connections at random, in the middle of requests and responses (H13)."""

import random
import threading
import weakref
from collections import Counter

import pytest

from chaos.load import Load
from fixtures.consumer import eventually
from penstock.wire.transport.connection import Connection

PARTITIONS = 6
CONSUMER = "consumer"
"""The protocol in which the brokers assign, instead of an assignor."""


class Cutting:
    """Cuts one of the open connections at intervals, so that each lives for a second or two."""

    def __init__(self, monkeypatch, seed: int, seconds: float) -> None:
        self.cuts = 0
        self._chance = random.Random(seed)
        self._pause = seconds
        self._open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        honest, mine = Connection.__init__, self

        def begin(self, *arguments) -> None:
            honest(self, *arguments)
            with mine._lock:
                mine._open.add(self)

        monkeypatch.setattr(Connection, "__init__", begin)

    def _run(self) -> None:
        while not self._ended.wait(self._chance.uniform(0, 2 * self._pause)):
            with self._lock:
                connections = [each for each in self._open if each._socket.fileno() >= 0]
            if connections:
                self._chance.choice(connections).abort()
                self.cuts += 1

    def __enter__(self) -> "Cutting":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky", CONSUMER])
def test_H13_connections_cut_at_random_lose_no_record(consumers, kafka, topic, monkeypatch, assignor):
    name = topic(partitions=PARTITIONS)
    cutting = Cutting(monkeypatch, 3, 0.1)

    def join(by):
        if assignor == CONSUMER:
            return consumers.reading(name, 2, by, group_protocol=CONSUMER)
        # A join whose first response is cut off leaves a member that the group waits for, until its session ends.
        return consumers.reading(name, 2, by, partition_assignment_strategy=assignor, session_timeout_ms=10_000)

    def goes_on(reading):
        reached = reading.count()
        eventually(lambda: reading.count() > reached + 100, lambda: f"records; {reading.errors}", 90)

    with Load(kafka.client_options(prefix=""), lambda i: (name, i % PARTITIONS)) as load:
        first = join("messages")
        goes_on(first)
        with cutting:
            second = join("batches")
            goes_on(second)
            goes_on(first)
            third = join("messages")
            goes_on(third)
            first.connector.shutdown()
            goes_on(second)
            second.connector.shutdown()
            goes_on(third)
            assert third.connector.metrics().retries > 0
            count = sum(load.stop().values())
    assert cutting.cuts > 20
    eventually(lambda: len(consumers.records()) == count, "every record")
    assert not [error for reading in consumers.readings for error in reading.errors]
    assert Counter(consumers.records().values()) == {1: count}
