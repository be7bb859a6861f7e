"""H16: the consumer's counters, their snapshots, and their export to Prometheus."""

from __future__ import annotations

import pickle
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.metrics import consumer as module
from penstock.metrics.consumer import CONSUMER_METRICS, ConsumerMetrics, StreamQueue
from penstock.metrics.consumer_counters import ConsumerCounters, Meter
from penstock.metrics.group_counters import GroupCounters
from penstock.metrics.latency import WINDOW_SECONDS
from penstock.metrics.metric import Metric
from penstock.metrics.partition import PartitionMetrics
from penstock.metrics.prometheus import register, register_consumer
from penstock.metrics.source import METRICS


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def counters(clock):
    return ConsumerCounters(clock)


PARTITIONS = [
    PartitionMetrics("views", 0, thread_id="c-1"),
    PartitionMetrics("clicks", 10, 100, 90, 50, thread_id="c-1"),
    PartitionMetrics("clicks", 2, 70, 100, thread_id="c-0"),
]
QUEUES = [StreamQueue("clicks", "c-0", 2), StreamQueue("clicks", "c-1", 0), StreamQueue("views", "c-0", 1)]


def snapshot(counters: ConsumerCounters, **more: float) -> ConsumerMetrics:
    return counters.snapshot("words", "c", PARTITIONS, QUEUES, **more)


def test_H16_lag_position_and_commits_of_each_partition(counters):
    found = snapshot(counters)
    assert [str(each) for each in found.partitions] == ["clicks-2", "clicks-10", "views-0"]
    assert [each.lag for each in found.partitions] == [30, 0, None], "never below 0, and unknown where nothing is known"
    assert [each.committed_offset for each in found.partitions] == [None, 50, None]
    assert found.lag == 30


def test_H16_lag_is_unknown_while_no_partition_is_known_and_none_without_partitions(counters):
    assert counters.snapshot("g", "c", [PartitionMetrics("t", 0, thread_id="c-0")], []).lag is None
    assert counters.snapshot("g", "c", [], []).lag == 0


def test_H16_owned_partitions_of_each_topic_also_of_one_that_was_revoked(counters):
    counters.consumed("before", 5, 50)
    found = {flow.topic: flow for flow in snapshot(counters).topics}
    assert {topic: flow.owned for topic, flow in found.items()} == {"before": 0, "clicks": 2, "views": 1}
    assert (found["before"].messages, found["before"].bytes) == (5, 50)


def test_H16_messages_and_bytes_per_second_of_a_topic_and_in_all(counters, clock):
    for _ in range(20):
        counters.consumed("clicks", 100, 5_000)
        counters.consumed("views", 10, 100)
        clock.now += 0.5
    found = snapshot(counters)
    clicks, views = found.topics
    assert (clicks.messages, clicks.bytes, views.messages, views.bytes) == (2000, 100_000, 200, 2000)
    # The window holds nine whole seconds at this moment, and eighteen chunks.
    assert (clicks.messages_per_second, clicks.bytes_per_second) == (200, 10_000)
    assert (views.messages_per_second, views.bytes_per_second) == (20, 200)
    assert (found.messages, found.bytes) == (2200, 102_000)
    assert (found.messages_per_second, found.bytes_per_second) == (220, 10_200)


def test_H16_a_rate_falls_to_zero_without_messages_and_the_sum_stays(counters, clock):
    counters.consumed("clicks", 1000, 1)
    clock.now += WINDOW_SECONDS / 2
    assert snapshot(counters).messages_per_second == 1000 / (WINDOW_SECONDS / 2)
    clock.now += WINDOW_SECONDS
    assert (snapshot(counters).messages_per_second, snapshot(counters).messages) == (0, 1000)


def test_H16_the_first_chunk_is_not_a_high_rate(counters, clock):
    counters.consumed("clicks", 1000, 1)
    clock.now += 0.001
    assert snapshot(counters).messages_per_second == 1000


@given(
    st.lists(st.tuples(st.floats(0, 30), st.integers(0, 1000)), min_size=1, max_size=40),
    st.floats(0, 10_000),
    st.floats(0, 60),
)
def test_H16_a_meter_keeps_the_sum_and_rates_only_the_window(steps, start, later):
    now = start
    meter = Meter(now)
    added = []
    for pause, amount in steps:
        now += pause
        meter.add(amount, now)
        added.append((now, amount))
    now += later
    assert meter.total == sum(amount for _, amount in added)
    oldest = int(now) - WINDOW_SECONDS + 1
    inside = sum(amount for at, amount in added if int(at) >= oldest)
    rate = meter.per_second(now)
    assert rate <= inside
    assert rate * WINDOW_SECONDS >= inside - 1e-6
    assert (rate == 0) == (inside == 0)


def test_H16_fetches_commits_rebalances_resets_and_damage(counters, clock):
    for _ in range(40):
        counters.fetched(0.01, 0.0)
        clock.now += 0.25
    for _ in range(3):
        counters.committed()
    counters.commit_failed()
    counters.out_of_range("whatever the caller has at hand")
    counters.corrupt()
    counters.corrupt()
    found = snapshot(counters, rebalances=2, rebalance_seconds=3.5, last_rebalance_seconds=0.5)
    assert (found.fetch_requests, found.fetch_requests_per_second) == (40, 4)
    assert (found.commits_succeeded, found.commits_failed) == (3, 1)
    assert found.commits_per_second == pytest.approx(3 / 9)
    assert (found.rebalances, found.rebalance_seconds, found.last_rebalance_seconds) == (2, 3.5, 0.5)
    assert (found.out_of_range_resets, found.corrupt_refetches) == (1, 2)


def test_F26_latency_throttling_retries_and_connections(counters):
    counters.fetched(0.25, 0.0)
    counters.fetched(0.75, 1.5)
    counters.retried()
    member = GroupCounters()
    member.heartbeat(0.5)
    member.retried()
    found = snapshot(counters, open_connections=3, requests=member.snapshot())
    assert (found.fetches.average, found.fetches.slowest, found.fetches.seconds) == (0.5, 0.75, 1.0)
    assert (found.throttle_seconds, found.retries, found.open_connections) == (1.5, 2, 3)
    assert found.heartbeats.last == 0.5
    assert found.since_heartbeat < 60


def test_H16_nothing_is_lost_when_many_threads_count():
    counters = ConsumerCounters()
    began = threading.Barrier(4)

    def count() -> None:
        began.wait(60)
        for _ in range(2_000):
            counters.consumed("clicks", 2, 3)
            counters.fetched(0.01, 0.0)
            counters.committed()
            counters.commit_failed()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = counters.snapshot("g", "c", [], [])
    assert (found.messages, found.bytes, found.fetch_requests) == (16_000, 24_000, 8_000)
    assert (found.commits_succeeded, found.commits_failed) == (8_000, 8_000)


def test_H16_a_snapshot_stays_what_it_was(counters):
    before = snapshot(counters)
    counters.consumed("clicks", 1, 1)
    counters.fetched(0.01, 0.0)
    assert before == pickle.loads(pickle.dumps(before))
    assert (before.messages, before.fetch_requests) == (0, 0)


def test_E5_event_time_lag_is_what_the_clock_is_ahead_of_the_watermark(counters):
    found = counters.snapshot("g", "c", [], [], watermark=int(time.time() * 1000) - 60_000)
    assert 59 < found.event_time_lag < 600
    assert (snapshot(counters).event_time_lag, snapshot(counters).late_records) == (None, None)


# --- names and Prometheus -----------------------------------------------------------------------------------------


def everything(counters: ConsumerCounters) -> ConsumerMetrics:
    counters.consumed("clicks", 10, 1000)
    partitions = [
        *PARTITIONS[1:],
        PartitionMetrics("views", 0, thread_id="c-1", watermark=1_500, idle=True, held=False),
    ]
    counters.fetched(0.25, 1.5)
    member = GroupCounters()
    member.heartbeat(0.5)
    member.joins.add(3.0)
    member.syncs.add(1.0)
    figures = {"last_rebalance_seconds": 1.0, "watermark": 1_500, "late_records": 7, "requests": member.snapshot()}
    return counters.snapshot("words", "c", partitions, QUEUES, **figures)


def test_H16_declared_and_measured_metrics_are_the_same(counters):
    samples = list(everything(counters).samples())
    assert {metric for metric, _, _ in samples} == set(CONSUMER_METRICS)
    assert {value for value in vars(module).values() if isinstance(value, Metric)} == set(CONSUMER_METRICS)
    for metric, labels, _ in samples:
        assert len(labels) == len(metric.labels), metric.name
    series = [(metric.name, labels) for metric, labels, _ in samples]
    assert len(series) == len(set(series)), "Prometheus refuses a scrape with a series twice"


def test_H16_no_name_is_used_twice():
    names = [metric.prometheus_name for metric in (*METRICS, *CONSUMER_METRICS)]
    assert len(names) == len(set(names))


def test_H16_prometheus_text(counters):
    registry = CollectorRegistry()
    unregister = register_consumer(registry, "words", "c", lambda: everything(counters))
    text = generate_latest(registry).decode()
    whose = 'consumer="c",group="words"'
    assert f'penstock_consumer_records_lag{{{whose},partition="2",topic="clicks"}} 30.0\n' in text
    assert f'penstock_consumer_queue_size{{{whose},thread="c-0",topic="views"}} 1.0\n' in text
    assert f'penstock_consumer_messages_total{{{whose},topic="clicks"}} 10.0\n' in text
    assert f"penstock_consumer_pending_records{{{whose}}} 30.0\n" in text
    assert f"penstock_consumer_event_time_watermark{{{whose}}} 1.5\n" in text
    assert f"penstock_consumer_late_records_total{{{whose}}} 7.0\n" in text
    assert f'penstock_consumer_partition_idle{{{whose},partition="0",topic="views"}} 1.0\n' in text
    assert f'penstock_consumer_partition_held{{{whose},partition="0",topic="views"}} 0.0\n' in text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families.keys() == {metric.prometheus_name for metric in CONSUMER_METRICS}
    for metric in CONSUMER_METRICS:
        family = families[metric.prometheus_name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
    unregister()
    assert generate_latest(registry) == b"", "a connector that is gone leaves no series"
    unregister()


def test_H16_connectors_of_one_program_share_a_registry_and_a_listener_has_room_beside_them(counters):
    registry = CollectorRegistry()
    register(registry, dict, dict)
    ends = [register_consumer(registry, "words", name, lambda: snapshot(counters)) for name in ("one", "two")]
    seen = generate_latest(registry).decode()
    assert all(f'penstock_consumer_rebalances_total{{consumer="{name}"' in seen for name in ("one", "two"))
    ends[0]()
    seen = generate_latest(registry).decode()
    assert 'consumer="one"' not in seen
    assert 'consumer="two"' in seen
    register_consumer(registry, "words", "one", lambda: snapshot(counters))


def test_H16_the_same_consumer_twice_is_refused(counters):
    registry = CollectorRegistry()
    first = register_consumer(registry, "words", "c", lambda: snapshot(counters))
    with pytest.raises(ValueError, match="already has a consumer 'c' of group 'words'"):
        register_consumer(registry, "words", "c", lambda: snapshot(counters))
    register_consumer(registry, "other", "c", lambda: snapshot(counters))
    first()
    register_consumer(registry, "words", "c", lambda: snapshot(counters))
    first()
    assert b'group="words"' in generate_latest(registry), "unregistering twice removes no other consumer"


def test_H16_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match=r"pip install 'penstock\[prometheus\]'"):
        register_consumer(None, "g", "c", lambda: ConsumerMetrics("g", "c"))
