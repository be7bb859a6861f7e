"""Where a batch starts and ends, with a real broker."""

import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as RdPartition

from fixtures.produce import Rec
from penstock.config.source import parse_options
from penstock.errors import BrokerUnavailable, DataLoss, NoGroupOffset, NoOffsetForTimestamp, OptionError, UnknownTopic
from penstock.model.narrowing import Narrowing
from penstock.planner.batch import plan_batch

HOUR = 3_600_000
NOW = int(time.time() * 1000)


@pytest.fixture
def plan(kafka):
    """The plan of a batch as {partition: (start, stop)}."""

    def make(narrowing=Narrowing(), **more):  # noqa: B008 (frozen)
        return {
            r.partition: (r.start, r.stop) for r in plan_batch(parse_options(kafka.client_options() | more), narrowing)
        }

    return make


@pytest.fixture
def hourly(topic, produce):
    """Two partitions with a record every hour of the last ten; the second has only the older five."""
    name = topic(partitions=2)
    produce(name, [Rec(b"v", timestamp=NOW - (10 - i) * HOUR) for i in range(10)])
    produce(name, [Rec(b"v", timestamp=NOW - (10 - i) * HOUR, partition=1) for i in range(5)])
    return name


def commit(kafka, group, topic, offsets):
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    try:
        consumer.commit(offsets=[RdPartition(topic, p, o) for p, o in offsets.items()], asynchronous=False)
    finally:
        consumer.close()


def test_F6_earliest_to_latest_is_the_default(plan, hourly):
    assert plan(subscribe=hourly) == {0: (0, 10), 1: (0, 5)}


def test_F6_explicit_offsets(plan, hourly):
    starting = f'{{"{hourly}": {{"0": 3, "1": -2}}}}'
    ending = f'{{"{hourly}": {{"0": 7, "1": -1}}}}'
    assert plan(subscribe=hourly, startingOffsets=starting, endingOffsets=ending) == {0: (3, 7), 1: (0, 5)}


def test_offset_json_with_a_whole_topic(plan, hourly):
    assert plan(subscribe=hourly, startingOffsets=f'{{"{hourly}": 4}}') == {0: (4, 10), 1: (4, 5)}


def test_F6_F8_a_timestamp_and_latest_where_no_record_is_that_young(plan, hourly):
    between = str(NOW - 4 * HOUR - 60_000)
    assert plan(subscribe=hourly, startingTimestamp=between) == {0: (6, 10)}
    assert plan(subscribe=hourly, endingTimestamp=between) == {0: (0, 6), 1: (0, 5)}
    with pytest.raises(NoOffsetForTimestamp, match=f"{hourly}-1"):
        plan(subscribe=hourly, startingTimestamp=between, startingOffsetsByTimestampStrategy="error")


def test_timestamps_per_partition(plan, hourly):
    times = f'{{"{hourly}": {{"0": {NOW - 2 * HOUR - 1}, "1": {NOW - 8 * HOUR - 1}}}}}'
    assert plan(subscribe=hourly, startingOffsetsByTimestamp=times) == {0: (8, 10), 1: (2, 5)}
    assert plan(subscribe=hourly, endingOffsetsByTimestamp=times) == {0: (0, 8), 1: (0, 2)}


def test_F6_F9_group_offsets_and_the_reset_rule(kafka, plan, hourly):
    group = {"kafka.group.id": f"g-{hourly}", "startingOffsets": "group"}
    with pytest.raises(NoGroupOffset, match=f"{hourly}-0, {hourly}-1"):
        plan(subscribe=hourly, **group)
    commit(kafka, f"g-{hourly}", hourly, {0: 6})
    with pytest.raises(NoGroupOffset, match=f"for {hourly}-1"):
        plan(subscribe=hourly, **group)
    reset = {"kafka.auto.offset.reset": "earliest"}
    assert plan(subscribe=hourly, **group, **reset) == {0: (6, 10), 1: (0, 5)}
    commit(kafka, f"g-{hourly}", hourly, {1: 2})
    assert plan(subscribe=hourly, **group) == {0: (6, 10), 1: (2, 5)}


def test_F7_unnamed_partitions_start_at_the_group(kafka, plan, hourly):
    commit(kafka, f"h-{hourly}", hourly, {1: 3})
    options = {"kafka.group.id": f"h-{hourly}", "startingOffsets": f'{{"{hourly}": {{"0": 9}}}}'}
    assert plan(subscribe=hourly, **options) == {0: (9, 10), 1: (3, 5)}


def test_F27_offsets_that_are_not_there(plan, hourly, caplog):
    past = f'{{"{hourly}": {{"0": 5, "1": 77}}}}'
    with pytest.raises(DataLoss, match=f"{hourly}-1: wanted from offset 77, the broker has offsets 0 to 5"):
        plan(subscribe=hourly, startingOffsets=past)
    assert plan(subscribe=hourly, startingOffsets=past, failOnDataLoss="false") == {0: (5, 10)}
    assert "wanted from offset 77" in caplog.text


def test_F1_pattern_and_assign(plan, hourly):
    assert plan(subscribePattern=hourly[:-1] + ".") == {0: (0, 10), 1: (0, 5)}
    assert plan(assign=f'{{"{hourly}": [1]}}') == {1: (0, 5)}
    assert plan(subscribePattern="no-such-topic.*") == {}


def test_a_topic_that_does_not_exist_names_the_nearest(plan, hourly):
    with pytest.raises(UnknownTopic, match=f"did you mean .*{hourly}"):
        plan(subscribe=hourly + "x")


def test_a_partition_that_does_not_exist(plan, hourly):
    with pytest.raises(UnknownTopic, match=f"partition {hourly}-7 does not exist: the topic has 2 partitions"):
        plan(assign=f'{{"{hourly}": [7]}}')
    with pytest.raises(OptionError, match=f"names {hourly}-7"):
        plan(subscribe=hourly, startingOffsets=f'{{"{hourly}": {{"0": 1, "1": 1, "7": 1}}}}')


def test_filters_narrow_the_plan(plan, hourly):
    assert plan(Narrowing(partitions=frozenset({1})), subscribe=hourly) == {1: (0, 5)}
    assert plan(Narrowing(min_offset=3, max_offset=6), subscribe=hourly) == {0: (3, 7), 1: (3, 5)}
    assert plan(Narrowing(min_timestamp=NOW - 7 * HOUR), subscribe=hourly) == {0: (3, 10), 1: (3, 5)}
    assert plan(Narrowing(min_timestamp=NOW - 3 * HOUR), subscribe=hourly) == {0: (7, 10)}
    assert plan(Narrowing(topics=frozenset({"other"})), subscribe=hourly) == {}


def test_an_unreachable_broker_is_an_error_with_its_history_within_the_time_out():
    options = parse_options(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.default.api.timeout.ms": "2000"}
    )
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1: connecting failed") as caught:
        plan_batch(options)
    assert len(caught.value.history) >= 2
    assert "kafka.bootstrap.servers" in str(caught.value)


def test_planning_is_tried_as_often_as_asked(caplog):
    options = parse_options(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "subscribe": "t",
            "kafka.default.api.timeout.ms": "200",
            "fetchOffset.numRetries": "3",
            "fetchOffset.retryIntervalMs": "10",
        }
    )
    with pytest.raises(BrokerUnavailable):
        plan_batch(options)
    assert caplog.text.count("planning failed") == 2
