"""The streamer into tables of Delta Lake and Iceberg, with a real broker: each record once (I5)."""

from __future__ import annotations

import json
import sys
import threading
import uuid
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from chaos.processes import Program
from fixtures.consumer import QUICK, WAIT, eventually, quick
from fixtures.lake import DELTA_FIRST
from fixtures.produce import Rec, rdkafka, send
from penstock import AllowTopics, OptionError, SinkError, Streamer, TopicPartition
from support import lake_program

PROGRAM = Path(lake_program.__file__)


@pytest.fixture
def config(kafka):
    return {"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"g-{uuid.uuid4().hex[:8]}", **QUICK}


def numbered(count, partitions, start=0):
    return [
        Rec(b"%d" % n, b"k", partition=n % partitions, timestamp=1_738_324_800_000 + n) for n in range(start, count)
    ]


def values(lake):
    return Counter(lake.rows().column("value").to_pylist())


def each_once(count):
    return Counter({b"%d" % n: 1 for n in range(count)})


def to_the_end(topic, lake, config, *, extractor=None, sink=None, **more):
    with Streamer(topic, 2, extractor, sink or lake.sink(), config=config, until_end=True, **more) as streamer:
        assert streamer.wait(WAIT)
        return streamer.metrics()


def test_I5_a_table_has_each_record_once_and_a_restart_continues_from_it(topic, produce, config, cluster, lake, left):
    name = topic(3)
    produce(name, numbered(900, 3))
    metrics = to_the_end(name, lake, config, flush_rows=100)
    assert values(lake) == each_once(900)
    assert metrics.rows == 900
    tps = [TopicPartition(name, partition) for partition in range(3)]
    assert lake.offsets() == {tuple(tp): 300 for tp in tps}
    assert cluster.committed(config["group.id"], tps) == dict.fromkeys(tps, 300), "for tools that show lag"

    set_back(config, tps)
    produce(name, numbered(1000, 3, start=900))
    metrics = to_the_end(name, lake, config)
    assert (metrics.records, metrics.rows, metrics.already_stored) == (100, 100, 0)
    assert values(lake) == each_once(1000)
    left.no_thread()  # sockets are not counted: the Delta library keeps two of its own


def set_back(config, tps):
    """The group's offsets: they do not decide."""
    consumer = Consumer({name: config[name] for name in ("bootstrap.servers", "group.id")})
    try:
        consumer.commit(offsets=[Place(*tp, 0) for tp in tps], asynchronous=False)
    finally:
        consumer.close()


def test_I5_a_killed_process_continues_from_the_table(topic, produce, config, lake, tmp_path):
    name, records = topic(4), 8_000
    produce(name, numbered(records, 4))
    # A static member is back at once; another one would be waited for until its session is over.
    given = json.dumps(config | {"group.instance.id": name})
    order = [sys.executable, PROGRAM, given, name, lake.target]
    for life in range(2):
        with Program(f"life-{life}", order, tmp_path) as program:
            eventually(lambda program=program: program.log().count("stored") >= 4, "it writes")
            program.kill()
            assert "done" not in program.log()
    with Program("last-life", [*order, "until-end"], tmp_path) as program:
        assert program.wait() == 0, program.log()
    assert values(lake) == each_once(records)


def test_I5_maintenance_of_the_table_keeps_the_offsets(topic, produce, config, lake):
    """Compaction, expired snapshots, a checkpoint, cleaned logs and vacuum: after each run a restart continues."""
    name = topic(2)
    for end in range(200, 800, 200):
        produce(name, numbered(end, 2, start=end - 200))
        assert to_the_end(name, lake, config, flush_rows=50).rows == 200
        lake.maintain()
    assert lake.offsets() == {(name, 0): 300, (name, 1): 300}
    assert values(lake) == each_once(600)


def test_I5_offsets_without_records_make_no_commits(topic, transaction, produce, config, cluster, lake):
    """Markers of transactions move the position; the table is told with the next rows."""
    name = topic(1)
    with transaction(f"{name}-1") as send_in_transaction:
        send_in_transaction(name, numbered(10, 1))
    assert to_the_end(name, lake, config).rows == 10
    commits = lake.commits()
    with transaction(f"{name}-2", commit=False) as send_in_transaction:
        send_in_transaction(name, numbered(10, 1))
    committed = config | {"isolation.level": "read_committed"}
    assert to_the_end(name, lake, committed).rows == 0
    assert lake.commits() == commits
    tp = TopicPartition(name, 0)
    assert cluster.committed(config["group.id"], [tp])[tp] == cluster.end([tp])[tp] == 22
    produce(name, numbered(11, 1, start=10))
    assert to_the_end(name, lake, committed).rows == 1
    assert (lake.offsets(), lake.commits()) == ({(name, 0): 23}, commits + 1)
    assert values(lake) == each_once(11)


class Gated:
    """A sink whose commits wait until a test lets them go."""

    needs_arrow = stores_offsets = True

    def __init__(self, sink):
        self._sink = sink
        self.waits, self.go = threading.Event(), threading.Event()

    def open(self, thread):
        writer = self._sink.open(thread)
        honest = writer.commit

        def commit(rows, moves):
            if rows is not None:
                self.waits.set()
                assert self.go.wait(WAIT)
            return honest(rows, moves)

        writer.commit = commit
        return writer


@DELTA_FIRST
def test_I5_a_member_that_lost_its_partitions_stores_nothing_again(topic, produce, config, lake):
    """The first member hangs in its commit for longer than the group waits. The second gets its partitions and stores
    the records; then the first goes on."""
    name = topic(6)
    produce(name, numbered(600, 6))
    slow = Gated(lake.sink())
    impatient = config | {"max.poll.interval.ms": 6000}
    try:
        with Streamer(name, 2, sink=slow, config=impatient, flush_interval=0.2) as first:
            assert slow.waits.wait(WAIT)
            eventually(lambda: first.metrics().records == 600, "it holds all records", 20)
            with Streamer(name, 2, sink=lake.sink(), config=impatient, flush_interval=0.2) as second:
                eventually(lambda: second.metrics().rows > 0, "the second has stored some", 40)
                slow.go.set()
                eventually(lambda: first.metrics().already_stored > 0, "the first finds them stored", 20)
                produce(name, numbered(900, 6, start=600))
                eventually(lambda: first.metrics().rows + second.metrics().rows == 900, "all are stored", 40)
    finally:
        slow.go.set()
    assert values(lake) == each_once(900)


def test_I5_a_commit_without_an_answer_is_not_made_twice(topic, produce, config, lake):
    name = topic(1)
    produce(name, numbered(300, 1))
    lost = []

    class Flaky(Gated):
        def open(self, thread):
            writer = self._sink.open(thread)
            honest = writer.commit

            def commit(rows, moves):
                made = honest(rows, moves)
                if rows is not None and len(lost) < 3:
                    lost.append(len(rows))
                    raise OSError("the connection was closed")
                return made

            writer.commit = commit
            return writer

    metrics = to_the_end(name, lake, config, sink=Flaky(lake.sink()), flush_rows=50, retry_timeout=0.05)
    assert len(lost) == 3
    assert (metrics.rows, metrics.retries, metrics.already_stored) == (300, 3, 0)
    assert values(lake) == each_once(300)


GROUPS = {
    "range": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


@DELTA_FIRST
@pytest.mark.parametrize(
    "group", [pytest.param(name, marks=() if name == "cooperative" else pytest.mark.extended) for name in GROUPS]
)
def test_I5_each_record_is_there_once_when_members_come_and_go(topic, kafka, config, group, lake):
    name = topic(6)
    config = {key: config[key] for key in ("bootstrap.servers", "group.id")} | quick(GROUPS[group]) | GROUPS[group]
    stop, produced = threading.Event(), []

    def keep_producing():
        to = Producer(rdkafka(kafka.client_options(prefix="")))
        while not stop.wait(0.1):
            at = sum(produced)
            produced.append(send(to, name, numbered(at + 60, 6, start=at)))
            assert to.flush(WAIT) == 0

    def streamer():
        return Streamer(name, 2, sink=lake.sink(), config=config, flush_interval=0.5).start()

    producer = threading.Thread(target=keep_producing)
    first = streamer()
    producer.start()
    eventually(lambda: first.metrics().rows > 100, "the first writes")
    second = streamer()
    eventually(lambda: second.metrics().rows > 60, "the second writes, too")
    first.stop()
    third = streamer()
    eventually(lambda: third.metrics().rows > 60, "the third writes, too")
    stop.set()
    producer.join(WAIT)
    assert not producer.is_alive()
    second.stop()
    third.stop()
    to_the_end(name, lake, config)
    assert values(lake) == each_once(sum(produced))


def test_I5_a_recreated_topic_is_read_from_its_beginning(topic, produce, config, operator, lake):
    name = topic(1)
    produce(name, numbered(100, 1))
    to_the_end(name, lake, config)
    operator.recreate(name)
    produce(name, numbered(150, 1, start=100))
    assert to_the_end(name, lake, config).rows == 50
    assert values(lake) == each_once(150)


# --- what is written ------------------------------------------------------------------------------------------------


def test_several_topics_with_typed_columns_become_one_table(topic, produce, config, lake):
    one, two, three = f"{topic(1)}", topic(2), topic(1)
    for name in (one, two):
        produce(name, [Rec(json.dumps({"user": name, "n": n}).encode()) for n in range(50)])
    produce(two, [Rec(b"no JSON")])
    typed = {"valueFormat": "json", "valueSchema": "user STRING, n INT", "flatten": "true", "mode": "DROPMALFORMED"}
    metrics = to_the_end([one, two], lake, config | typed, sink=lake.sink(partition_by=["kafka_topic"]))
    assert metrics.rows == 100
    rows = lake.rows()
    assert rows.schema.field("n").type == pa.int32()
    assert rows.column_names[:3] == ["user", "n", "kafka_key"]
    assert "kafka_headers" not in rows.column_names
    assert Counter(rows.column("user").to_pylist()) == {one: 50, two: 50}
    assert rows.column("kafka_topic").to_pylist() == rows.column("user").to_pylist()

    produce(three, [Rec(b'{"user": "late", "n": 1}')])
    pattern = AllowTopics("|".join(name.replace(".", r"\.") for name in (one, two, three)))
    columns = ["user", "n", "kafka_topic"]
    assert to_the_end(pattern, lake, config | typed, columns=columns).rows == 1
    found = duckdb.arrow(lake.rows()).aggregate("user, count(*) AS n, count(kafka_offset) AS known")
    assert sorted(found.fetchall()) == sorted([(one, 50, 50), (two, 50, 50), ("late", 1, 0)])


def test_a_table_is_partitioned_by_the_day_of_the_timestamps(topic, produce, config, lake):
    name = topic(1)
    produce(name, numbered(10, 1))
    to_the_end(name, lake, config, sink=lake.sink(partition_by=["date"]))
    assert {str(day) for day in lake.rows().column("date").to_pylist()} == {"2025-01-31"}
    produce(name, numbered(20, 1, start=10))
    to_the_end(name, lake, config)  # an existing table keeps its own partition columns
    assert values(lake) == each_once(20)


def test_I3_messages_that_fail_go_to_dead_letters_and_all_others_to_the_table(topic, produce, config, lake):
    name = topic(1)
    produce(name, [Rec(b"%d" % n if n != 7 else b"seven") for n in range(10)])
    letters = []
    more = {"schema": pa.schema([("n", pa.int16())]), "dead_letter": letters.extend}
    metrics = to_the_end(name, lake, config, extractor=lambda m: {"n": int(m.value)}, **more)
    assert (metrics.rows, metrics.failed, [letter.offset for letter in letters]) == (9, 1, [7])
    # The table's columns decide: a value that does not fit is refused, and only that one.
    produce(name, [Rec(b"10"), Rec(b"100000"), Rec(b"12")])
    more |= {"schema": pa.schema([("n", pa.int64())])}
    narrow = to_the_end(name, lake, config, extractor=lambda m: {"n": int(m.value)}, **more)
    refused = 0 if lake.kind == "iceberg" else 1  # Iceberg has no 16-bit integers: the column has 32 bits
    assert (narrow.rows, narrow.failed) == (3 - refused, refused)
    assert sorted(lake.rows().column("n").to_pylist())[:10] == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10]


def test_rows_that_do_not_fit_the_table_are_an_error_that_says_what_to_do(topic, produce, config, lake):
    name = topic(1)
    produce(name, numbered(10, 1))
    to_the_end(name, lake, config, columns=["value", "offset"])
    produce(name, numbered(20, 1, start=10))
    with pytest.raises(SinkError, match=r"has no column 'key', .*ALTER TABLE"):
        to_the_end(name, lake, config)
    with pytest.raises(SinkError, match=r"column 'offset' is .*string.* in the rows and int64 in"):
        to_the_end(name, lake, config, extracts="batch", extractor=lambda batch: pa.record_batch({"offset": ["a"]}))
    assert to_the_end(name, lake, config, columns=["offset", "value"]).rows == 10
    assert values(lake) == each_once(20)


def test_I1_a_table_that_is_not_there_fails_the_start(topic, config, lake):
    with pytest.raises(SinkError, match=r"does not exist. Create it, or set create=True"):
        Streamer(topic(1), 1, sink=lake.sink(create=False), config=config).start()


def test_I1_typed_columns_have_batches_and_no_messages(topic, config, lake):
    typed = config | {"valueFormat": "json", "valueSchema": "n INT"}
    for more, said in (
        ({"extractor": print}, "typed columns come in batches"),
        ({"dead_letter": "t"}, "deadLetterTopic"),
        ({"value_decoder": json.loads}, "valueFormat and keyFormat decode"),
    ):
        with pytest.raises(OptionError, match=said):
            to_the_end(topic(1), lake, typed, **more)
