"""read_committed in a group: no record of an aborted transaction, no record after an open one, and positions that move
past the markers (H8, H11, H14)."""

import time
from collections import Counter

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from chaos.load import Transactions
from chaos.members import ends
from fixtures.cluster import cluster_of
from fixtures.consumer import eventually
from fixtures.produce import Rec
from fixtures.stream import tp

READ_COMMITTED = {"isolation_level": "read_committed"}
PARTITIONS = 4


def some(count=10):
    return [Rec(b"x") for _ in range(count)]


@pytest.mark.parametrize("by", ["messages", "batches"])
def test_H11_positions_move_past_markers_and_the_lag_is_0_at_the_end(kafka, consumers, topic, transaction, by):
    name = topic()
    with transaction(f"{name}-1") as send:
        send(name, some())  # 0 to 9, marker 10
    with transaction(f"{name}-2", commit=False) as send:
        send(name, some())  # 11 to 20, marker 21
    reading = consumers.reading(name, 1, by, **READ_COMMITTED)
    connector = reading.connector
    with transaction(f"{name}-3") as send:
        send(name, some())  # 22 to 31
        eventually(lambda: connector.position() == {tp(name): 22}, "the first open transaction")
        eventually(lambda: reading.count() == 10, "what is before it")  # handed out, and then recorded
        assert [offset for _, _, offset in reading.records()] == list(range(10))
        assert connector.lag() == {tp(name): 0}, "nothing more can be read now"
        with transaction(f"{name}-4", commit=False) as other:
            other(name, some())  # 32 to 41, marker 42: aborted, after an open one
    # marker 43
    eventually(lambda: connector.position() == {tp(name): 44}, "the end of the log")
    eventually(lambda: reading.count() == 20, "what was committed")
    assert sorted(offset for _, _, offset in reading.records()) == [*range(10), *range(22, 32)]
    assert max(reading.records().values()) == 1
    assert connector.lag() == {tp(name): 0}
    assert connector.metrics().lag == 0
    connector.shutdown()
    assert cluster_of(kafka).committed(consumers.group, [tp(name)]) == {tp(name): 44}
    again = consumers.reading(name, 1, by, **READ_COMMITTED)
    eventually(lambda: again.connector.lag() == {tp(name): 0}, "nothing is left")
    assert again.count() == 0


def test_H14_an_iteration_left_before_a_marker_continues_after_it(consumers, topic, transaction):
    name = topic()
    for number in range(3):
        with transaction(f"{name}-{number}") as send:
            send(name, some(1))
    seen = []
    for _ in range(3):
        connector = consumers.connector(**READ_COMMITTED)
        seen.append(next(connector.create_message_streams({name: 1})[name][0]).offset)
        connector.shutdown()
    assert seen == [0, 2, 4]


def committed_records(kafka, topic):
    """The committed records, read with librdkafka."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "other", "isolation.level": "read_committed"}
    consumer = Consumer(config | {"enable.partition.eof": False, "enable.auto.commit": False})
    found: Counter = Counter()
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        end, deadline = ends(kafka.client_options(prefix=""), topic, PARTITIONS), time.monotonic() + 60
        while any(at.offset < end[at.partition] for at in consumer.position(consumer.assignment())):
            assert time.monotonic() < deadline
            found.update((m.topic(), m.partition(), m.offset()) for m in consumer.consume(1000, 0.2))
    finally:
        consumer.close()
    return found


def test_H8_a_group_that_rebalances_reads_each_committed_record_once(kafka, consumers, topic):
    name = topic(partitions=PARTITIONS)
    options = kafka.client_options(prefix="")
    writers = [Transactions(options, f"{name}-{seed}", name, PARTITIONS, seed) for seed in (21, 22)]
    with writers[0], writers[1]:
        first = consumers.reading(name, 2, "messages", **READ_COMMITTED)
        eventually(first.count, "records")
        second = consumers.reading(name, 2, "batches", **READ_COMMITTED)
        eventually(second.count, "records")
        first.connector.shutdown()
        reached = second.count()
        eventually(lambda: second.count() > reached + 200, "more records")
        third = consumers.reading(name, 2, "messages", **READ_COMMITTED)
        eventually(third.count, "records")
        for writer in writers:
            writer.stop()
            assert writer.aborted
    expected = committed_records(kafka, name)
    assert len(expected) == sum(sum(writer.committed.values()) for writer in writers)
    eventually(lambda: consumers.records().keys() >= expected.keys(), "every committed record")
    assert consumers.records() == expected
    for reading in (second, third):
        eventually(lambda: set(reading.connector.lag().values()) == {0}, "no lag")  # noqa: B023
