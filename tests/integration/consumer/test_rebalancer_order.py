"""The order of a rebalance, as the broker, the listener and the reader of a stream see it (H7)."""

import contextlib
from dataclasses import dataclass

import pytest

from fixtures.cluster import cluster_of
from fixtures.consumer import eventually
from fixtures.stream import records, tp
from penstock import ConsumerTimeout
from penstock.wire.transport.connection import Connection

STEPS = ("OffsetCommit", "JoinGroup", "SyncGroup", "OffsetFetch", "Fetch")
"""Requests that make up a rebalance. Others, such as heartbeats and metadata, are sent at any time."""


@pytest.fixture
def requests(monkeypatch):
    """`requests(client_id)`: a list to which every request of that client is added before it goes out, by name."""
    sent, wanted = [], []
    send = Connection.send

    def record(connection, request, timeout):
        name = request.name.removesuffix("Request")
        if connection.config.client_id in wanted and name in STEPS:
            sent.append(name)
        return send(connection, request, timeout)

    monkeypatch.setattr(Connection, "send", record)

    def watch(client_id):
        wanted.append(client_id)
        return sent

    return watch


@dataclass
class Seen:
    """The state during a call of the listener."""

    call: str
    partitions: list
    owned: list
    committed: int | None
    handed_out: list


class Listener:
    """Adds its calls to the requests, and records the state during each of them."""

    def __init__(self, events, connector, stream, committed):
        self.events, self.connector, self.stream, self.committed = events, connector, stream, committed
        self.seen = []

    def revoked(self, owned):
        self._note("revoked", owned)

    def assigned(self, consumer_id, assignment):
        self._note("assigned", [tp(topic, p) for topic, threads in assignment.items() for p in sorted(threads)])

    def _note(self, name, partitions):
        self.events.append(name)
        handed_out = []
        with contextlib.suppress(ConsumerTimeout):
            handed_out.append(next(self.stream))
        self.seen.append(Seen(name, partitions, list(self.connector.assignment()), self.committed(), handed_out))


def test_H7_commit_then_revoked_then_release_then_assign_then_assigned_then_fetch(
    kafka, consumers, topic, produce, operator, requests
):
    name = topic(partitions=1)
    produce(name, records(20))
    events = requests("watched")
    connector = consumers.connector(
        client_id="watched",
        auto_commit_interval_ms=3_600_000,  # only the rebalance commits
        fetch_max_wait_ms=25_000,
        consumer_timeout_ms=500,
    )
    (stream,) = connector.create_message_streams({name: 1})[name]
    read = [eventually(lambda: next_or_none(stream), "a record") for _ in range(10)]
    assert [message.offset for message in read] == list(range(10))
    # One fetch waits at the broker, so none goes out by chance while the group rebalances.
    eventually(lambda: events.count("Fetch") == connector.metrics().fetch_requests + 1, "a fetch that waits")

    def committed():
        return cluster_of(kafka).committed(consumers.group, [tp(name)])[tp(name)]

    assert committed() is None
    listener = Listener(events, connector, stream, committed)
    connector.set_rebalance_listener(listener)
    del events[:]
    operator.grow(name, 2)
    eventually(lambda: "Fetch" in events, lambda: f"a fetch after the rebalance; so far {events}")
    connector.set_rebalance_listener(None)

    assert events[: events.index("Fetch") + 1] == [
        "OffsetCommit",
        "revoked",
        "JoinGroup",  # the release: the member joins without its partitions
        "SyncGroup",  # the assignment
        "OffsetFetch",
        "assigned",
        "Fetch",
    ]
    both = [tp(name, 0), tp(name, 1)]
    assert listener.seen == [
        Seen("revoked", partitions=[tp(name, 0)], owned=[tp(name, 0)], committed=10, handed_out=[]),
        Seen("assigned", partitions=both, owned=[], committed=10, handed_out=[]),
    ]
    assert list(connector.assignment()) == both
    again = [eventually(lambda: next_or_none(stream), "a record") for _ in range(10)]
    assert [message.offset for message in again] == list(range(10, 20)), "what was queued comes once"


def next_or_none(stream):
    try:
        return next(stream)
    except ConsumerTimeout:
        return None
