"""Consume, transform, produce: offsets of a consumer in the transaction of a Writer. Each output once."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections import Counter

import pyarrow as pa
import pytest

import penstock
from fixtures.consumer import eventually, quick
from fixtures.produce import Rec
from penstock import TopicPartition
from support import transform_program

pytestmark = pytest.mark.broker

COUNT = 200


@pytest.fixture
def source(topic, produce):
    """Four partitions of fifty records."""
    name = topic(partitions=4)
    produce(name, [Rec(b"value %d" % n, b"%d" % n, partition=n % 4) for n in range(COUNT)])
    return name


EXPECTED = Counter({b"VALUE %d" % n: 1 for n in range(COUNT)})


@pytest.fixture
def outputs(kafka):
    """The committed values of a topic, counted."""

    def read(name):
        options = kafka.client_options() | {"kafka.isolation.level": "read_committed"}
        table = penstock.read_batches(options, subscribe=name, columns=["value"]).read_all()
        return Counter(table.column(0).to_pylist())

    return read


@pytest.fixture
def all_outputs(outputs):
    """The same, when there are so many: a coordinator answers a commit before it has marked all partitions."""

    def read(name, count=COUNT):
        eventually(lambda: outputs(name).total() >= count, lambda: f"{outputs(name).total()} of {count} outputs")
        return outputs(name)

    return read


@pytest.fixture
def consume(kafka):
    """`consume(group)` makes a connector that does not commit by itself."""
    made = []

    def make(group, **more):
        config = quick(more) | {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
        }
        made.append(penstock.ConsumerConnector(config | {"consumer.timeout.ms": 30_000} | more))
        return made[-1]

    yield make
    for connector in made:
        connector.shutdown()


@pytest.fixture
def write(kafka):
    """`write(target)` makes a Writer with a transactional id of its own."""
    made = []

    def make(target, name=""):
        identity = {"kafka.transactional.id": name or f"id-{uuid.uuid4().hex}"}
        made.append(penstock.Writer(kafka.client_options() | identity, topic=target))
        return made[-1]

    yield make
    for writer in made:
        writer.close()


def group_name():
    return f"g-{uuid.uuid4().hex}"


def copy(stream, writer, count):
    """Read and write until so many records are committed."""
    done = 0
    for batch in stream.batches(["key", "value"]):
        with writer.transaction(stream) as transaction:
            transaction.write(transform_program.transformed(batch))
        done += batch.num_rows
        if done >= count:
            return


def test_offsets_and_outputs_are_committed_together(source, topic, consume, write, all_outputs):
    target, group = topic(), group_name()
    connector = consume(group)
    (stream,) = connector.create_message_streams({source: 1})[source]
    copy(stream, write(target), COUNT)
    assert all_outputs(target) == EXPECTED
    connector.shutdown()
    other = consume(group, **{"consumer.timeout.ms": 2000})
    (stream,) = other.create_message_streams({source: 1})[source]
    eventually(lambda: len(other.position()) == 4, "positions")
    assert set(other.position().values()) == {COUNT // 4}


def test_an_aborted_transaction_hands_the_records_out_again(source, topic, consume, write, all_outputs):
    target = topic()
    connector, writer = consume(group_name()), write(target)
    (stream,) = connector.create_message_streams({source: 1})[source]
    failures = []

    def attempt(batch):
        with writer.transaction(stream) as transaction:
            transaction.write(transform_program.transformed(batch))
            if len(failures) < 3:
                raise ZeroDivisionError

    done = 0
    for batch in stream.batches(["key", "value"]):
        try:
            attempt(batch)
        except ZeroDivisionError as error:
            failures.append(error)
        else:
            done += batch.num_rows
        if done == COUNT:
            break
    assert len(failures) == 3
    assert all_outputs(target) == EXPECTED
    assert connector.position() == {TopicPartition(source, p): COUNT // 4 for p in range(4)}


def test_messages_come_again_too(source, topic, consume, write, all_outputs):
    target = topic()
    connector, writer = consume(group_name()), write(target)
    (stream,) = connector.create_message_streams({source: 1})[source]
    seen = []

    def some(fails):
        with writer.transaction(stream) as transaction:
            for _ in range(20):
                message = next(stream)
                seen.append(message.value)
                transaction.write(pa.table({"value": [message.value.upper()]}))
            if fails:
                raise ZeroDivisionError

    some(fails=False)
    with pytest.raises(ZeroDivisionError):
        some(fails=True)
    while len(seen) < COUNT + 20:
        some(fails=False)
    assert all_outputs(target) == EXPECTED


def test_given_offsets_are_committed_instead_of_positions(kafka, source, topic, consume, write):
    connector, writer = consume(group_name()), write(topic())
    (stream,) = connector.create_message_streams({source: 1})[source]
    batch = next(iter(stream.batches(["partition", "offset", "value"])))
    tp = TopicPartition(source, batch.column("partition")[0].as_py())
    with writer.transaction(connector) as transaction:
        transaction.write(batch.select(["value"]).slice(0, 10))
        transaction.commit_offsets(connector, {tp: 10})
    cursor = connector._assigned.cursor(tp)
    assert (cursor.committed, cursor.uncommitted_since) == (10, 10)


def test_auto_commit_is_refused(source, topic, consume, write):
    connector = consume(group_name(), **{"enable.auto.commit": True})
    connector.create_message_streams({source: 1})
    with pytest.raises(penstock.OptionError, match=r"enable\.auto\.commit = True: commits offsets outside"):
        write(topic()).transaction(connector)


CLASSIC, CONSUMER = {"partition.assignment.strategy": "range"}, {"group.protocol": "consumer"}
BOTH = pytest.mark.parametrize(
    "protocol", [CLASSIC, pytest.param(CONSUMER, marks=pytest.mark.extended)], ids=["classic", "consumer"]
)


@BOTH
def test_a_revoked_member_cannot_commit_and_each_output_comes_once(
    source, topic, consume, write, outputs, all_outputs, protocol
):
    """The first member has records of all partitions in its transaction when a second one joins."""
    target, group = topic(), group_name()
    first, second, writer = consume(group, **protocol), consume(group, **protocol), write(target)
    (stream,) = first.create_message_streams({source: 1})[source]
    batches, got = stream.batches(["key", "value"]), []
    while sum(batch.num_rows for batch in got) < COUNT:
        got.append(next(batches))
    transaction = writer.transaction(stream)
    transaction.write([transform_program.transformed(batch) for batch in got])
    (other,) = second.create_message_streams({source: 1})[source]
    eventually(lambda: len(second.assignment()) == 2, "the second member's partitions")
    with pytest.raises(penstock.CommitRefused, match="was revoked while its records were processed"), transaction:
        pass
    assert outputs(target) == Counter()
    threads = [
        threading.Thread(target=copy, args=[stream, writer, COUNT // 2], daemon=True),
        threading.Thread(target=copy, args=[other, write(target), COUNT // 2], daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert all_outputs(target) == EXPECTED


@BOTH
def test_rebalances_while_members_write(source, topic, produce, consume, write, outputs, protocol):
    """Members join and leave all the time; refused transactions are written again."""
    target, group = topic(partitions=2), group_name()
    produce(source, [Rec(b"value %d" % n, partition=n % 4) for n in range(COUNT, 2000)])
    expected = Counter({b"VALUE %d" % n: 1 for n in range(2000)})
    stopped, refused, errors = threading.Event(), [], []

    def work():
        more = {"consumer.timeout.ms": 200, "fetch.message.max.bytes": 2000}
        connector, writer = consume(group, **more, **protocol), write(target)
        (stream,) = connector.create_message_streams({source: 1})[source]
        while not stopped.is_set():
            try:
                for batch in stream.batches(["key", "value"]):
                    with writer.transaction(stream) as transaction:
                        transaction.write(transform_program.transformed(batch))
                    if stopped.is_set():
                        break
            except penstock.ConsumerTimeout:
                pass
            except penstock.CommitRefused as error:
                refused.append(error)
            except BaseException as error:
                errors.append(error)
                return

    workers = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    for _ in range(3):
        guest = consume(group, **protocol)
        guest.create_message_streams({source: 1})
        eventually(guest.assignment, "the guest's partitions")
        guest.shutdown()  # it has handed out nothing
    eventually(lambda: outputs(target).total() >= 2000 or errors, lambda: f"{outputs(target).total()} of 2000 outputs")
    stopped.set()
    for worker in workers:
        worker.join(60)
    assert errors == []
    assert outputs(target) == expected


@pytest.mark.parametrize("dies", ["before-write", "after-write", "after-offsets", "after-commit"])
def test_a_killed_member_leaves_each_output_once(kafka, source, topic, all_outputs, dies):
    target, group = topic(partitions=2), group_name()
    arguments = [sys.executable, transform_program.__file__, kafka.bootstrap_servers, source, target, group]
    killed = subprocess.run([*arguments, dies], capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -9, killed.stderr
    assert all_outputs(target, count=1).total() < COUNT
    subprocess.run([*arguments, "never"], check=True, timeout=120)
    assert all_outputs(target) == EXPECTED
