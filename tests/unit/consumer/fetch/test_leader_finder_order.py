"""In which order the leader finder asks brokers for metadata (H10). Only the connections are made of values."""

import itertools

import pytest

from fixtures.consumer import eventually
from penstock import TopicPartition
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.leader_finder import LeaderFinder, ResetRule
from penstock.wire.api.metadata import Broker, Metadata, Topic
from penstock.wire.transport.connection import ConnectionLost
from support.configs import client_config

BROKERS = [Broker(n, f"h{n}", 9092) for n in (1, 2, 3)]
HOSTS = [broker.host for broker in BROKERS]
LEADERLESS = Metadata({broker.node_id: broker for broker in BROKERS}, {"t": Topic("t", None, False, {0: None})})

PASSES = 100
"""Of six orders one is missing with a chance of less than one in ten million."""


class Connections:
    """Refuses all but the last broker of each pass, so that a pass shows its whole order."""

    def __init__(self):
        self.orders = []
        self._pass = []

    def acquire(self, config, host, port, timeout, doubt=None):
        self._pass.append(host)
        if len(self._pass) < len(BROKERS):
            raise ConnectionLost(f"{host}: refused")
        self.orders.append(tuple(self._pass))
        self._pass = []
        return object()

    def release(self, connection):
        pass


@pytest.fixture
def connections(monkeypatch):
    """Of a cluster whose brokers say that the partition has no leader, so that the finder asks forever."""
    made = Connections()
    monkeypatch.setattr("penstock.wire.brokers.POOL", made)
    monkeypatch.setattr("penstock.wire.brokers._LEARNED", {})
    monkeypatch.setattr("penstock.wire.cluster.ask_metadata", lambda *asked: (LEADERLESS, []))
    # A broker that takes long to refuse comes last for ten seconds. On a busy machine, this process takes long.
    monkeypatch.setattr("penstock.wire.brokers.AVOIDED_SECONDS", 0.0)
    return made


def test_H10_the_leader_finder_asks_brokers_in_random_order(connections):
    config = client_config(bootstrap=tuple(broker.address for broker in BROKERS))
    finder = LeaderFinder(config, ResetRule("g", "earliest"), fetchers=1, backoff=0.0, on_error=pytest.fail)
    finder.start()
    try:
        finder.add([Cursor(TopicPartition("t", 0), None, 0)])
        eventually(lambda: len(connections.orders) > PASSES, "the finder asks again and again")
    finally:
        finder.close(60)
    # The first pass knows nothing but the bootstrap servers.
    assert set(connections.orders[1:]) == set(itertools.permutations(HOSTS))
