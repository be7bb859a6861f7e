"""Ranges read one after the other in one process, as a Spark worker reads its micro-batches."""

import dataclasses
import itertools
import logging
import time

import pytest
from confluent_kafka import Producer
from kafka.protocol.consumer import FetchRequest

from fixtures.produce import Rec, log_ends, rdkafka, send
from penstock.config.source import parse_options
from penstock.planner.batch import plan_batch
from penstock.reader.leftover import LEFTOVERS
from penstock.testing import EmbeddedKafka
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.pool import POOL
from penstock.wire.transport.retry import Attempts
from support.reading import range_reader

RECORDS = [Rec(b"%d " % i + bytes(80)) for i in range(1000)]


@pytest.fixture(autouse=True)
def cold():
    LEFTOVERS.clear()
    POOL.close()
    yield
    LEFTOVERS.clear()


@pytest.fixture
def fetches(monkeypatch):
    """The fetch requests that went out, as they go."""
    sent = []
    honest = Connection.send

    def send_and_note(self, request, timeout):
        if request.name == FetchRequest.name:
            sent.append(FetchRequest.decode(request.body, version=request.version))
        return honest(self, request, timeout)

    monkeypatch.setattr(Connection, "send", send_and_note)
    return sent


def planned(cluster, topic, **more):
    options = parse_options(cluster.client_options() | {"subscribe": topic} | more)
    (r,) = plan_batch(options)
    return options, r


def cut(r, *edges):
    return [dataclasses.replace(r, start=a, stop=b) for a, b in itertools.pairwise(edges)]


def offsets(r, options, **more):
    reader = range_reader(r, ["offset"], options.client, **more)
    return [offset for batch in reader.prefetched() for offset in batch.column("offset").to_pylist()]


def test_fifty_small_ranges_take_one_request(topic, produce, kafka, fetches):
    name = topic()
    produce(name, RECORDS)
    options, r = planned(kafka, name)
    for part in cut(r, *range(0, 1001, 20)):
        assert offsets(part, options) == list(range(part.start, part.stop))
    assert len(fetches) == 1


def test_what_a_leftover_holds_is_read_without_a_broker(topic, produce, kafka, monkeypatch):
    name = topic()
    produce(name, RECORDS)
    options, r = planned(kafka, name)
    first, second = cut(r, 0, 20, 1000)
    offsets(first, options)
    POOL.close()
    monkeypatch.setattr(POOL, "acquire", None)  # a request for a connection fails
    nowhere = dataclasses.replace(second, host="127.0.0.1", port=1)
    assert offsets(nowhere, options) == list(range(20, 1000))


def test_records_that_came_later_follow_those_of_the_leftover(topic, produce, kafka, fetches):
    name = topic()
    produce(name, RECORDS[:100])
    options, r = planned(kafka, name)
    offsets(dataclasses.replace(r, stop=20), options)
    produce(name, RECORDS[100:200])
    options, r = planned(kafka, name)
    assert offsets(dataclasses.replace(r, start=20, stop=200), options) == list(range(20, 200))
    assert [request.topics[0].partitions[0].fetch_offset for request in fetches] == [0, 100]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_ranges_cut_inside_batches_of_every_codec(topic, produce, kafka, fetches, codec):
    name = topic()
    produce(name, RECORDS[:300], **{"compression.type": codec, "batch.num.messages": 50, "linger.ms": 100})
    options, r = planned(kafka, name)
    for step in (1, 7, 50, 99):
        LEFTOVERS.clear()
        fetches.clear()
        parts = cut(r, *range(0, 300, step), 300)
        assert [offsets(part, options) for part in parts] == [list(range(p.start, p.stop)) for p in parts]
        assert len(fetches) == 1


def test_transactions_across_one_another_cut_at_every_offset(topic, produce, kafka, fetches):
    """Two producers whose transactions overlap; each commits after it has aborted."""
    name = topic()
    config = rdkafka(kafka.client_options(prefix=""))
    left, right = (Producer(config | {"transactional.id": f"{name}-{side}"}) for side in "ab")
    committed = set()
    at = 0

    def write(producer, count, keep):
        nonlocal at
        send(producer, name, [Rec(b"%d" % (at + i)) for i in range(count)])
        assert producer.flush(60) == 0
        if keep:
            committed.update(range(at, at + count))
        at += count

    def end(producer, commit):
        """Over when its marker is written: a broker says so earlier, and the next writer may be quicker."""
        nonlocal at
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
        at += 1
        deadline = time.monotonic() + 60
        while log_ends(config, [(name, 0)]) != {(name, 0): at}:
            assert time.monotonic() < deadline, "the broker has written no marker"

    for producer in (left, right):
        producer.init_transactions(60)
    for left_keeps, right_keeps in [(False, True), (True, False), (False, False), (True, True), (False, True)]:
        left.begin_transaction()
        write(left, 3, left_keeps)
        right.begin_transaction()
        write(right, 2, right_keeps)
        write(left, 1, left_keeps)
        end(left, left_keeps)
        produce(name, [Rec(b"plain")])
        committed.add(at)
        at += 1
        write(right, 1, right_keeps)
        end(right, right_keeps)
    options = parse_options(kafka.client_options() | {"subscribe": name, "kafka.isolation.level": "read_committed"})
    deadline = time.monotonic() + 60
    while [r.stop for r in plan_batch(options)] != [at]:  # the last marker follows a moment later
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (r,) = plan_batch(options)
    for first, second in itertools.combinations(range(1, at), 2):
        LEFTOVERS.clear()
        fetches.clear()
        parts = cut(r, 0, first, second, at)
        found = [offset for part in parts for offset in offsets_here(part, options)]
        assert found == sorted(committed), (first, second)
        assert len(fetches) == 1


def offsets_here(r, options):
    """Without a thread of its own, for reading a thousand ranges."""
    reader = range_reader(r, ["offset"], options.client)
    return [offset for batch in reader for offset in batch.column("offset").to_pylist()]


def test_F27_a_leftover_is_not_read_as_records_of_a_new_topic_of_that_name(topic, produce, kafka):
    name = topic()
    produce(name, RECORDS[:100])
    options, r = planned(kafka, name)
    offsets(dataclasses.replace(r, stop=20), options)
    assert LEFTOVERS.kept_bytes > 0
    kafka.delete_topic(name)
    kafka.create_topic(name)
    produce(name, [Rec(b"another %d" % i) for i in range(100)])
    options, r = planned(kafka, name)
    reader = range_reader(dataclasses.replace(r, start=20), ["value"], options.client)
    assert [v for batch in reader for v in batch.column("value").to_pylist()] == [
        b"another %d" % i for i in range(20, 100)
    ]


def test_F16_a_kept_connection_that_breaks_unseen_costs_no_pause_and_no_warning(
    topic, produce, kafka, proxy, monkeypatch, caplog
):
    """The broker's machine was rebooted: the connection looks open until it is used."""
    name = topic()
    produce(name, RECORDS)
    options, r = planned(kafka, name)
    cutting = []

    def cut_when_told(piece):
        return None if cutting and cutting.pop() else piece

    hint = {"host": "127.0.0.1", "port": proxy(cut_when_told).port}
    first, second = (dataclasses.replace(part, **hint) for part in cut(r, 0, 20, 1000))
    offsets(first, options)
    LEFTOVERS.clear()
    pauses = []
    monkeypatch.setattr(Attempts, "back_off", lambda self: pauses.append(self.what))
    cutting.append(True)
    with caplog.at_level(logging.WARNING):
        assert offsets(second, options) == list(range(20, 1000))
    assert not cutting, "the second read never came by"
    assert (pauses, caplog.text) == ([], "")


# --- a broker of our own, to restart --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_kafka():
    with EmbeddedKafka() as cluster:
        yield cluster


@pytest.mark.parametrize("how", ["stop_node", "kill_node"])
def test_F16_a_broker_restarted_between_two_ranges_costs_no_pause_and_no_warning(
    own_kafka, fetches, monkeypatch, caplog, how
):
    name = f"restarted-by-{how}"
    own_kafka.create_topic(name)
    producer = Producer(rdkafka(own_kafka.client_options(prefix="")))
    send(producer, name, RECORDS)
    assert producer.flush(60) == 0
    options, r = planned(own_kafka, name)
    first, second = cut(r, 0, 20, 1000)
    offsets(first, options)
    assert LEFTOVERS.kept_bytes > 0
    getattr(own_kafka, how)(1)
    own_kafka.restart_node(1)
    options, after = planned(own_kafka, name)
    assert after.leader_epoch > r.leader_epoch
    pauses = []
    monkeypatch.setattr(Attempts, "back_off", lambda self: pauses.append(self.what) or time.sleep(0.1))
    fetches.clear()
    with caplog.at_level(logging.WARNING):
        assert offsets(dataclasses.replace(after, start=20), options) == list(range(20, 1000))
        assert len(fetches) == 1, "the leftover left under another epoch is not to be trusted"
        # Planned before: the epoch is not the leader's any more, but no record of it is lost.
        assert offsets(second, options) == list(range(20, 1000))
    assert (pauses, caplog.text) == ([], "")
