"""A connector against a real broker: streams, offsets, seek and pause, shutdown."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import penstock
from fixtures.cluster import cluster_of
from fixtures.consumer import Consumers, Reading, eventually
from fixtures.produce import Rec
from fixtures.stream import tp
from penstock import ConsumerTimeout, OptionError, TopicPartition
from penstock.model.topic_partition import TopicPartition as Partition


def write(produce, topic, partitions=1, count=100, **more):
    produce(topic, [Rec(b"%d" % n, b"k%d" % n, partition=n % partitions, **more) for n in range(count)])


def wanted(topic, partitions, count):
    return {(topic, p, offset) for p in range(partitions) for offset in range(count // partitions)}


def offsets(stream):
    """The records that arrive before the time-out."""
    found = []
    with contextlib.suppress(ConsumerTimeout):
        for message in stream:
            found.append(message.offset)
    return found


def committed(kafka, group, topic, partitions=1):
    return cluster_of(kafka).committed(group, [tp(topic, p) for p in range(partitions)])


def test_H1_the_consumer_id_is_group_host_time_and_hex_or_the_configured_one(consumers):
    made = consumers.connector().consumer_id
    group, _, rest = made.partition("_")
    assert group == consumers.group
    host, stamp, digits = rest.rsplit("-", 2)
    assert host
    assert abs(int(stamp) / 1000 - time.time()) < 60
    assert len(bytes.fromhex(digits)) == 4
    assert consumers.connector(consumer_id="me").consumer_id == f"{consumers.group}_me"


@pytest.mark.parametrize("by", ["messages", "batches"])
def test_H2_every_record_of_a_topic_comes_once_over_its_streams(consumers, topic, produce, by):
    name = topic(partitions=4)
    write(produce, name, 4, 4000)
    reading = consumers.reading(name, 2, by)
    eventually(lambda: reading.count() == 4000, "all records")
    assert reading.records().keys() == wanted(name, 4, 4000)
    for seen in reading.seen:
        partitions = {partition for _, partition, _ in seen}
        assert len(partitions) == 2, "streams share the partitions"
        for partition in partitions:
            offsets = [offset for _, p, offset in seen if p == partition]
            assert offsets == sorted(offsets)


def test_H2_a_second_call_and_no_streams_are_errors(consumers, topic):
    name = topic()
    connector = consumers.connector()
    with pytest.raises(OptionError, match="from 1 to 1000"):
        connector.create_message_streams({name: 0})
    connector.create_message_streams({name: 1})
    with pytest.raises(penstock.MessageStreamsExist, match="once"):
        connector.create_message_streams({name: 1})
    with pytest.raises(penstock.MessageStreamsExist, match="once"):
        connector.create_message_streams_by_filter(".*")


def test_common_mistakes_are_explained_in_the_users_words(consumers, topic):
    name = topic()
    with pytest.raises(OptionError, match=r"bootstrap\.servers"):
        penstock.ConsumerConnector("localhost:9092")
    connector = consumers.connector()
    for wrong in ([name], name):
        with pytest.raises(OptionError, match="streams per topic"):
            connector.create_message_streams(wrong)
    with pytest.raises(OptionError, match="AllowTopics"):
        connector.create_message_streams_by_filter(None)
    with pytest.raises(OptionError, match="value_decoder = 'json': must be a function of bytes"):
        connector.create_message_streams({name: 1}, value_decoder="json")
    connector.create_message_streams({name: 1})
    for call in (connector.pause, connector.resume, lambda names: connector.commit_offsets(dict.fromkeys(names, 1))):
        with pytest.raises(TypeError, match="not a partition"):
            call([name])
    here = TopicPartition(name, 0)
    for wrong in (-1, 2**63, 1.5, "1", None):
        for call in (connector.commit_offsets, connector.seek):
            eventually(connector.assignment, "the partition has come")
            with pytest.raises(ValueError, match=f"is not an offset of {here}: an offset is a whole number"):
                call({here: wrong})
    row = pa.array([0]).to_numpy()[0]  # a row of pandas has such numbers
    connector.commit_offsets({(name, row): row})
    connector.shutdown()
    with pytest.raises(penstock.CommitRefused, match="shut down"):
        connector.commit_offsets()


def test_H16_the_metrics_say_what_happened(consumers, topic, produce):
    from prometheus_client import CollectorRegistry, generate_latest

    name = topic(partitions=2)
    write(produce, name, 2, 100)
    reading = consumers.reading(name, 1)
    registry = CollectorRegistry()
    reading.connector.register_prometheus(registry)
    eventually(lambda: reading.count() == 100, "all records")
    eventually(lambda: reading.connector.metrics().commits_succeeded, "a commit")
    eventually(lambda: reading.connector.metrics().messages == 100, "counted when a batch is used up")
    found = reading.connector.metrics()
    assert (found.messages, found.rebalances, found.lag) == (100, 1, 0)
    assert found.last_rebalance_seconds is not None
    assert found.fetches.count == found.fetch_requests > 0
    assert 0 < found.fetches.slowest < 60
    assert (found.open_connections > 0, found.throttle_seconds) == (True, 0)
    assert found.joins.count >= 1
    assert found.syncs.count == 1
    eventually(lambda: reading.connector.metrics().heartbeats.count, "a heartbeat")
    assert reading.connector.metrics().since_heartbeat < 60
    assert {p.partition: p.current_offset for p in found.partitions} == {0: 50, 1: 50}
    assert consumers.group.encode() in generate_latest(registry)
    reading.connector.shutdown()
    assert consumers.group.encode() not in generate_latest(registry)


def test_a_message_has_everything_a_record_has(consumers, topic, produce):
    name = topic()
    stamp = int(time.time() * 1000)
    produce(name, [Rec(b'{"n": 1}', b"k", [("h", b"x"), ("h", None)], stamp), Rec(None, None, timestamp=stamp)])
    connector = consumers.connector()
    stream = connector.create_message_streams({name: 1}, bytes.decode, json.loads)[name][0]
    first, second = next(stream), next(stream)
    assert (first.topic, first.partition, first.offset, first.timestamp) == (name, 0, 0, stamp)
    assert (first.key, first.value) == ("k", {"n": 1})
    assert list(first.headers) == [("h", b"x"), ("h", None)]
    assert (second.key, second.value, list(second.headers)) == (None, None, [])


def test_H3_streams_by_filter_include_new_topics(kafka, consumers, produce):
    mine = consumers.group
    for name in (f"{mine}-a", f"{mine}-b", f"{mine}-not"):
        kafka.create_topic(name, 2)
        write(produce, name, 2, 10)
    connector = consumers.connector(exclude_internal_topics=True)
    streams = connector.create_message_streams_by_filter(penstock.AllowTopics(rf"{mine}-(a|b|late)"), 2)
    reading = Reading(connector, streams)
    consumers.readings.append(reading)
    eventually(lambda: reading.count() == 20, "both topics")
    kafka.create_topic(f"{mine}-late", 1)
    write(produce, f"{mine}-late", 1, 7)
    eventually(lambda: reading.count() == 27, "the topic that came later")
    assert {record[0] for record in reading.records()} == {f"{mine}-a", f"{mine}-b", f"{mine}-late"}
    assert max(reading.records().values()) == 1


def test_H14_a_stream_times_out_and_continues(consumers, topic, produce):
    name = topic()
    connector = consumers.connector(consumer_timeout_ms=300)
    stream = connector.create_message_streams({name: 1})[name][0]

    def reason():
        with pytest.raises(ConsumerTimeout) as caught:
            next(stream)
        return caught.value.reason

    eventually(lambda: reason().startswith(f"{name}-0 has no new records"), "the error says why")
    write(produce, name, 1, 3)
    seen = []
    eventually(lambda: seen.extend(offsets(stream)) or len(seen) == 3, "what was written meanwhile")
    assert seen == [0, 1, 2]
    assert connector.position() == {tp(name): 3}


def test_H14_a_timeout_names_a_topic_that_does_not_exist_and_a_consumer_without_partitions(consumers, topic):
    def reason(stream):
        try:
            next(stream)
        except ConsumerTimeout as error:
            return error.reason
        return ""

    missing = f"{consumers.group}-missing"
    nothing = consumers.connector(group_id=f"{consumers.group}-2", consumer_timeout_ms=300)
    stream = nothing.create_message_streams({missing: 1})[missing][0]
    eventually(lambda: reason(stream).startswith(f"topic {missing!r} does not exist"), "the unknown topic")
    name = topic()
    streams = [
        consumers.connector(consumer_timeout_ms=300).create_message_streams({name: 1})[name][0] for _ in range(2)
    ]
    eventually(
        lambda: any(reason(each).startswith("no partition is assigned to this consumer") for each in streams),
        "more members than partitions",
    )


def test_H15_consumed_offsets_are_committed_and_not_fetched_ones(kafka, consumers, topic, produce):
    name = topic()
    write(produce, name, 1, 1000)
    connector = consumers.connector()
    stream = connector.create_message_streams({name: 1})[name][0]
    for _ in range(10):
        next(stream)
    eventually(lambda: committed(kafka, consumers.group, name)[tp(name)] == 10, "the interval's commit")
    next(stream)
    connector.commit_offsets()
    assert committed(kafka, consumers.group, name) == {tp(name): 11}
    for _ in range(4):
        next(stream)
    connector.shutdown()
    assert committed(kafka, consumers.group, name) == {tp(name): 15}, "at shutdown too"
    again = consumers.connector()
    assert next(again.create_message_streams({name: 1})[name][0]).offset == 15


def test_H15_without_auto_commit_only_explicit_commits_count(kafka, consumers, topic, produce):
    name = topic()
    write(produce, name, 1, 100)
    connector = consumers.connector(enable_auto_commit=False)
    stream = connector.create_message_streams({name: 1})[name][0]
    for _ in range(10):
        next(stream)
    connector.commit_offsets({tp(name): 4})
    connector.shutdown()
    assert committed(kafka, consumers.group, name) == {tp(name): 4}


def test_positions_seek_pause_and_resume(consumers, topic, produce):
    name = topic(partitions=2)
    write(produce, name, 2, 200)
    # The time-out is longer than a broker holds back an empty answer: a seek takes effect only after that.
    connector = consumers.connector(consumer_timeout_ms=1000, fetch_max_wait_ms=100, enable_auto_commit=False)
    stream = connector.create_message_streams({name: 1})[name][0]
    eventually(lambda: len(connector.position()) == 2, "both starts are known")
    assert connector.position() == {tp(name, 0): 0, tp(name, 1): 0}
    assert set(connector.assignment().values()) == {stream.thread_id}

    def drain(count):
        """At least this many records, however slowly they arrive, and further ones before a time-out."""
        seen = []

        def read():
            with contextlib.suppress(ConsumerTimeout):
                for message in stream:
                    seen.append((message.partition, message.offset))
            return len(seen) >= count

        eventually(read, f"{count} records")
        return seen

    connector.pause([tp(name, 1)])
    assert connector.paused() == [tp(name, 1)]
    assert drain(100) == [(0, offset) for offset in range(100)]
    connector.resume([tp(name, 1)])
    assert drain(100) == [(1, offset) for offset in range(100)]
    connector.seek({tp(name, 0): 97, tp(name, 1): 99})
    assert connector.position() == {tp(name, 0): 97, tp(name, 1): 99}
    assert sorted(drain(4)) == [(0, 97), (0, 98), (0, 99), (1, 99)]
    assert connector.lag() == {tp(name, 0): 0, tp(name, 1): 0}
    with pytest.raises(ValueError, match="not assigned"):
        connector.seek({tp(name, 7): 0})
    with pytest.raises(ValueError, match="not an offset"):
        connector.seek({tp(name, 0): -1})


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", 0),
        ("latest", 10),
        (datetime.fromtimestamp(1500, UTC), 5),
        ({("?", 0): 7}, 7),
        ("group", 3),
        (None, 3),
    ],
    ids=["earliest", "latest", "timestamp", "offsets", "group", "default"],
)
def test_F6_a_group_that_starts_as_a_whole_starts_at_the_given_start(kafka, consumers, topic, produce, start, first):
    name = topic()
    produce(name, [Rec(b"%d" % n, timestamp=(1000 + 100 * n) * 1000) for n in range(10)])
    cluster_of(kafka).commit(consumers.group, {tp(name): 3})
    if isinstance(start, dict):
        start = {Partition(name, 0): 7}
    connector = consumers.connector(start)
    stream = connector.create_message_streams({name: 1})[name][0]
    eventually(lambda: connector.position(), "a position")
    assert connector.position() == {tp(name): first}
    if first == 10:
        produce(name, [Rec(b"new")])
    assert next(stream).offset == first
    if start not in ("group", None):
        connector.shutdown()
        again = consumers.connector(start)
        again.create_message_streams({name: 1})
        eventually(lambda: again.position(), "a position")
        assert again.position() == {tp(name): 11 if start == "latest" else first}, (
            "with `start` again, it starts there again"
        )


def test_F9_without_a_group_offset_and_with_reset_none_the_stream_raises(consumers, topic, produce):
    name = topic()
    write(produce, name, 1, 10)
    connector = consumers.connector(auto_offset_reset="none")
    stream = connector.create_message_streams({name: 1})[name][0]
    with pytest.raises(penstock.NoGroupOffset, match=consumers.group):
        next(stream)
    connector.seek({tp(name): 4})
    assert next(stream).offset == 4


def test_asyncio_reads_a_stream_through_a_thin_wrapper(consumers, topic, produce):
    name = topic()
    write(produce, name, 1, 500)
    connector = consumers.connector()
    stream = connector.create_message_streams({name: 1})[name][0]

    async def read():
        offsets = []
        async for message in penstock.AsyncStream(stream):
            offsets.append(message.offset)
            if len(offsets) == 300:
                break
        rows = 0
        async for batch in penstock.AsyncStream(stream).batches(["value"]):
            rows += batch.num_rows
            if rows == 200:
                break
        return offsets, rows

    assert asyncio.run(asyncio.wait_for(read(), 60)) == (list(range(300)), 200)


# --- the end ----------------------------------------------------------------------------------------------------------


def test_shutdown_leaves_no_thread_and_no_socket_whatever_the_streams_do(kafka, topic, produce, left):
    name = topic(partitions=3)
    write(produce, name, 3, 3000)
    consumers = Consumers(kafka)
    blocked = consumers.reading(name, 2)
    abandoned = Consumers(kafka).connector()  # a group of its own: the one above may have read everything already
    stream = abandoned.create_message_streams({name: 1})[name][0]
    next(stream)
    never_read = consumers.connector()
    never_read.create_message_streams({name: 2})
    unused = consumers.connector()
    assert left.threads()
    threading.Thread(target=abandoned.shutdown).start()
    for connector in (blocked.connector, never_read, unused):
        connector.shutdown()
        connector.shutdown()
    blocked.join()
    abandoned.shutdown()
    assert list(stream) == []
    assert not blocked.errors
    left.nothing()


PROGRAM = """
import signal, sys, threading, time
import penstock
connector = penstock.ConsumerConnector({config!r})
if {how!r} == "handler":
    signal.signal(signal.SIGTERM, lambda *_: connector.shutdown())
stream = connector.create_message_streams({{{topic!r}: 1}})[{topic!r}][0]
try:
    for message in stream:
        if message.offset == 9:
            print("ten", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
if {how!r} != "exit":
    connector.shutdown()
    left = [t.name for t in threading.enumerate() if t.name.startswith("penstock") and "idle" not in t.name]
    print("left", left, flush=True)
"""


@pytest.mark.parametrize(
    ("how", "number"), [("handler", signal.SIGTERM), ("interrupt", signal.SIGINT), ("exit", signal.SIGINT)]
)
def test_a_signal_ends_a_blocked_reader_and_what_was_consumed_is_committed(
    kafka, consumers, topic, produce, how, number
):
    name = topic()
    write(produce, name, 1, 10)
    config = {"group.id": consumers.group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 600_000}
    config |= kafka.client_options(prefix="")
    program = PROGRAM.format(config=config, how=how, topic=name)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ten\n"
        time.sleep(0.3)  # it is blocked in the stream then, most likely
        os.kill(process.pid, number)
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0
    if how != "exit":
        assert output.splitlines()[-1] == "left []"
    assert committed(kafka, consumers.group, name) == {tp(name): 10}


def test_H17_no_broker_at_the_start_is_not_fatal(consumers, caplog):
    connector = consumers.connector(bootstrap_servers="127.0.0.1:1", consumer_timeout_ms=500)
    stream = connector.create_message_streams({"t": 1})["t"][0]

    def named():
        with pytest.raises(ConsumerTimeout) as caught:
            next(stream)
        return "127.0.0.1:1" in caught.value.reason and "Check bootstrap.servers" in str(caught.value)

    eventually(named, "the error names the broker")
    eventually(lambda: "127.0.0.1:1" in caplog.text, "it is logged")
    connector.shutdown()


def test_names(consumers):
    assert penstock.TopicPartition is TopicPartition is Partition
