"""Topics that are deleted, recreated, expanded and truncated, and groups whose offsets are gone: H5, H12, F9."""

import time

import pytest
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition

import penstock
from fixtures.consumer import eventually
from fixtures.produce import Rec
from fixtures.stream import tp


def write(produce, topic, count, partitions=1):
    produce(topic, [Rec(b"%d" % n, partition=n % partitions) for n in range(count)])


def consume(connector, topic, count):
    """Read this many offsets, with a new stream."""
    stream = connector.create_message_streams({topic: 1})[topic][0]
    return stream, [next(stream).offset for _ in range(count)]


def test_H5_a_recreated_topic_is_read_from_its_beginning(kafka, consumers, topic, produce):
    name, other = topic(partitions=2), topic()
    write(produce, name, 100, 2)
    connector = consumers.connector()
    streams = connector.create_message_streams({name: 1, other: 1})
    first = [next(streams[name][0]) for _ in range(100)]
    assert len(first) == 100
    kafka.delete_topic(name)
    eventually(lambda: connector.assignment().keys() == {tp(other)}, "its partitions are gone")
    write(produce, other, 10)
    assert [next(streams[other][0]).offset for _ in range(10)] == list(range(10)), "the others go on"
    kafka.create_topic(name, 3)
    write(produce, name, 30, 3)
    again = [next(streams[name][0]) for _ in range(30)]
    assert {(m.partition, m.offset) for m in again} == {(p, offset) for p in range(3) for offset in range(10)}


@pytest.mark.parametrize("records", [5, 50], ids=["shorter", "longer"])
def test_H12_a_topic_recreated_between_two_discoveries_is_read_from_its_beginning(
    consumers, topic, produce, operator, records
):
    """Shorter than what was read, or longer: an offset of the old topic means nothing in the new one."""
    name = topic()
    write(produce, name, 20)
    settings = {"metadata_max_age_ms": 600_000, "auto_commit_interval_ms": 600_000, "fetch_max_wait_ms": 100}
    connector = consumers.connector(**settings)
    stream, offsets = consume(connector, name, 20)
    assert offsets == list(range(20))
    connector.commit_offsets()
    connector.pause([tp(name)])

    def at_rest():
        before = connector.metrics().fetch_requests
        time.sleep(1)
        return connector.metrics().fetch_requests == before

    eventually(at_rest, "the broker has answered what it was asked before")
    operator.recreate(name)
    write(produce, name, records)
    connector.resume([tp(name)])
    assert [next(stream).offset for _ in range(records)] == list(range(records))
    assert connector.metrics().rebalances == 1


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_H5_an_added_partition_begins_by_the_reset_rule(kafka, consumers, topic, produce, operator, reset):
    name = topic()
    write(produce, name, 10)
    connector = consumers.connector("earliest", auto_offset_reset=reset)
    stream, offsets = consume(connector, name, 10)
    assert offsets == list(range(10))
    connector.pause([tp(name)])
    operator.grow(name, 2)
    produce(name, [Rec(b"early", partition=1)])
    eventually(lambda: tp(name, 1) in connector.position(), "the new partition")
    at = connector.position()[tp(name, 1)]
    assert at == 0 if reset == "earliest" else at in (0, 1), "if it was found before its first record came"
    produce(name, [Rec(b"late", partition=1)])
    found = [next(stream) for _ in range(2 - at)]
    assert [(m.partition, m.offset) for m in found] == [(1, offset) for offset in range(at, 2)]


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
@pytest.mark.parametrize("when", ["running", "down"])
def test_H12_an_offset_that_is_gone_follows_the_reset_rule(consumers, topic, produce, operator, reset, when):
    name = topic()
    write(produce, name, 100)
    connector = consumers.connector(auto_offset_reset="earliest" if when == "down" else reset, start="earliest")
    stream, offsets = consume(connector, name, 10)
    assert offsets == list(range(10))
    if when == "down":
        connector.shutdown()
        operator.delete_records(name, {0: 60})
        connector = consumers.connector(auto_offset_reset=reset)
        stream = connector.create_message_streams({name: 1})[name][0]
    else:
        operator.delete_records(name, {0: 60})
        connector.seek({tp(name): 20})
    if reset == "none":
        with pytest.raises(penstock.OffsetOutOfRange, match=r"offsets 60 to 100") as caught:
            next(stream)
        assert name in str(caught.value)
        assert connector.metrics().out_of_range_resets == 0
        connector.seek({tp(name): 70})
        assert next(stream).offset == 70
        return
    first = 60 if reset == "earliest" else 100
    eventually(lambda: connector.position() == {tp(name): first}, "fetched and consumed offset are reset")
    write(produce, name, 1)
    assert next(stream).offset == first
    assert connector.metrics().out_of_range_resets == 1


def test_H12_records_fetched_before_the_truncation_are_handed_out_first(consumers, topic, produce, operator):
    name = topic()
    connector = consumers.connector(queued_max_message_chunks=1, max_partition_fetch_bytes=1)
    for _ in range(10):  # one batch each, so that a fetch returns one of them
        produce(name, [Rec(b"v" * 10_000) for _ in range(10)])
    stream, offsets = consume(connector, name, 5)
    assert offsets == list(range(5))
    eventually(lambda: stream.reader.full, "a second batch waits")
    operator.delete_records(name, {0: 60})
    seen = [next(stream).offset for _ in range(55)]
    assert seen[:15] == list(range(5, 20)), "what was here"
    assert seen[-40:] == list(range(60, 100)), "and then what is left"
    assert connector.metrics().out_of_range_resets == 1


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_F9_offsets_that_were_deleted_while_the_group_was_down(kafka, consumers, topic, produce, reset):
    """As after their expiration: Kafka keeps them for a week after the last member has left."""
    name = topic()
    write(produce, name, 20)
    connector = consumers.connector()
    consume(connector, name, 10)
    connector.shutdown()
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        admin.delete_group_offsets(consumers.group, [PythonPartition(name, 0)])
    finally:
        admin.close()
    connector = consumers.connector(auto_offset_reset=reset)
    stream = connector.create_message_streams({name: 1})[name][0]
    if reset == "none":
        with pytest.raises(penstock.NoGroupOffset, match=consumers.group):
            next(stream)
        return
    first = 0 if reset == "earliest" else 20
    eventually(lambda: connector.position() == {tp(name): first}, "the rule's position")
    write(produce, name, 1)
    assert next(stream).offset == first
