"""The streamer against a real broker: killed processes, failing sinks, changing members."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer

from chaos.processes import Program
from fixtures.cluster import cluster_of
from fixtures.consumer import QUICK, WAIT, eventually, quick
from fixtures.postgres import PostgresServer
from fixtures.produce import Rec, rdkafka, send
from penstock import (
    AdbcSink,
    ConsumerConnector,
    DeadLetterTopic,
    ParquetSink,
    RowsRefused,
    Streamer,
    TopicPartition,
    UnknownTopic,
)
from penstock._kernel import COLUMNS
from penstock.wire.cluster import Cluster
from support import streamer_program

PROGRAM = Path(streamer_program.__file__)


@pytest.fixture
def config(kafka):
    return {"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"g-{uuid.uuid4().hex[:8]}", **QUICK}


def numbered(count, partitions, start=0):
    return [
        Rec(b"%d" % n, b"k", partition=n % partitions, timestamp=1_738_324_800_000 + n) for n in range(start, count)
    ]


def lag(cluster: Cluster, group: str, topic: str, partitions: int) -> int:
    tps = [TopicPartition(topic, partition) for partition in range(partitions)]
    committed, end = cluster.committed(group, tps), cluster.end(tps)
    return sum(end[tp] - (committed[tp] or 0) for tp in tps)


def streamed(topic, threads, extractor, sink, config, **more):
    with Streamer(topic, threads, extractor, sink, config=config, until_end=True, **more) as streamer:
        assert streamer.wait(WAIT)
        return streamer.metrics()


# --- to the end -----------------------------------------------------------------------------------------------------


def test_a_topic_becomes_a_parquet_dataset_and_the_group_has_no_lag(topic, produce, config, cluster, tmp_path, left):
    name = topic(5)
    produce(name, numbered(3000, 5), **{"compression.type": "lz4"})
    metrics = streamed(name, 3, None, ParquetSink(tmp_path, partition_by=["date"]), config)
    rows = (
        ds.dataset(tmp_path, partitioning="hive")
        .to_table()
        .sort_by([("partition", "ascending"), ("offset", "ascending")])
    )
    assert Counter(rows.column("value").to_pylist()) == Counter(b"%d" % n for n in range(3000))
    assert rows.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "date"]
    assert {str(day) for day in rows.column("date").to_pylist()} == {"2025-01-31"}
    assert (metrics.records, metrics.rows, metrics.failed) == (3000, 3000, 0)
    assert lag(cluster, config["group.id"], name, 5) == 0

    produce(name, numbered(3100, 5, start=3000))
    assert streamed(name, 3, None, ParquetSink(tmp_path, partition_by=["date"]), config).records == 100
    assert ds.dataset(tmp_path, partitioning="hive").count_rows() == 3100
    left.nothing()


def test_F28_records_that_do_not_meet_a_predicate_are_committed_and_not_written(topic, produce, config, cluster):
    name = topic(2)
    produce(name, numbered(1000, 2))
    rows = []
    metrics = streamed(
        name, 2, None, lambda table: rows.extend(table["value"].to_pylist()), config, where="value = '7'"
    )
    assert (rows, metrics.records) == ([b"7"], 1)
    assert lag(cluster, config["group.id"], name, 2) == 0


def test_the_end_is_reached_at_a_transaction_marker(topic, transaction, config, cluster, kafka):
    """The last offsets of both partitions are an aborted record and markers."""
    name = topic(2)
    with transaction(f"{name}-1") as send:
        send(name, numbered(10, 2))
    with transaction(f"{name}-2", commit=False) as send:
        send(name, numbered(4, 2))
    tps = [TopicPartition(name, partition) for partition in range(2)]
    stable = cluster_of(kafka, **{"kafka.isolation.level": "read_committed"})
    # An abort is over before its markers are written.
    eventually(lambda: stable.end(tps) == cluster.end(tps) == dict.fromkeys(tps, 9), "all markers are written")
    rows = []
    streamed(
        name,
        2,
        None,
        lambda table: rows.extend(table.column("value").to_pylist()),
        config | {"isolation.level": "read_committed"},
    )
    assert sorted(rows, key=int) == [b"%d" % n for n in range(10)]
    assert lag(cluster, config["group.id"], name, 2) == 0


def test_an_empty_topic_ends_at_once_and_more_threads_than_partitions_do_no_harm(topic, config):
    assert streamed(topic(2), 4, None, print, config).records == 0


def test_messages_reach_an_extractor_with_all_they_have(topic, produce, config):
    name = topic(1)
    produce(name, [Rec(b"v", b"k", [("h", b"1"), ("none", None)], timestamp=1_738_324_800_000), Rec(None)])
    rows = []

    def row(message):
        return (
            message.topic,
            message.partition,
            message.offset,
            message.timestamp,
            message.headers,
            message.key,
            message.value,
        )

    streamed(name, 1, row, rows.extend, config)
    assert rows[0] == (name, 0, 0, 1_738_324_800_000, [("h", b"1"), ("none", None)], b"k", b"v")
    assert rows[1][5:] == (None, None)


# --- killed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", pytest.param("sqlite", marks=pytest.mark.extended)])
def test_a_process_that_is_killed_in_the_middle_loses_nothing(topic, produce, config, tmp_path, kind):
    """Killed with SIGKILL three times while it writes, then left to end: every record is there, and files are whole. In
    a table with a key none is there twice."""
    name, records = topic(4), 20_000
    produce(name, numbered(records, 4))
    # A static member is back at once; another one would be waited for until its session is over.
    given = json.dumps(config | {"group.instance.id": name})
    target = f"parquet:{tmp_path}/data"
    if kind == "sqlite":
        target = f"adbc:sqlite:{tmp_path}/data.db?table=t&duplicates=skip"
        with contextlib.closing(sqlite3.connect(tmp_path / "data.db")) as connection:
            columns = ", ".join(f'"{name}"' for name in COLUMNS if name != "headers")
            connection.execute(f'CREATE TABLE t ({columns}, PRIMARY KEY ("partition", "offset"))')
    order = [sys.executable, PROGRAM, given, name, target]
    for life in range(3):
        with Program(f"life-{life}", order, tmp_path) as program:
            eventually(lambda program=program: program.log().count("wrote") >= 8, "it writes")
            program.kill()
            assert "done" not in program.log()
    with Program("last-life", [*order, "until-end"], tmp_path) as program:
        assert program.wait() == 0, program.log()
    found = Counter(values_of(tmp_path, kind))
    assert set(found) == {b"%d" % n for n in range(records)}
    again = sum(found.values()) - records
    assert again <= (3 * 2 * 250 if kind == "parquet" else 0), "only what was written and not committed comes again"


def values_of(folder, kind):
    if kind == "sqlite":
        with contextlib.closing(sqlite3.connect(folder / "data.db")) as connection:
            return [value for (value,) in connection.execute("SELECT value FROM t")]
    for file in (folder / "data").glob("part-*"):
        pq.read_table(file)  # whole, each of them
    return ds.dataset(folder / "data").to_table().column("value").to_pylist()


# --- what fails -----------------------------------------------------------------------------------------------------


def test_I3_a_database_that_is_down_for_a_while_misses_nothing(
    topic, produce, config, cluster, postgres: PostgresServer
):
    name = topic(2)
    table = name.replace("-", "_")
    sink = AdbcSink(postgres.uri, table, mode="create_append")
    schema = pa.schema([("n", pa.int32())])
    with Streamer(
        name, 2, lambda m: (int(m.value),), sink, config=config, schema=schema, flush_rows=50, retry_timeout=0.2
    ) as streamer:
        produce(name, numbered(500, 2))
        eventually(lambda: streamer.metrics().rows == 500, "the first half is there")
        postgres.stop()
        try:
            produce(name, numbered(1000, 2, start=500))
            eventually(lambda: streamer.metrics().retries > 3, "it tries again and again")
        finally:
            postgres.start()
        eventually(lambda: lag(cluster, config["group.id"], name, 2) == 0, "the rest is written and committed")
    [(rows, different)] = postgres.execute(f"SELECT count(*), count(DISTINCT n) FROM {table}")
    assert different == 1000
    assert rows == 1000, "a try that failed has written nothing"


def test_I3_poison_goes_to_the_dead_letter_topic_and_all_else_to_the_table(topic, produce, config, kafka, postgres):
    name, dead = topic(2), topic(1)
    table = name.replace("-", "_")
    postgres.execute(f"CREATE TABLE {table} (n integer PRIMARY KEY CHECK (n <> 13))")
    records = numbered(200, 2)
    records[50] = Rec(b"no number", b"key", [("trace", b"\x01")], partition=0, timestamp=1_738_324_800_050)
    records[99] = Rec(b"98", partition=1)  # breaks the primary key
    produce(name, records)
    metrics = streamed(
        name,
        2,
        lambda m: (int(m.value),),
        AdbcSink(postgres.uri, table),
        config,
        schema=pa.schema([("n", pa.int64())]),
        dead_letter=DeadLetterTopic(dead),
    )
    assert (metrics.records, metrics.failed, metrics.dead_lettered) == (200, 3, 3)
    found = {n for (n,) in postgres.execute(f"SELECT n FROM {table}")}
    assert found == set(range(200)) - {13, 50, 99}

    letters = {}
    for message in read_all(kafka, dead, 3):
        headers = dict(message.headers())
        letters[headers["penstock.partition"], headers["penstock.offset"]] = (message, headers)
    message, headers = letters[b"0", b"25"]
    assert (message.key(), message.value(), headers["trace"]) == (b"key", b"no number", b"\x01")
    assert headers["penstock.topic"] == name.encode()
    assert headers["penstock.timestamp"] == b"1738324800050"
    assert headers["penstock.group"] == config["group.id"].encode()
    assert (headers["penstock.stage"], headers["penstock.error"]) == (b"extractor", b"ValueError")
    assert b"invalid literal" in headers["penstock.reason"]
    assert time.time() * 1000 - message.timestamp()[1] < 600_000, "the time of the failure, not of the record"
    check = letters[b"1", b"6"][1]
    assert (check["penstock.stage"], check["penstock.error"]) == (b"sink", b"RowsRefused")
    assert b"violates check constraint" in check["penstock.reason"]
    refused = {headers["penstock.offset"] for _, headers in letters.values() if headers["penstock.stage"] == b"sink"}
    assert len(refused) == 2


def read_all(kafka, topic, count):
    group = f"g-{uuid.uuid4().hex[:8]}"
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        found = []
        deadline = time.monotonic() + WAIT
        while len(found) < count and time.monotonic() < deadline:
            found += consumer.consume(10, 0.5)
        return found
    finally:
        consumer.close()


def test_letters_that_are_too_large_for_their_topic_go_without_their_value(topic, produce, config, kafka):
    name, dead = topic(1), topic(1, max_message_bytes=2000)
    noise = bytes(range(256)) * 40
    produce(name, [Rec(noise[n : n + 5000], b"k") for n in range(3)])

    def refuse(_):
        raise ValueError("no")

    metrics = streamed(name, 1, refuse, print, config, dead_letter=dead)
    assert metrics.dead_lettered == 3
    letters = read_all(kafka, dead, 3)
    assert [dict(letter.headers())["penstock.offset"] for letter in letters] == [b"0", b"1", b"2"]
    small = [letter for letter in letters if letter.value() is None]
    assert all(dict(letter.headers())["penstock.dropped"] == b"5000" for letter in small)


def test_I1_a_dead_letter_topic_that_is_not_there_fails_the_start(topic, config, left):
    name = topic(1)
    with pytest.raises(UnknownTopic, match="no-such-topic"):
        Streamer(name, 1, sink=print, config=config, dead_letter="no-such-topic").start()
    left.nothing()


# --- members that come and go ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", [pytest.param("range", marks=pytest.mark.extended), "cooperative-sticky"])
def test_nothing_is_missing_when_members_come_and_go(topic, kafka, config, assignor, left):
    """Three streamers, one after the other, while records keep coming; each holds rows back until it must write."""
    name = topic(6)
    config |= {"partition.assignment.strategy": assignor}
    sinks = [[], [], []]
    stop = threading.Event()
    produced = []

    def keep_producing():
        to = Producer(rdkafka(kafka.client_options(prefix="")))
        while not stop.wait(0.1):
            at = sum(produced)
            produced.append(send(to, name, numbered(at + 100, 6, start=at)))
            assert to.flush(WAIT) == 0

    def streamer(rows, **more):
        def take(table):
            rows.extend(table.column("value").to_pylist())

        return Streamer(name, 2, sink=take, config=config, flush_rows=100_000, flush_interval=2.0, **more).start()

    producer = threading.Thread(target=keep_producing)
    first = streamer(sinks[0])
    producer.start()
    eventually(lambda: first.metrics().records > 300, "the first reads")
    second = streamer(sinks[1])
    eventually(lambda: second.metrics().records > 100, "the second reads, too")
    first.stop()
    third = streamer(sinks[2])
    eventually(lambda: third.metrics().records > 100, "the third reads, too")
    stop.set()
    producer.join(WAIT)
    assert not producer.is_alive()
    second.stop()
    third.stop()
    last = []
    with Streamer(
        name, 1, sink=lambda t: last.extend(t.column("value").to_pylist()), config=config, until_end=True
    ) as rest:
        assert rest.wait(WAIT)
    found = Counter(value for rows in [*sinks, last] for value in rows)
    assert set(found) == {b"%d" % n for n in range(sum(produced))}
    refused = sum(one.metrics().commits_failed for one in (first, second, third, rest))
    if not refused:
        assert max(found.values()) == 1, "what was written before it left does not come again"
    left.nothing()


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param({}, id="classic", marks=pytest.mark.extended),
        pytest.param({"group.protocol": "consumer"}, id="consumer"),
    ],
)
def test_I4_until_the_end_waits_for_the_partitions_of_another_member(topic, produce, config, protocol):
    """A member that reads and commits nothing has half of them. When it leaves, they are read here."""
    name = topic(4)
    produce(name, numbered(400, 4))
    config = {key: config[key] for key in ("bootstrap.servers", "group.id")} | quick(protocol) | protocol
    rows = []
    with ConsumerConnector(config | {"enable.auto.commit": False}) as other:
        other.create_message_streams({name: 1})
        eventually(lambda: len(other.assignment()) == 4, "it has all partitions")
        with Streamer(name, 1, sink=rows.append, config=config, until_end=True) as streamer:
            eventually(lambda: sum(map(len, rows)) == 200, "its own half")
            assert not streamer.wait(2.0)
            other.shutdown()
            assert streamer.wait(WAIT)
    assert Counter(pa.concat_tables(rows).column("value").to_pylist()) == {b"%d" % n: 1 for n in range(400)}


def test_I4_two_members_until_the_end_wait_for_each_other_and_end(topic, produce, config):
    """Each holds back what it commits for longer than the test waits."""
    name = topic(4)
    produce(name, numbered(400, 4))
    rows = []

    def streamer():
        return Streamer(name, 1, sink=rows.append, config=config, until_end=True, flush_interval=2 * WAIT)

    with streamer() as one, streamer() as two:
        assert one.wait(WAIT)
        assert two.wait(WAIT)
    assert Counter(pa.concat_tables(rows).column("value").to_pylist()) == {b"%d" % n: 1 for n in range(400)}


def test_a_sink_of_ones_own_that_refuses_rows(topic, produce, config):
    name = topic(1)
    produce(name, numbered(50, 1))
    taken, letters = [], []

    def take(table):
        values = table.column("value").to_pylist()
        if b"7" in values:
            raise RowsRefused("not this one")
        taken.extend(values)

    streamed(name, 1, None, take, config, dead_letter=letters.extend)
    assert sorted(taken, key=int) == [b"%d" % n for n in range(50) if n != 7]
    assert [(letter.offset, letter.reason) for letter in letters] == [(7, "not this one")]
