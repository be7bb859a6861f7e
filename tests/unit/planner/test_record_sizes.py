"""When the size of records is sampled, and of which partitions."""

from __future__ import annotations

import pytest

from penstock.config.source import parse_options
from penstock.errors import BrokerUnavailable
from penstock.model.topic_partition import TopicPartition
from penstock.planner.record_sizes import LIMITED_SAMPLE_SECONDS, SAMPLE_SECONDS, SAMPLED_PARTITIONS, RecordSizes

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Lookup:
    def __init__(self):
        self.asked = []

    def bytes_per_record(self, positions):
        self.asked.append(dict(positions))
        return dict.fromkeys(positions, 100.0)


@pytest.fixture
def sampling():
    """`sampling(maxBytesPerTrigger="1")`: sizes, what they asked, and their clock."""

    def make(**options):
        lookup, clock = Lookup(), [0.0]
        parsed = parse_options({"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"} | options)
        return RecordSizes(parsed.stream, lookup, lambda: clock[0]), lookup.asked, clock

    return make


def test_metrics_need_one_sample_per_interval(sampling):
    sizes, asked, clock = sampling()
    for now in (0.0, 1.0, SAMPLE_SECONDS):
        clock[0] = now
        sizes.sample({A: 10}, {A: 5})
    assert asked == [{A: 5}, {A: 5}]
    assert sizes.bytes_per_record == {A: 100.0}


def test_metrics_need_a_sample_of_some_partitions_only(sampling):
    sizes, asked, _ = sampling()
    backlog = {TopicPartition("t", number): 1 for number in range(2 * SAMPLED_PARTITIONS)}
    sizes.sample(backlog, backlog)
    assert len(asked[0]) == SAMPLED_PARTITIONS


def test_a_limit_in_bytes_samples_a_partition_when_it_first_has_a_backlog(sampling):
    sizes, asked, clock = sampling(maxBytesPerTrigger="1000")
    sizes.sample({A: 10}, {A: 5, B: 0})
    sizes.sample({A: 10, B: 1}, {A: 5, B: 0})
    sizes.sample({A: 10, B: 1}, {A: 5, B: 0})
    assert asked == [{A: 5}, {B: 0}]
    clock[0] = LIMITED_SAMPLE_SECONDS
    sizes.sample({A: 10, B: 1}, {A: 6, B: 0})
    assert asked[2:] == [{A: 6, B: 0}]


def test_partitions_that_are_no_longer_read_are_forgotten(sampling):
    sizes, _, clock = sampling()
    sizes.sample({A: 1, B: 1}, {A: 5, B: 0})
    clock[0] = SAMPLE_SECONDS
    sizes.sample({B: 1}, {B: 0})
    assert sizes.bytes_per_record == {B: 100.0}


def test_nothing_is_sampled_without_a_limit_and_metrics_or_without_a_backlog(sampling):
    sizes, asked, _ = sampling(reportMetrics="false")
    sizes.sample({A: 10}, {A: 5})
    other, others_asked, _ = sampling()
    other.sample({}, {A: 5})
    assert asked == others_asked == []


def test_a_failed_sample_is_not_an_error(sampling, monkeypatch):
    def fail(_):
        raise BrokerUnavailable("no broker answers")

    sizes, _, _ = sampling()
    monkeypatch.setattr(Lookup, "bytes_per_record", lambda self, positions: fail(positions))
    sizes.sample({A: 10}, {A: 5})
    assert sizes.bytes_per_record == {}
