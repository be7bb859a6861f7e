"""Transactions against a real broker, in both versions of the protocol."""

from __future__ import annotations

import pickle
import time
import uuid

import pyarrow as pa
import pytest

import penstock
from penstock._kernel import Encoder
from penstock.errors import BrokerError, CommitRefused, TransactionLost
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.describe_transactions import DESCRIBE_TRANSACTIONS
from penstock.wire.api.group_member import GroupMember
from penstock.wire.api.offset_fetch import OFFSET_FETCH
from penstock.wire.producer.identity import OpenTransaction
from penstock.wire.producer.producer import Producer
from penstock.wire.producer.transaction_client import TransactionClient
from penstock.wire.producer.transactions import end_transactions, lost_transactions
from penstock.wire.transport.connection import Connection, ConnectionLost
from support.configs import producer_settings
from support.producing import client_of, values_in, writing


@pytest.fixture
def client(kafka):
    return client_of(kafka)


@pytest.fixture
def name():
    return f"id-{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def version(request, monkeypatch):
    if request.param == 1:  # the cluster has enabled version 2; brokers still accept version 1
        monkeypatch.setattr(Connection, "feature", lambda self, name: 0)
    return request.param


def await_values(kafka, topic, expected, seconds=60.0):
    """The broker confirms the end of a transaction before readers see it."""
    deadline = time.monotonic() + seconds
    while (found := {value for each in values_in(kafka, topic).values() for value in each}) != set(expected):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_W5_transactions_of_one_producer_are_visible_as_a_whole(kafka, client, topic, name, version):
    target = topic(2)
    with writing(client, name) as sink:
        for number in range(3):
            for partition in range(2):
                sink.deliver(target, [b"%d/%d" % (number, partition)], partition)
            opened = sink.producer.open_transaction()
            assert opened.version == version
            sink.producer.commit_transaction()
            assert sink.producer.open_transaction() is None
            assert (sink.producer.identity.epoch == opened.epoch + 1) == (version == 2)
            if sink.producer.identity != opened.identity:
                sink.adopt()
    await_values(kafka, target, [b"%d/%d" % (number, partition) for number in range(3) for partition in range(2)])


def test_an_empty_transaction_sends_nothing(client, name, asked, version):
    with writing(client, name) as sink:
        asked.clear()
        assert sink.producer.open_transaction() is None
        sink.producer.commit_transaction()
        sink.producer.abort_transaction()
    assert asked == []


def test_version_2_adds_partitions_and_groups_without_requests_of_their_own(client, topic, name, asked, version):
    target = topic(3)
    with writing(client, name) as sink:
        asked.clear()
        for partition in range(3):
            sink.write(target, [b"v"], partition)
        sink.producer.commit_offsets(f"g-{name}", {TopicPartition(target, 0): (1, "")})
        sink.producer.commit_transaction()
    assert ("AddPartitionsToTxnRequest" in asked) == ("AddOffsetsToTxnRequest" in asked) == (version == 1)


def test_W7_an_aborted_transaction_is_not_visible(kafka, client, topic, name, version):
    target, group = topic(1), f"g-{name}"
    tp = TopicPartition(target, 0)
    with writing(client, name) as sink:
        sink.write(target, [b"aborted"])
        sink.producer.commit_offsets(group, {tp: (7, "aborted")})
        sink.producer.abort_transaction()
        sink.begin()
        sink.write(target, [b"committed"])
        sink.producer.commit_transaction()
        await_values(kafka, target, [b"committed"])
        assert sink.producer.cluster.committed(group, [tp]) == {tp: None}


def test_W5_offsets_are_committed_with_the_transaction(kafka, client, topic, name, version):
    target, group = topic(2), f"g-{name}"
    tps = [TopicPartition(target, 0), TopicPartition(target, 1)]
    with writing(client, name) as sink:
        sink.producer.commit_offsets(group, {tps[0]: (3, "note"), tps[1]: (4, "")})
        sink.producer.commit_transaction()
        sink.producer.begin()  # fences, and so waits until the commit is complete
        found = sink.producer.cluster.commits(group, tps)
    assert [(found[tp].offset, found[tp].metadata) for tp in tps] == [(3, "note"), (4, "")]


def test_a_member_that_the_group_does_not_know_cannot_commit(client, topic, name, version):
    with writing(client, name) as sink:
        member = GroupMember("no-such-member", 5, None)
        with pytest.raises(CommitRefused, match=f"g-{name}"):
            sink.producer.commit_offsets(f"g-{name}", {TopicPartition(topic(), 0): (1, "")}, member)


def test_W6_a_fenced_producer_can_neither_write_nor_commit(kafka, client, topic, name, version):
    target = topic()
    with writing(client, name) as zombie, writing(client, f"{name}-2") as other:
        zombie.write(target, [b"zombie"])
        zombie.producer.flush()
        opened = zombie.producer.open_transaction()
        with writing(client, name) as heir:
            heir.write(target, [b"heir"])
            heir.producer.commit_transaction()
        with pytest.raises(TransactionLost, match=name):
            zombie.producer.commit_transaction()
        assert isinstance(end_transactions(client, [opened], True, 30.0)[opened], TransactionLost)
        other.write(target, [b"other"])
        other.producer.commit_transaction()
    with writing(client, name) as sink:
        sink.deliver(target, [b"1"])
        with Producer(client, producer_settings(), name) as heir:
            heir.begin()
        with pytest.raises(TransactionLost):
            sink.deliver(target, [b"2"])
    await_values(kafka, target, [b"heir", b"other"])


def test_W6_a_transaction_that_timed_out_is_lost_and_not_visible(kafka, client, topic, name, version):
    target = topic()
    with writing(client, name, transaction_timeout=1.0) as sink:
        sink.deliver(target, [b"late"])
        opened = sink.producer.open_transaction()
        # The broker looks for such transactions every ten seconds, and then writes a marker.
        deadline = time.monotonic() + 60
        tp = TopicPartition(target, 0)
        while sink.producer.cluster.high_watermarks([tp])[tp] < 2:
            assert time.monotonic() < deadline, "the broker did not abort it"
            time.sleep(0.1)
        (lost,) = end_transactions(client, [opened], True, 30.0).values()
        assert isinstance(lost, TransactionLost)
        sink.encoder = Encoder(batch_size=1000, max_record_size=1000, buffer_size=1000)
        sink.begin()
        sink.write(target, [b"again"])
        sink.producer.commit_transaction()
    await_values(kafka, target, [b"again"])


def test_a_timeout_that_the_broker_does_not_allow_names_both_settings(client, name):
    with (
        Producer(client, producer_settings(transaction_timeout=1e6), name) as producer,
        pytest.raises(BrokerError, match=r"kafka\.transaction\.timeout\.ms.*transaction\.max\.timeout\.ms"),
    ):
        producer.begin()


def opened_by(client, target, name) -> OpenTransaction:
    """What a task leaves for the driver."""
    with writing(client, name) as sink:
        sink.deliver(target, [name.encode()], 0)
        return sink.producer.open_transaction()


@pytest.mark.parametrize("committed", [True, False])
def test_W5_transactions_of_many_tasks_are_ended_at_once_and_ends_may_be_repeated(
    kafka, client, topic, name, version, committed
):
    target = topic()
    opened = [opened_by(client, target, f"{name}-{number}") for number in range(20)]
    for _ in range(3):
        assert end_transactions(client, opened, committed, 60.0) == dict.fromkeys(opened)
    await_values(kafka, target, [each.transactional_id.encode() for each in opened] if committed else [])
    for error in end_transactions(client, opened, not committed, 60.0).values():
        assert isinstance(error, TransactionLost)


def test_W6_a_lost_answer_to_a_commit_is_not_a_lost_transaction(kafka, client, topic, name, version, monkeypatch):
    target = topic()
    opened = opened_by(client, target, name)
    honest, cuts = Connection.ask, []

    def ask(self, request, timeout):
        pending = honest(self, request, timeout)

        def cut(timeout):
            cuts.append(pending(timeout).error_code)
            self.close()
            raise ConnectionLost("cut by the test")

        return cut if request.name == "EndTxnRequest" and len(cuts) < 3 else pending

    monkeypatch.setattr(Connection, "ask", ask)
    assert end_transactions(client, [opened], True, 60.0) == {opened: None}
    assert len(cuts) == 3
    await_values(kafka, target, [name.encode()])


def test_W4_a_late_commit_cannot_end_the_next_transaction_of_a_writer(kafka, client, topic, name, version, monkeypatch):
    """Kafka before 4.0 has one epoch for all transactions of a producer."""
    target = topic()
    honest, sent = Connection.ask, []

    def ask(self, request, timeout):
        if request.name != "EndTxnRequest" or sent:
            return honest(self, request, timeout)
        self.close()
        sent.append(request)  # it is on its way
        raise ConnectionLost("cut by the test")

    monkeypatch.setattr(Connection, "ask", ask)
    with penstock.Writer(kafka.client_options() | {"kafka.transactional.id": name}, topic=target) as writer:
        with writer.transaction() as transaction:
            transaction.write(pa.table({"value": ["first"]}))
            late = writer._producer._begun
        with writer.transaction() as transaction:
            transaction.write(pa.table({"value": ["half"]}))
            refused = end_transactions(client, [late], True, 60.0)[late]
            assert isinstance(refused, TransactionLost) or version == 2  # there it repeats the end of the first one
            await_values(kafka, target, [b"first"])
            transaction.write(pa.table({"value": ["other half"]}))
        assert (len(sent), writer.result.rows) == (1, 3)
    await_values(kafka, target, [b"first", b"half", b"other half"])


@pytest.fixture
def before_kafka_3(monkeypatch):
    """Brokers that do not describe transactions, and have version 1 of the protocol."""
    honest = Connection.speaks
    monkeypatch.setattr(Connection, "feature", lambda self, name: 0)
    monkeypatch.setattr(
        Connection, "speaks", lambda self, api, version: api is not DESCRIBE_TRANSACTIONS and honest(self, api, version)
    )


@pytest.mark.usefixtures("before_kafka_3")
def test_W7_a_broker_that_does_not_describe_transactions_tells_which_are_lost(kafka, client, topic, name):
    target = topic(2)
    opened = [opened_by(client, target, f"{name}-{number}") for number in range(3)]
    assert lost_transactions(client, opened) == dict.fromkeys(opened)
    TransactionClient(client).take_transactional_id(opened[1].transactional_id, 60.0)
    assert [error is not None and error.aborted for error in lost_transactions(client, opened).values()] == [
        *(False, True, False)
    ]
    assert end_transactions(client, [opened[0], opened[2]], True, 60.0) == {opened[0]: None, opened[2]: None}
    found = {value for values in values_in(kafka, target).values() for value in values}
    assert found == {f"{name}-0".encode(), f"{name}-2".encode()}  # visible at once


def test_offsets_in_transactions_are_refused_by_brokers_that_cannot_wait_for_them(client, topic, name, monkeypatch):
    honest = Connection.speaks
    monkeypatch.setattr(
        Connection, "speaks", lambda self, api, version: api is not OFFSET_FETCH and honest(self, api, version)
    )
    with writing(client, name) as sink, pytest.raises(BrokerError, match=r"older than Kafka 2\.5.*at-least-once"):
        sink.producer.commit_offsets("g", {TopicPartition(topic(), 0): (1, "")})


def test_W6_what_the_driver_sent_is_ended_even_if_it_dies_then(kafka, client, topic, name, monkeypatch):
    """A connection for each: requests behind others on one connection would be dropped."""
    target = topic()
    opened = [opened_by(client, target, f"{name}-{number}") for number in range(8)]

    def die(timeout):
        raise KeyboardInterrupt

    def ask(self, request, timeout):
        if request.name != "EndTxnRequest":
            return honest(self, request, timeout)
        self.send(request, timeout)
        self.close()
        return die  # the process ends after the bytes are out

    honest = Connection.ask
    monkeypatch.setattr(Connection, "ask", ask)
    with pytest.raises(KeyboardInterrupt):
        end_transactions(client, opened, True, 60.0)
    await_values(kafka, target, [each.transactional_id.encode() for each in opened])


def test_W6_an_answer_that_proves_an_abort_says_so(client, topic, name):
    opened = opened_by(client, topic(), name)
    assert end_transactions(client, [opened], False, 60.0) == {opened: None}
    (lost,) = end_transactions(client, [opened], True, 60.0).values()
    assert lost.aborted
    TransactionClient(client).take_transactional_id(name, 60.0)
    (lost,) = end_transactions(client, [opened], True, 60.0).values()
    assert not lost.aborted


def test_a_batch_with_an_older_epoch_is_refused_here(client, topic, name):
    target = topic()
    with writing(client, name) as sink:
        sink.write(target, [b"1"])
        sink.producer.commit_transaction()
        with pytest.raises(AssertionError, match="another identity"):
            sink.write(target, [b"2"])


def test_open_transactions_travel_between_processes(client, topic, name):
    opened = opened_by(client, topic(), name)
    assert pickle.loads(pickle.dumps(opened)) == opened
    assert end_transactions(client, [opened], True, 60.0) == {opened: None}
    assert end_transactions(client, [], True, 60.0) == {}
