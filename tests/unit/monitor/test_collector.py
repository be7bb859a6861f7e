"""The thread of a collector, against simulated brokers: one round of a large cluster, failures, and the end."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.model.topic_partition import TopicPartition
from penstock.monitor.collector import Collector
from penstock.monitor.rounds import Rounds
from penstock.monitor.settings import MonitorSettings
from penstock.monitor.snapshot import Certainty
from support.configs import client_config
from support.simulated_cluster import Group, SimulatedCluster, large_cluster

A = TopicPartition("t", 0)
DEADLINE = 60.0
QUICK = MonitorSettings(interval=0.02, requests_per_second=1e6)


def collecting(cluster, settings=QUICK):
    return Collector(client_config(bootstrap=cluster.addresses, retry_backoff=0.01), settings)


def until(collector, condition):
    """The first snapshot that fulfils the condition."""
    deadline, after = time.monotonic() + DEADLINE, 0
    while time.monotonic() < deadline:
        snapshot = collector.wait_for(after, DEADLINE)
        assert snapshot is not None
        if condition(snapshot):
            return snapshot
        after = snapshot.number
    raise AssertionError(f"not within {DEADLINE:g} s; the last snapshot: {snapshot}")


@pytest.mark.parametrize("size", [20, pytest.param(1000, marks=pytest.mark.extended)])
def test_a_round_takes_as_many_requests_for_a_thousand_groups_as_for_twenty(size):
    """With a thousand: ten thousand partitions, and as many positions."""
    now = int(time.time() * 1000)
    with large_cluster(size, 10, size, time_of=lambda tp, offset: now - 60_000) as cluster:
        rounds = collecting(cluster)._rounds  # without its thread, which would go on asking
        first = rounds.run()
        assert (len(first.topics), len(first.groups), first.problems) == (size, size, ())
        assert sum(len(topic.partitions) for topic in first.topics) == 10 * size
        assert {group.lag for group in first.groups} == {1000}
        assert {group.kind for group in first.groups} == {"classic", "consumer"}
        assert first.requests == cluster.requests.total() - cluster.requests["ApiVersions"]
        # Three brokers. A request per group would be a thousand.
        assert first.requests <= 36
        assert rounds.run().requests - first.requests <= 25


def test_everything_of_a_group_is_in_a_snapshot():
    now = int(time.time() * 1000)
    group = Group({A: 500}, kind="consumer", members=1)
    with (
        SimulatedCluster({"t": 1}, {"g": group}, time_of=lambda tp, offset: now - 90_000) as cluster,
        collecting(cluster) as collector,
    ):
        found = until(collector, lambda snapshot: snapshot.groups and snapshot.groups[0].seconds is not None)
        (read,) = found.groups
        assert (read.kind, read.assignor, read.lag, read.certainty) == ("consumer", "uniform", 500, Certainty.EXACT)
        assert read.seconds == pytest.approx(90, abs=30)
        assert read.members[0].partitions == (A,)
        assert (found.cluster_id, len(found.brokers), found.is_reachable) == ("simulated", 3, True)
        assert found.topics[0].size == 1 << 20


def test_brokers_that_are_down_are_said_and_asked_again():
    with SimulatedCluster({"t": 1}, {"g": Group({A: 500})}) as cluster, collecting(cluster) as collector:
        until(collector, lambda snapshot: snapshot.groups)
        for node in range(cluster.brokers):
            cluster.stop(node)
        down = until(collector, lambda snapshot: not snapshot.is_reachable)
        assert down.groups
        assert any("connecting failed" in problem or "reading failed" in problem for problem in down.problems)


def test_requests_are_limited_however_many_read():
    settings = MonitorSettings(interval=0.001, requests_per_second=200)
    with SimulatedCluster({"t": 1}, {"g": Group({A: 500})}, brokers=1) as cluster:
        began = time.monotonic()
        with collecting(cluster, settings) as collector:
            readers = [
                threading.Thread(target=until, args=(collector, lambda snapshot: snapshot.requests > 300))
                for _ in range(5)
            ]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join(DEADLINE)
        assert cluster.requests.total() <= 200 * (time.monotonic() - began) + 200 + 10


def test_closing_ends_the_thread_during_a_wait_and_during_a_request(monkeypatch):
    with SimulatedCluster({"t": 1}, {}) as cluster:
        collector = collecting(cluster, MonitorSettings(interval=3600))
        collector.start()
        assert collector.wait_for(0, DEADLINE) is not None
        collector.close()
        collector.close()
        assert not collector._thread.is_alive()
        assert collector.wait_for(1, 0) is None
        slow = collecting(cluster, MonitorSettings(requests_per_second=0.001))
        slow.start()
        slow.close()
        assert not slow._thread.is_alive()


def test_a_bug_reaches_the_readers(monkeypatch):
    def broken(rounds):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Rounds, "run", broken)
    with SimulatedCluster({"t": 1}, {}) as cluster, collecting(cluster) as collector:
        with pytest.raises(ZeroDivisionError):
            collector.wait_for(0, DEADLINE)
        with pytest.raises(ZeroDivisionError):
            _ = collector.snapshot
