"""The essentials on brokers of several Kafka versions. The fixtures are those of all other tests, with another `kafka`.

.venv/bin/python -m pytest -m old_brokers tests/integration/test_old_brokers.py -k 2.8.2
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

import penstock
from chaos.engine import TROUBLES, Engine, kill_again_and_again
from fixtures.cluster import cluster_of
from fixtures.consumer import ends, eventually
from fixtures.produce import Rec
from fixtures.stream import HOUR, NOW, records, tp
from penstock.config.source import parse_options
from penstock.dead_letters import task_letters
from penstock.dead_letters.scope import LetterScope
from penstock.dead_letters.task_letters import RangeLetters
from penstock.model.columns import TYPES
from penstock.model.offset_range import OffsetRange
from penstock.model.topic_partition import TopicPartition
from penstock.wire.producer.transactions import end_transactions
from support.called_sink import Sink
from support.old_brokers import VERSIONS, old_broker
from support.producing import LateRequests, client_of, values_in, writing

pytestmark = [pytest.mark.old_brokers, pytest.mark.broker, pytest.mark.timeout(600)]

COMMITTED = {"kafka.isolation.level": "read_committed"}

TIMES_OUT_SECONDS = 5.0
"""Of a transaction that times out on purpose: longer than a busy machine takes to write it."""


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request):
    with old_broker(request.param) as cluster:
        said = f"Kafka version: {request.param}\n"
        eventually(lambda: said in cluster.logs(1), "the broker says its version")
        yield cluster


def values(kafka, **options):
    table = penstock.read_batches(kafka.client_options(), columns=["value"], **options).read_all()
    return Counter(table.column("value").to_pylist())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_has_every_record_with_all_columns(kafka, topic, produce, codec):
    name = topic(partitions=3)
    written = [
        Rec(b"value %d" % i, b"key %d" % i, [("n", b"%d" % i)], timestamp=NOW + i, partition=i % 3) for i in range(3000)
    ]
    produce(name, written, **{"compression.type": codec})
    batches = penstock.read_batches(kafka.client_options(), subscribe=name, includeHeaders=True)
    rows = batches.read_all().sort_by("timestamp").to_pylist()
    assert [(row["key"], row["value"], row["partition"]) for row in rows] == [
        (each.key, each.value, each.partition) for each in written
    ]
    assert [row["headers"] for row in rows] == [
        [{"key": key, "value": value} for key, value in each.headers] for each in written
    ]
    assert [int(row["timestamp"].timestamp() * 1000) for row in rows] == [each.timestamp for each in written]
    assert {row["partition"]: row["offset"] for row in rows} == {0: 999, 1: 999, 2: 999}


def test_a_batch_starts_and_ends_by_time(kafka, topic, produce):
    name = topic(partitions=2)
    for hours in range(6, 0, -1):
        produce(name, [Rec(b"%d h" % hours, timestamp=NOW - hours * HOUR, partition=p) for p in (0, 1)])
    found = values(kafka, subscribe=name, startingTimestamp=NOW - 3 * HOUR)
    assert found == {b"3 h": 2, b"2 h": 2, b"1 h": 2}
    found = values(kafka, subscribe=name, startingTimestamp=NOW - 5 * HOUR, endingTimestamp=NOW - 3 * HOUR)
    assert found == {b"5 h": 2, b"4 h": 2}


def test_committed_readers_get_committed_records_alone(kafka, topic, produce, transaction):
    name = topic()
    produce(name, [Rec(b"plain")])
    with transaction(f"{name}-a", commit=False) as send:
        send(name, [Rec(b"aborted")] * 5)
    with transaction(f"{name}-b") as send:
        send(name, [Rec(b"committed")] * 5)
    assert values(kafka, subscribe=name, **COMMITTED) == {b"plain": 1, b"committed": 5}
    assert values(kafka, subscribe=name)[b"aborted"] == 5
    with transaction(f"{name}-c") as send:
        send(name, [Rec(b"open")])
        assert values(kafka, subscribe=name, **COMMITTED) == {b"plain": 1, b"committed": 5}
    assert values(kafka, subscribe=name, **COMMITTED) == {b"plain": 1, b"committed": 5, b"open": 1}


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_shares_partitions_commits_and_goes_on(kafka, consumers, topic, produce, assignor):
    name = topic(partitions=4)
    strategy = {"partition.assignment.strategy": assignor}
    cluster, places = cluster_of(kafka), [TopicPartition(name, partition) for partition in range(4)]

    def write():
        produce(name, [Rec(b"v", partition=i % 4) for i in range(400)])

    def read(count):
        eventually(lambda: consumers.records().total() >= count, lambda: f"{count}, not {consumers.records().total()}")
        eventually(
            lambda: cluster.committed(consumers.group, places) == ends(name, dict.fromkeys(range(4), count // 4)),
            lambda: f"the group has {cluster.committed(consumers.group, places)}",
        )

    write()
    first = consumers.reading(name, **strategy)
    read(400)
    second = consumers.reading(name, by="batches", **strategy)
    eventually(lambda: len(second.connector.assignment()) == len(first.connector.assignment()) == 2, "half each")
    write()
    read(800)
    assert second.count()
    first.connector.shutdown()
    eventually(lambda: len(second.connector.assignment()) == 4, "all partitions for who is left")
    write()
    read(1200)
    assert set(consumers.records().values()) == {1}
    assert not [*first.errors, *second.errors]


def test_a_dead_letter_is_written_once_however_often_its_task_runs(kafka, topic):
    source, dead = topic(), topic()
    client = parse_options(kafka.client_options() | {"subscribe": source}).client
    scope = LetterScope("query", uuid.uuid4().hex)
    range_, batch = OffsetRange(source, 0, 0, 10), malformed(source, 10)

    def attempt(finish=True):
        with RangeLetters(client, dead, range_, scope) as letters:
            letters.add(batch, [(at, "value", "not JSON") for at in (2, 5, 7)])
            return letters.finish() if finish else None

    assert [attempt(finish=False), attempt(), attempt()] == [None, 3, 0]
    assert letters_in(kafka, dead) == [2, 5, 7]


def test_letters_of_one_task_that_are_written_in_many_transactions_are_all_there(kafka, topic, monkeypatch):
    monkeypatch.setattr(task_letters, "BUFFERED_BYTES", 1)  # each letter has a transaction of its own
    source, dead = topic(), topic()
    client = parse_options(kafka.client_options() | {"subscribe": source}).client
    with RangeLetters(client, dead, OffsetRange(source, 0, 0, 20), LetterScope("query", uuid.uuid4().hex)) as letters:
        letters.add(malformed(source, 20), [(at, "value", "not JSON") for at in range(20)])
        assert letters.finish() == 20
    assert letters_in(kafka, dead) == list(range(20))


def malformed(source, count):
    row = {"key": None, "value": b"{", "topic": source, "partition": 0, "timestamp": 0, "timestampType": 0}
    return pa.RecordBatch.from_pylist(
        [row | {"offset": offset} for offset in range(count)], schema=pa.schema(list(TYPES.items()))
    )


def letters_in(kafka, dead):
    """The offsets of the records that letters are about."""
    read = penstock.read_batches(kafka.client_options(), subscribe=dead, includeHeaders=True, **COMMITTED).read_all()
    headers = [{each["key"]: each["value"] for each in row["headers"]} for row in read.to_pylist()]
    return [int(each["penstock.offset"]) for each in headers]


def test_W5_records_are_written_idempotently_and_in_transactions(kafka, topic):
    name, client = topic(2), client_of(kafka)
    with writing(client, encoder={"compression": "zstd", "batch_size": 500}) as sink:
        sink.deliver(name, [b"%d" % number for number in range(500)], 0)
    with writing(client, f"id-{name}") as sink:
        for number in range(2):
            sink.deliver(name, [b"committed %d" % number], 1)
            sink.producer.commit_offsets(f"g-{name}", {TopicPartition(name, 0): (number, "note")})
            opened = sink.producer.open_transaction()
            sink.producer.commit_transaction()
            if sink.producer.identity != opened.identity:
                sink.adopt()
        sink.deliver(name, [b"aborted"], 1)
        sink.producer.abort_transaction()
        sink.begin()
        sink.deliver(name, [b"by the driver"], 1)
        opened = sink.producer.open_transaction()
        assert end_transactions(client, [opened], True, 60.0) == {opened: None}
        assert end_transactions(client, [opened], True, 60.0) == {opened: None}
        sink.begin()  # waits until it is complete
        found = sink.producer.cluster.commits(f"g-{name}", [TopicPartition(name, 0)])
    assert [(each.offset, each.metadata) for each in found.values()] == [(1, "note")]
    committed = [b"committed 0", b"committed 1", b"by the driver"]
    assert values_in(kafka, name) == {0: [b"%d" % number for number in range(500)], 1: committed}


def test_a_stream_is_planned_from_its_group_grows_and_commits(kafka, stream, topic, produce, operator):
    name, group = topic(partitions=2), uuid.uuid4().hex
    produce(name, records(10) + records(5, partition=1))
    operator.commit(group, name, {0: 4, 1: 5})
    options = {
        "subscribe": name,
        "kafka.group.id": group,
        "partition.discovery.interval.ms": "0",
        "maxOffsetsPerTrigger": "4",
    }
    running = stream(**options)
    assert running.run() == {tp(name): list(range(4, 10))}
    operator.grow(name, 3)
    produce(name, records(3) + records(2, partition=2))
    assert running.run() == {tp(name): [10, 11, 12], tp(name, 2): [0, 1]}
    again = stream(**options, state=running.state)
    produce(name, records(1, partition=1))
    assert again.run() == {tp(name, 1): [5]}


def test_a_stream_finds_that_records_were_deleted(kafka, stream, topic, produce, operator):
    name = topic()
    produce(name, records(10))
    running = stream(subscribe=name, startingOffsets="earliest", **{"partition.discovery.interval.ms": "0"})
    running.trigger()
    produce(name, records(10))
    operator.delete_records(name, {0: 15})
    with pytest.raises(penstock.DataLoss, match=name):
        running.trigger()
    lenient = stream(subscribe=name, state={tp(name): 10}, failOnDataLoss="false")
    assert lenient.run() == {tp(name): list(range(15, 20))}


# --- writing without Spark --------------------------------------------------------------------------------------------


def table(name, count, first=0):
    """Rows `name 0`, `name 1`, ... with keys."""
    numbers = range(first, first + count)
    return pa.table({"key": [f"{n}" for n in numbers], "value": [f"{name} {n}" for n in numbers]})


def rows(name, count):
    return Counter({f"{name} {n}".encode(): 1 for n in range(count)})


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_W4_rows_are_written_once(kafka, topic, codec):
    name = topic(partitions=3)
    options = kafka.client_options() | {"kafka.compression.type": codec, "kafka.batch.size": 1000}
    result = penstock.write_batches(options, table("row", 5000), topic=name)
    assert (result.rows, values(kafka, subscribe=name)) == (5000, rows("row", 5000))


def test_W4_many_transactions_of_one_writer_are_all_visible_and_aborted_ones_are_not(kafka, topic):
    """Before Kafka 4.0 all of them have one epoch: a broker drops batches whose numbers it has seen."""
    name = topic(partitions=3)
    options = kafka.client_options() | {"kafka.transactional.id": f"id-{name}", "kafka.batch.size": 500}
    expected = Counter()

    def write(writer, number):
        with writer.transaction() as transaction:
            transaction.write(table(f"transaction {number}", 200))
            transaction.write(table(f"more of {number}", 7))
            if number % 4 == 3:
                raise ZeroDivisionError
        return rows(f"transaction {number}", 200) + rows(f"more of {number}", 7)

    for life in range(2):  # the second writer takes the id
        with penstock.Writer(options, topic=name) as writer:
            for number in range(10 * life, 10 * life + 10):
                try:
                    expected += write(writer, number)
                except ZeroDivisionError:
                    assert number % 4 == 3
                assert values(kafka, subscribe=name, **COMMITTED) == expected  # visible when the block ends
            assert writer.result.rows == sum(207 for each in range(10 * life, 10 * life + 10) if each % 4 != 3)
    whole = penstock.write_batches(options, table("whole", 300), topic=name)
    assert (whole.rows, values(kafka, subscribe=name, **COMMITTED)) == (300, expected + rows("whole", 300))


def test_W7_late_batches_of_an_aborted_transaction_are_not_committed_with_the_next_one(kafka, topic, monkeypatch):
    """Brokers before Kafka 3.6 accept a batch of a transaction that was aborted, unless its epoch is fenced."""
    name, late = topic(), LateRequests(monkeypatch)
    options = kafka.client_options() | {"kafka.transactional.id": f"id-{name}"}

    def fail(transaction):
        late.hold()
        transaction.write(table("aborted", 10))
        raise ZeroDivisionError

    with penstock.Writer(options, topic=name) as writer:
        with pytest.raises(ZeroDivisionError), writer.transaction() as transaction:
            fail(transaction)
        assert all(late.arrive(client_of(kafka)))
        with writer.transaction() as transaction:
            transaction.write(table("row", 10))
    assert values(kafka, subscribe=name, **COMMITTED) == rows("row", 10)


def test_consumed_transformed_and_produced_once_with_offsets_in_the_transactions(kafka, topic, produce):
    source, target, group = topic(partitions=4), topic(partitions=2), uuid.uuid4().hex
    produce(source, [Rec(b"value %d" % n, partition=n % 4) for n in range(200)])
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "consumer.timeout.ms": 60_000,
    }

    def copy(count, failures):
        """Copy so many records, in transactions of one partition's records; the first ones fail."""
        identity = {"kafka.transactional.id": f"id-{group}"}
        with (
            penstock.ConsumerConnector(config) as connector,
            penstock.Writer(kafka.client_options() | identity, topic=target) as writer,
        ):
            (stream,) = connector.create_message_streams({source: 1})[source]
            for message in stream:
                try:
                    with writer.transaction(stream) as transaction:
                        transaction.write(pa.table({"value": [message.value]}))
                        if failures > 0:
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    failures -= 1
                else:
                    count -= 1
                if count == 0:
                    return

    copy(30, failures=2)
    assert values(kafka, subscribe=target, **COMMITTED).total() == 30
    copy(170, failures=1)
    assert values(kafka, subscribe=target, **COMMITTED) == {b"value %d" % n: 1 for n in range(200)}
    places = [TopicPartition(source, partition) for partition in range(4)]
    assert cluster_of(kafka).committed(group, places) == ends(source, dict.fromkeys(range(4), 50))


# --- the sink, exactly once -------------------------------------------------------------------------------------------


def test_W5_and_W6_batches_of_a_stream_are_visible_once_however_often_they_come(kafka, topic):
    sink, expected = Sink(kafka, topic(partitions=2)), []
    for batch in range(5):
        written = [[f"{batch} {task} {row}" for row in range(50)] for task in range(3)]
        expected = sorted([*expected, *(value for some in written for value in some)])
        for _ in range(2):
            sink.commit(batch, sink.tasks(batch, *written))
            assert sink.visible == expected


def test_W6_a_commit_that_was_interrupted_is_completed_by_the_replay(kafka, topic):
    sink = Sink(kafka, topic())
    outcomes = sink.tasks(0, ["a"], ["b"])
    sink.write_intent(0, outcomes)
    end_transactions(sink.options.client, [outcomes[0].transaction], committed=True, timeout=60)
    assert sink.visible == ["a"]
    sink.commit(0, sink.tasks(0, ["a"], ["b"]))
    assert sink.visible == ["a", "b"]


@pytest.mark.parametrize("batch", [0, None], ids=["stream", "batch write"])
@pytest.mark.parametrize("loss", ["taken over", "timed out"])
def test_W6_and_W7_a_lost_transaction_is_found_before_any_is_committed(kafka, topic, batch, loss):
    """Brokers before Kafka 3.0 do not describe transactions: a batch write would be visible in part."""
    name = topic()
    sink, cluster, place = Sink(kafka, name), cluster_of(kafka), TopicPartition(name, 0)
    patient = sink.options
    if loss == "timed out":
        sink.options = replace(patient, producer=replace(patient.producer, transaction_timeout=TIMES_OUT_SECONDS))
    lost = sink.task(1, batch, "b")
    sink.options = patient
    if loss == "timed out":
        eventually(lambda: cluster.high_watermarks([place])[place] == 2, "the marker of the abort")
    else:
        sink.committer(batch).abort([sink.task(1, batch, "b")])
    outcomes = [sink.task(0, batch, "a"), lost]
    with pytest.raises(penstock.TransactionLost, match="2 transactions"):
        sink.commit(batch, outcomes)
    sink.committer(batch).abort(outcomes)
    assert sink.visible == []
    sink.commit(batch, sink.tasks(batch, ["a"], ["b"]))
    assert sink.visible == ["a", "b"]


def test_W7_a_batch_write_is_all_or_nothing(kafka, topic):
    sink = Sink(kafka, topic())
    sink.committer(None).abort([*sink.tasks(None, ["a"], ["b"]), None])
    assert sink.visible == []
    sink.commit(None, sink.tasks(None, ["a"], ["b"]))
    assert sink.visible == ["a", "b"]


def test_W6_drivers_and_tasks_killed_at_random_under_a_small_engine_write_each_row_once(kafka, topic, tmp_path):
    kill_again_and_again(Engine(kafka, topic(partitions=3), tmp_path, **TROUBLES["all"]), kills=3)


# --- the command line -------------------------------------------------------------------------------------------------


def test_topics_and_groups_on_the_command_line(kafka, topic, produce, operator, command):
    name, group = f"t-{uuid.uuid4().hex}", uuid.uuid4().hex
    code, out, _ = command("topics", "create", name, "--partitions", "2", "--setting", "retention.ms=-1")
    assert (code, out) == (0, f"Created topic {name} with 2 partitions, 1 replica each.\n")
    produce(name, records(10) + records(5, partition=1))
    operator.commit(group, name, {0: 4, 1: 5})
    code, out, _ = command("topics")
    assert (code, name in out) == (0, True)
    code, out, _ = command("topics", "describe", name)
    assert (code, "retention.ms" in out) == (0, True)
    code, out, _ = command("groups", "list")
    assert (code, group in out) == (0, True)
    code, out, _ = command("groups", "describe", group)
    assert (code, name in out) == (0, True)
    code, out, _ = command("topics", "delete", name, "--execute")
    assert (code, name in kafka.topics()) == (0, False)


def test_the_lag_of_groups_in_records_and_seconds(topic, produce, operator, command):
    name, group = topic(), uuid.uuid4().hex
    produce(name, [Rec(b"x", timestamp=int(time.time() * 1000) - 60_000 + n) for n in range(10)])
    operator.commit(group, name, {0: 4})
    arguments = ("--once", "--json", "--interval", "0.2", "--include-topics", f"^{name}$", "--include-groups", group)
    code, out, err = command("top", *arguments)
    assert (code, err) == (0, "")
    found = json.loads(out)
    (read,) = found["groups"]
    assert (read["state"], read["lag"], read["certainty"]) == ("Empty", 6, "exact")
    assert 59 < read["seconds"] < 180
    assert found["topics"][0]["size"] > 0
    assert found["topics"][0]["cleanup_policy"] == "delete"


def test_the_doctor_finds_nothing(topic, command):
    code, out, err = command("doctor", "--topic", topic())
    assert code == 0, out + err


def test_copies_on_the_command_line(kafka, topic, produce, transaction, command):
    source, target = topic(partitions=3), topic(partitions=3)
    produce(source, [Rec(b"%d" % n, partition=n % 3) for n in range(3000)])
    with transaction(f"{source}-a", commit=False) as send:
        send(source, [Rec(b"aborted")])
    code, _, err = command("copy", source, target, "--keep-partitions")
    assert (code, values(kafka, subscribe=target)) == (0, {b"%d" % n: 1 for n in range(3000)}), err
