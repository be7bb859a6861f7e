"""Share streams against a real broker: what is delivered, how often, and what the broker counts (Q1 to Q6)."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fixtures.consumer import eventually
from fixtures.produce import Rec
from fixtures.share import rest, taken
from penstock import AcknowledgementRefused, BrokerError, ConsumerConnector, ConsumerTimeout, TopicPartition
from penstock.errors import MessageStreamsExist, OptionError

EXPLICIT = {"share_acknowledgement_mode": "explicit"}


def numbered(count, partitions=1):
    return [Rec(b"%d" % i, b"k%d" % i, [("h", b"%d" % i)], 1000 + i, partition=i % partitions) for i in range(count)]


def test_Q1_and_Q2_four_streams_get_each_record_once_and_the_broker_counts_all_as_processed(share, topic, produce):
    name = topic(partitions=2)
    produce(name, numbered(3000, 2))
    connector = share.connector(max_poll_records=100)
    streams = connector.create_share_streams({name: 4})[name]
    seen = Counter()
    lock = threading.Lock()

    def read(stream):
        for batch in stream.batches(["partition", "offset", "value", "deliveryCount"]):
            with lock:
                for row in batch.to_pylist():
                    seen[row["partition"], row["offset"], row["deliveryCount"]] += 1

    threads = [threading.Thread(target=read, args=[stream]) for stream in streams]
    for thread in threads:
        thread.start()
    eventually(lambda: sum(seen.values()) >= 3000, "every record")
    for stream in streams:
        assert not any(stream.commit().values())
    assert set(share.lag().values()) == {0}
    assert connector.assignment().keys() == {TopicPartition(name, 0), TopicPartition(name, 1)}
    metrics = connector.metrics()
    assert metrics.messages == 3000
    assert metrics.commits_succeeded > 0
    assert metrics.heartbeats.count > 0
    connector.shutdown()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert seen == Counter({(partition, offset, 1): 1 for partition in range(2) for offset in range(1500)})


def test_Q3_accept_release_and_reject_by_message(share, topic, produce, left):
    name = topic()
    produce(name, numbered(5))
    stream = share.stream(name, **EXPLICIT)
    first = taken(stream, 5)
    assert [(m.topic, m.partition, m.offset, m.delivery_count) for m in first] == [(name, 0, i, 1) for i in range(5)]
    message = first[3]
    assert (message.key, message.value, message.timestamp, message.headers) == (b"k3", b"3", 1003, [("h", b"3")])
    stream.accept(first[0])
    stream.release(first[1])
    stream.reject(first[2])
    stream.accept(first[3])
    stream.release(first[3])
    assert stream.commit() == {TopicPartition(name, 0): None}
    again = taken(stream, 2)
    assert [(m.offset, m.delivery_count) for m in again] == [(1, 2), (3, 2)]
    for message in again:
        stream.accept(message)
    with pytest.raises(AcknowledgementRefused, match="nothing was acknowledged: a record is acknowledged already"):
        stream.accept(first[0])
    assert stream.commit() == {TopicPartition(name, 0): None}
    assert share.lag() == {(name, 0): 1}, "one record is not acknowledged"
    share.made[-1].shutdown()
    left.nothing()
    # It was handed out, so it is released, and its delivery counts.
    stream = share.stream(name)
    assert [(m.offset, m.delivery_count) for m in taken(stream, 1)] == [(4, 2)]
    stream.commit()
    eventually(lambda: share.lag() == {(name, 0): 0}, "nothing left")


def test_Q3_batches_are_acknowledged_as_a_whole_or_by_rows(share, topic, produce):
    name = topic()
    produce(name, numbered(10))
    stream = share.stream(name, **EXPLICIT)
    batches = stream.batches(["value"])
    batch = next(batches)
    assert (batch.topic, batch.partition, batch.delivery_count, len(batch)) == (name, 0, 1, 10)
    assert pa.record_batch(batch).schema.names == ["value"]
    stream.release(batch, rows=[1, 3])
    stream.reject(batch, rows=pc.equal(batch["value"], b"5"))
    stream.accept(batch, rows=[0, 2, 4, 6, 7, 8, 9])
    again = next(batches)
    assert again["value"].to_pylist() == [b"1", b"3"]
    assert again.delivery_count == 2
    stream.accept(again)
    assert stream.commit() == {TopicPartition(name, 0): None}
    assert share.lag() == {(name, 0): 0}
    with pytest.raises(AcknowledgementRefused):
        stream.release(batch, rows=[0])


def test_Q2_implicit_mode_accepts_what_came_before(share, topic, produce):
    name = topic()
    produce(name, numbered(6))
    stream = share.stream(name)
    messages = iter(stream)
    for _ in range(4):
        message = next(messages)
    stream.release(message)  # an own decision counts
    next(messages)
    share.made[-1].shutdown()  # the last message was in work; one was acquired, which counts, and not handed out
    stream = share.stream(name)
    found = taken(stream, 3)
    assert sorted((m.offset, m.delivery_count) for m in found) == [(3, 2), (4, 2), (5, 2)]
    assert stream.commit() == {TopicPartition(name, 0): None}
    assert share.lag() == {(name, 0): 0}


def test_Q5_wrong_uses_are_errors_with_a_hint(share, topic, kafka):
    options = kafka.client_options(prefix="") | {"group.id": share.group}
    for settings, said in (
        ({"auto.offset.reset": "earliest"}, "share.auto.offset.reset"),
        ({"enable.auto.commit": "true"}, "share.acknowledgement.mode"),
        ({"group.protocol": "consumer"}, "protocol of its own"),
        ({"group.instance.id": "a"}, "static"),
    ):
        with ConsumerConnector(options | settings) as connector, pytest.raises(OptionError, match=said):
            connector.create_share_streams({"t": 1})
    with ConsumerConnector(options, start="earliest") as connector, pytest.raises(OptionError, match=r"share\.auto"):
        connector.create_share_streams({"t": 1})
    without_group = {name: value for name, value in options.items() if name != "group.id"}
    with ConsumerConnector(without_group) as connector, pytest.raises(OptionError, match=r"group\.id"):
        connector.create_share_streams({"t": 1})
    name = topic()
    stream = share.stream(name)
    connector = share.made[-1]
    for call in (connector.commit_offsets, lambda: connector.seek({}), lambda: connector.pause([])):
        with pytest.raises(RuntimeError, match="share group has no positions"):
            call()
    with pytest.raises(MessageStreamsExist):
        connector.create_message_streams({name: 1})
    with pytest.raises(TypeError, match="a bytes cannot be acknowledged"):
        stream.accept(b"1")
    with pytest.raises(OptionError, match="columns"):
        next(stream.batches("value"))
    with pytest.raises(OptionError, match="twice"):
        next(stream.batches(["deliveryCount", "deliveryCount"]))
    stream.timeout = 0.5
    with pytest.raises(ConsumerTimeout, match="share"):
        next(stream)


@pytest.mark.extended
def test_Q5_a_group_of_another_kind_is_an_error_in_the_stream(share, consumers, topic, produce):
    name = topic()
    produce(name, numbered(1))
    reading = consumers.reading(name, group_protocol="consumer")
    eventually(reading.count, "a record")
    stream = share.stream(name, group_id=consumers.group)
    with pytest.raises(BrokerError, match="is not a share group"):
        next(stream)


@pytest.mark.extended
def test_Q4_a_record_whose_lock_ends_comes_again(share, topic, produce):
    share.configure(share_record_lock_duration_ms=1000)
    name = topic()
    produce(name, numbered(3))
    stream = share.stream(name, **EXPLICIT)
    first = taken(stream, 3)
    again = taken(stream, 3)
    with pytest.raises(AcknowledgementRefused, match="its lock has ended"):
        stream.accept(first[0])
    assert [(m.offset, m.delivery_count) for m in again] == [(i, 2) for i in range(3)]
    for message in again:
        stream.accept(message)
    assert stream.commit() == {TopicPartition(name, 0): None}
    assert share.lag() == {(name, 0): 0}


@pytest.mark.extended
def test_Q4_an_acknowledgement_that_comes_too_late_is_an_error_of_the_commit(share, topic, produce):
    """Another member has acquired the record: only the broker knows."""
    share.configure(share_record_lock_duration_ms=1000)
    name = topic()
    produce(name, numbered(1))
    late = share.stream(name, **EXPLICIT)
    [message] = taken(late, 1)
    other = share.stream(name, **EXPLICIT)
    late.reader.queue._bound = 0  # it acquires nothing more
    [again] = taken(other, 1)
    assert (again.offset, again.delivery_count) == (0, 2)
    late.accept(message)
    error = late.commit()[TopicPartition(name, 0)]
    assert isinstance(error, BrokerError)
    assert "share.record.lock.duration.ms" in str(error)
    other.accept(again)
    assert other.commit() == {TopicPartition(name, 0): None}
    assert share.lag() == {(name, 0): 0}


@pytest.mark.extended
def test_Q3_a_renewed_lock_lasts(share, topic, produce):
    share.configure(share_record_lock_duration_ms=1000)
    name = topic()
    produce(name, numbered(2))
    stream = share.stream(name, **EXPLICIT)
    first = taken(stream, 2)
    for _ in range(5):
        stream.renew(first[0])
        time.sleep(0.5)
    stream.accept(first[0])
    assert stream.commit() == {TopicPartition(name, 0): None}
    assert [(m.offset, m.delivery_count) for m in taken(stream, 1)] == [(1, 3)]


@pytest.mark.extended
def test_Q4_a_record_is_delivered_up_to_the_limit(share, topic, produce):
    share.configure(share_delivery_count_limit=3)
    name = topic()
    produce(name, numbered(2))
    stream = share.stream(name, **EXPLICIT)
    counts = []
    for message in stream:
        counts.append((message.offset, message.delivery_count))
        if message.offset == 0:
            stream.release(message)
        elif message.offset == 1:
            stream.accept(message)
        if len(counts) == 4:
            break
    assert sorted(counts) == [(0, 1), (0, 2), (0, 3), (1, 1)]
    stream.commit()
    assert rest(stream) == []
    assert share.lag() == {(name, 0): 0}, "the broker has archived it"


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["batch_optimized", "record_limit"])
def test_Q1_the_acquire_mode_decides_whether_the_limit_holds(share, topic, produce, mode):
    name = topic()
    produce(name, numbered(50))  # one record batch
    stream = share.stream(name, share_acquire_mode=mode, max_poll_records=10)
    sizes = []
    for batch in stream.batches(["offset"]):
        sizes.append(len(batch))
        if sum(sizes) == 50:
            break
    assert max(sizes) == (10 if mode == "record_limit" else 50)
    assert stream.commit() == {TopicPartition(name, 0): None}
    assert share.lag() == {(name, 0): 0}


@pytest.mark.extended
def test_Q3_part_of_a_record_batch_is_delivered_to_each_member(share, topic, produce):
    """The bytes of a fetch hold records of other members: only acquired ones come."""
    name = topic()
    produce(name, numbered(40))
    settings = {**EXPLICIT, "share_acquire_mode": "record_limit", "max_poll_records": 10}
    first = share.stream(name, **settings)
    mine = next(first.batches(["offset"]))
    second = share.stream(name, **settings)
    theirs = next(second.batches(["offset"]))
    assert not set(mine["offset"].to_pylist()) & set(theirs["offset"].to_pylist())
    first.release(mine, rows=slice(0, None, 2))
    first.accept(mine, rows=slice(1, None, 2))
    second.accept(theirs)
    seen = Counter(mine["offset"].to_pylist()[1::2] + theirs["offset"].to_pylist())
    while seen.total() < 40:
        for stream in (first, second):
            for message in rest(stream, 0.3):
                stream.accept(message)
                seen[message.offset] += 1
            assert not any(stream.commit().values())
    assert seen == Counter(range(40))
    assert share.lag() == {(name, 0): 0}


@pytest.mark.extended
def test_Q3_gaps_of_compaction_and_markers_are_acknowledged(share, topic, produce, kafka):
    from confluent_kafka import Producer

    name = topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"tx-{name}"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(name, b"%d" % number)
        producer.flush(30)  # an abort drops what is not sent
        end(30)
    stream = share.stream(name)
    assert [m.offset for m in taken(stream, 9)] == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    assert stream.commit() == {TopicPartition(name, 0): None}
    assert rest(stream) == []
    assert share.lag() == {(name, 0): 0}, "the markers are processed, too"


@pytest.mark.extended
def test_the_group_decides_about_open_and_aborted_transactions(share, topic, kafka):
    from confluent_kafka import Producer

    share.configure(share_isolation_level="read_committed")
    name = topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"tx-{name}"})
    producer.init_transactions(30)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(name, b"%d" % number)
        producer.flush(30)  # an abort drops what is not sent
        end(30)
    stream = share.stream(name)
    assert [m.offset for m in taken(stream, 3)] == [4, 5, 6]
    stream.commit()
    assert rest(stream) == []
    assert share.lag() == {(name, 0): 0}


@pytest.mark.extended
def test_where_and_typed_columns(share, topic, produce):
    name = topic()
    produce(name, [Rec(b'{"user": "u%d", "seconds": %d}' % (i % 3, i)) for i in range(30)])
    formats = {"valueFormat": "json", "valueSchema": "user STRING, seconds INT", "flatten": "true"}
    connector = share.connector(**EXPLICIT)
    connector.shutdown()
    config = {"group.id": share.group, **share.kafka.client_options(prefix=""), **formats}
    with ConsumerConnector(config | {"consumer.timeout.ms": 60_000, "share.acknowledgement.mode": "explicit"}) as one:
        [stream] = one.create_share_streams({name: 1})[name]
        batch = next(stream.batches(["user", "deliveryCount"], where="seconds >= 20"))
        assert batch.schema.names == ["user", "deliveryCount"]
        assert len(batch) == 10
        stream.commit()
        assert share.lag() == {(name, 0): 10}, "rows that do not meet the predicate are accepted"
        stream.release(batch, rows=[0])
        stream.accept(batch, rows=range(1, 10))
        again = next(stream.batches())
        assert again["seconds"].to_pylist() == [20]
        assert again["deliveryCount"].to_pylist() == [2]
        stream.accept(again)
        stream.commit()
    assert share.lag() == {(name, 0): 0}
