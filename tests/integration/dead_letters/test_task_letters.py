"""Dead letters of a task: one for each bad record, however its attempts end."""

from __future__ import annotations

import random
import threading
import time
import uuid
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, IsolationLevel
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    OffsetSpec,
)
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Resource

from penstock.config.source import parse_options
from penstock.dead_letters.scope import LetterScope
from penstock.dead_letters.task_letters import RangeLetters, check_topic
from penstock.errors import AuthorizationFailed, BrokerError, UnknownTopic
from penstock.model.columns import TYPES
from penstock.model.offset_range import OffsetRange
from penstock.testing import EmbeddedKafka
from penstock.wire.producer.producer import Producer
from penstock.wire.transport.connection import Connection, ConnectionLost
from support.acls import allow

WAIT = 60


@pytest.fixture
def client(kafka):
    return parse_options(kafka.client_options() | {"subscribe": "t"}).client


@pytest.fixture
def scope():
    return LetterScope("query", uuid.uuid4().hex[:12], ("raw", "json"))


def records(range_: OffsetRange, value: bytes = b"{", headers: Any = ()) -> pa.RecordBatch:
    """What a task has read: a record for each offset of its range."""
    rows = [
        {
            "key": b"k%d" % offset,
            "value": value,
            "topic": range_.topic,
            "partition": range_.partition,
            "offset": offset,
            "timestamp": 1_600_000_000_000_000 + offset * 1000,
            "timestampType": 0,
            "headers": list(headers),
        }
        for offset in range(range_.start, range_.stop)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(list(TYPES.items())))


def attempt(client, dead, range_, scope, bad=None, value=b"{"):
    """A whole task that finds some rows bad, by default all. Returns how many letters it wrote."""
    batch = records(range_, value)
    with RangeLetters(client, dead, range_, scope) as letters:
        letters.add(batch, [(row, "value", f"row {row} is bad") for row in (range(len(batch)) if bad is None else bad)])
        return letters.finish()


def read(kafka, dead, isolation="read_committed", partition=0):
    """Everything in a partition of a topic, by librdkafka."""
    await_markers(kafka, dead, partition)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([Place(dead, partition, 0)])
        found = []
        while True:
            message = consumer.poll(WAIT)
            assert message is not None, "the topic's end does not come"
            if message.error():
                return found
            found.append(message)
    finally:
        consumer.close()


def await_markers(kafka, dead, partition):
    """Return when no transaction is open. A coordinator answers a commit first and writes its marker then; for readers
    of what is committed the topic ends before the marker until it is there."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    place = Place(dead, partition)

    def end(level):
        asked = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=level, request_timeout=WAIT)
        return asked[place].result(WAIT).offset

    deadline = time.monotonic() + WAIT
    while end(IsolationLevel.READ_COMMITTED) != end(IsolationLevel.READ_UNCOMMITTED):
        assert time.monotonic() < deadline, "a transaction is open"
        time.sleep(0.02)


def offsets(messages):
    return [int(dict(message.headers())["penstock.offset"]) for message in messages]


def test_a_letter_is_the_record_with_where_and_why_as_headers(kafka, topic, client, scope):
    source, dead = topic(), topic()
    range_ = OffsetRange(source, 0, 100, 103)
    batch = records(range_, b"\xff{", [{"key": "mine", "value": b"1"}])
    with RangeLetters(client, dead, range_, scope) as letters:
        letters.add(batch, [(2, "value", "no JSON"), (0, "value", "field a: x" * 200), (2, "key", "too short")])
        assert letters.finish() == 2
    first, second = read(kafka, dead)
    assert (first.key(), first.value()) == (b"k100", b"\xff{")
    assert dict(first.headers()) == {
        "mine": b"1",
        "penstock.topic": source.encode(),
        "penstock.partition": b"0",
        "penstock.offset": b"100",
        "penstock.timestamp": b"1600000000100",
        "penstock.stage": b"value",
        "penstock.error": b"MalformedRecord",
        "penstock.reason": (b"field a: x" * 200)[:1000],
    }
    said = dict(second.headers())
    assert (said["penstock.stage"], said["penstock.reason"]) == (b"key,value", b"key: too short; value: no JSON")
    assert second.timestamp()[1] > first.timestamp()[1] - 1 > 1_700_000_000_000


@pytest.mark.parametrize("transactional", [True, False])
def test_letters_to_a_broker_before_kafka_2_1_are_gzip(kafka, topic, client, scope, monkeypatch, transactional):
    monkeypatch.setattr("penstock.wire.producer.transaction_client.KNOWS_ZSTD", 999)
    source, dead = topic(), topic()
    range_ = OffsetRange(source, 0, 0, 3)
    with RangeLetters(client, dead, range_, scope, transactional) as letters:
        letters.add(records(range_), [(row, "value", "bad") for row in range(3)])
        assert letters.finish() == 3
    assert offsets(read(kafka, dead)) == [0, 1, 2]


def test_a_task_without_bad_records_asks_nobody(client, scope, asked):
    with RangeLetters(client, "no-such-topic", OffsetRange("t", 0, 0, 9), scope) as letters:
        letters.add(records(OffsetRange("t", 0, 0, 9)), [])
        assert letters.finish() == 0
    assert asked == []


def test_an_attempt_that_fails_leaves_nothing(kafka, topic, client, scope, asked):
    source, dead = topic(), topic()
    range_ = OffsetRange(source, 0, 0, 5)
    with RangeLetters(client, dead, range_, scope) as letters:
        letters.add(records(range_), [(1, "value", "bad")])
    assert letters.finish() == 0, "it was left without a finish"
    assert asked == []
    assert attempt(client, dead, range_, scope, [1]) == 1
    assert offsets(read(kafka, dead)) == [1]


def test_a_retry_after_the_commit_writes_nothing_more(kafka, topic, client, scope):
    source, dead = topic(), topic()
    range_ = OffsetRange(source, 0, 10, 20)
    assert attempt(client, dead, range_, scope, [3, 5]) == 2
    assert attempt(client, dead, range_, scope, [3, 5]) == 0
    following = OffsetRange(source, 0, 20, 30)
    assert attempt(client, dead, following, scope, [0]) == 1
    assert attempt(client, dead, following, scope, [0]) == 0
    assert attempt(client, dead, range_, scope, [3, 5]) == 0
    assert attempt(client, dead, OffsetRange(source, 0, 5, 25), scope, [0, 8, 15]) == 1, "however they were cut"
    assert offsets(read(kafka, dead)) == [13, 15, 20, 5]
    assert attempt(client, dead, range_, replace(scope, id="another"), [3]) == 1, "what another query reads is its own"


@pytest.mark.parametrize("request_name", ["ProduceRequest", "TxnOffsetCommitRequest", "EndTxnRequest"])
@pytest.mark.parametrize("heard", [False, True], ids=["unheard", "heard"])
def test_a_process_that_dies_anywhere_is_repeated_once(kafka, topic, client, scope, monkeypatch, request_name, heard):
    """`heard`: whether the broker still gets the last request; then it may have committed."""
    source, dead = topic(), topic()
    range_ = OffsetRange(source, 0, 0, 4)
    honest = Connection.send
    dying = True

    class Killed(BaseException):
        pass

    def send(self, request, timeout):
        if dying and request.name == request_name:
            if heard:
                honest(self, request, timeout)
                self.receive_into(bytearray(1000), timeout)
            raise Killed
        return honest(self, request, timeout)

    monkeypatch.setattr(Connection, "send", send)
    monkeypatch.setattr(Producer, "abort_transaction", lambda self: None)
    with pytest.raises(Killed):
        attempt(client, dead, range_, scope)
    dying = False
    committed = heard and request_name == "EndTxnRequest"
    assert attempt(client, dead, range_, scope) == (0 if committed else 4)
    assert offsets(read(kafka, dead)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "request_name",
    [
        "InitProducerIdRequest",
        "AddPartitionsToTxnRequest",
        "ProduceRequest",
        "AddOffsetsToTxnRequest",
        "TxnOffsetCommitRequest",
        "EndTxnRequest",
    ],
)
def test_an_answer_that_is_lost_is_asked_for_again(kafka, topic, client, scope, monkeypatch, request_name):
    source, dead = topic(), topic()
    honest = Connection.ask
    lost = []

    def ask(self, request, timeout):
        pending = honest(self, request, timeout)
        if request.name != request_name or lost:
            return pending

        def answer(timeout):
            lost.append(pending(timeout))
            self.close()
            raise ConnectionLost("cut")

        return answer

    monkeypatch.setattr(Connection, "ask", ask)
    if request_name.startswith("Add"):  # only version 1 of transactions has it
        monkeypatch.setattr(Connection, "feature", lambda self, name: 0)
    range_ = OffsetRange(source, 0, 0, 3)
    assert attempt(client, dead, range_, scope) == 3
    assert len(lost) == 1
    assert offsets(read(kafka, dead)) == [0, 1, 2]
    assert attempt(client, dead, range_, scope) == 0


def test_two_attempts_at_once_write_once(kafka, topic, client, scope, monkeypatch):
    """The first has written all and is about to commit when the second does the whole task."""
    source, dead = topic(), topic()
    range_ = OffsetRange(source, 0, 0, 6)
    honest = Producer.commit_transaction
    others = []

    def commit(self):
        if not others:
            others.append(None)
            others.append(attempt(client, dead, range_, scope))
        honest(self)

    monkeypatch.setattr(Producer, "commit_transaction", commit)
    assert attempt(client, dead, range_, scope) == 0
    assert others == [None, 6]
    assert offsets(read(kafka, dead)) == list(range(6))
    assert len(read(kafka, dead, "read_uncommitted")) == 12


def test_what_was_not_read_does_not_count_as_done(kafka, topic, client, scope):
    source, dead = topic(), topic()
    range_ = OffsetRange(source, 0, 0, 9)
    with RangeLetters(client, dead, range_, scope) as letters:
        letters.add(records(range_), [(2, "value", "bad")])
        assert letters.finish(read_until=4) == 1
    assert attempt(client, dead, range_, scope, [2, 4, 8]) == 2
    assert offsets(read(kafka, dead)) == [2, 4, 8]


def test_a_record_that_fails_in_another_attempt_only_has_its_letter(kafka, topic, client, scope):
    source, dead = topic(), topic()
    range_ = OffsetRange(source, 0, 0, 5)
    assert attempt(client, dead, range_, scope, [1]) == 1
    assert attempt(client, dead, range_, scope, [3]) == 1, "it gave no row, so it must have a letter"
    assert attempt(client, dead, range_, scope, [1, 3]) == 0
    assert offsets(read(kafka, dead)) == [1, 3]


def test_records_out_of_order_are_refused(client, scope):
    range_ = OffsetRange("t", 0, 0, 9)
    with RangeLetters(client, "dead", range_, scope) as letters:
        letters.add(records(range_), [(5, "value", "bad")])
        with pytest.raises(ValueError, match="offset 5 comes after 5"):
            letters.add(records(range_), [(5, "key", "bad")])


def test_ranges_of_one_partition_at_once(kafka, topic, client, scope):
    source, dead = topic(), topic()
    ranges = [OffsetRange(source, 0, start, start + 10) for start in range(0, 60, 10)]
    written = {}

    def run(r):
        written[r] = attempt(client, dead, r, scope, [0, 9])

    for _ in range(2):
        threads = [threading.Thread(target=run, args=(r,), daemon=True) for r in ranges]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(written) == len(ranges)
    assert set(written.values()) == {0}
    assert sorted(offsets(read(kafka, dead))) == sorted(o for r in ranges for o in (r.start, r.stop - 1))


def test_many_letters_are_written_as_they_come(kafka, topic, client, scope, monkeypatch):
    source, dead = topic(), topic(1)
    range_ = OffsetRange(source, 0, 0, 10_000)
    batch = records(range_, b"x" * 1000)
    faults = [(row, "value", "bad") for row in range(500)]
    most = []
    with RangeLetters(client, dead, range_, scope) as letters:
        for at in range(0, 8000, 500):
            letters.add(batch.slice(at, 500), faults)
            most.append(letters._buffered_bytes)
    assert max(most) < 4 << 20
    seen = offsets(read(kafka, dead))
    assert 0 < len(seen) < 8000, "an attempt that ends early leaves whole transactions only"
    with RangeLetters(client, dead, range_, scope) as letters:
        for at in range(0, 10_000, 500):
            letters.add(batch.slice(at, 500), faults)
        assert letters.finish() == 10_000 - len(seen)
    assert offsets(read(kafka, dead)) == list(range(10_000))


def test_what_is_too_large_for_the_topic_goes_without_its_value(kafka, topic, client, scope):
    source, dead = topic(), topic(1, max_message_bytes=2000)
    range_ = OffsetRange(source, 0, 0, 3)
    noise = random.Random(6).randbytes(5000)
    batch = records(range_, b"small")
    values = pa.array([b"small", noise, b"small"], pa.binary())
    batch = batch.set_column(batch.schema.get_field_index("value"), "value", values)
    with RangeLetters(client, dead, range_, scope) as letters:
        letters.add(batch, [(row, "value", "bad") for row in range(3)])
        assert letters.finish() == 3
    found = read(kafka, dead)
    assert offsets(found) == [0, 1, 2]
    assert [message.value() for message in found] == [b"small", None, b"small"]
    assert dict(found[1].headers())["penstock.dropped"] == str(len(noise)).encode()
    assert attempt(client, dead, range_, scope) == 0


def test_a_key_that_is_too_large_for_the_topic_is_left_out_too(kafka, topic, client, scope):
    source, dead = topic(), topic(1, max_message_bytes=2000)
    range_ = OffsetRange(source, 0, 0, 1)
    noise = random.Random(7).randbytes(5000)
    batch = records(range_, b"small")
    batch = batch.set_column(batch.schema.get_field_index("key"), "key", pa.array([noise], pa.binary()))
    with RangeLetters(client, dead, range_, scope) as letters:
        letters.add(batch, [(0, "key", "bad")])
        assert letters.finish() == 1
    [found] = read(kafka, dead)
    assert (found.key(), found.value()) == (None, None)
    headers = dict(found.headers())
    assert (headers["penstock.dropped"], headers["penstock.dropped.key"]) == (b"5", b"5000")


def test_letters_keep_to_the_partition_of_their_source(kafka, topic, client, scope):
    source, dead = topic(5), topic(2)
    for partition in range(5):
        assert attempt(client, dead, OffsetRange(source, partition, 0, 1), scope) == 1
    counts = [len(read(kafka, dead, partition=partition)) for partition in range(2)]
    assert counts == [3, 2]


def test_a_topic_made_anew_has_other_records_at_the_same_offsets(kafka, topic, client, scope):
    source, dead = topic(), topic()
    for topic_id in (uuid.uuid4(), uuid.uuid4()):
        range_ = OffsetRange(source, 0, 0, 2, topic_id)
        assert [attempt(client, dead, range_, scope) for _ in range(2)] == [2, 0]
    kafka.delete_topic(dead)
    kafka.create_topic(dead)
    assert attempt(client, dead, range_, scope) == 2, "letters that went with their topic are written again"


# --- an upgrade -------------------------------------------------------------------------------------------------------


def earlier_version(client, dead, range_, scope, bad):
    """A task of the version before, which knew the scope only by its earlier name."""

    class Earlier(LetterScope):
        name = scope.earlier

    return attempt(client, dead, range_, Earlier("query", "any"), bad)


def test_letters_of_an_earlier_version_are_not_repeated_and_none_is_lost(kafka, topic, client, scope):
    source, dead = topic(), topic()
    scope = replace(scope, earlier=uuid.uuid4().hex[:16])
    range_, following = OffsetRange(source, 0, 0, 10), OffsetRange(source, 0, 10, 20)
    assert earlier_version(client, dead, range_, scope, [3, 5]) == 2
    assert attempt(client, dead, range_, scope, [3, 5]) == 0
    assert attempt(client, dead, range_, scope, [3, 5, 7]) == 1, "this version writes a note of its own"
    assert attempt(client, dead, following, scope, [0]) == 1
    assert earlier_version(client, dead, following, scope, [2]) == 1
    assert attempt(client, dead, following, scope, [2]) == 1, "from then on, the earlier note does not count"
    assert attempt(client, dead, range_, scope, [3, 5, 7]) == 0, "what the earlier note said is in the new one"
    assert attempt(client, dead, range_, replace(scope, earlier=None), [3, 5]) == 0
    assert offsets(read(kafka, dead)) == [3, 5, 7, 10, 12, 12]


def test_an_open_transaction_of_an_earlier_version_does_not_hold_up_this_one(kafka, topic, client, scope, monkeypatch):
    """Its note is unstable until the transaction ends, and the coordinator gives it a minute."""
    source, dead = topic(), topic()
    scope = replace(scope, earlier=uuid.uuid4().hex[:16])
    range_ = OffsetRange(source, 0, 0, 10)
    with monkeypatch.context() as killed:

        def die(self):
            raise KeyboardInterrupt

        killed.setattr(Producer, "commit_transaction", die)
        killed.setattr(Producer, "abort_transaction", lambda self: None)
        with pytest.raises(KeyboardInterrupt):
            earlier_version(client, dead, range_, scope, [3, 5])
    began = time.monotonic()
    assert attempt(client, dead, range_, scope, [3, 5]) == 2
    assert time.monotonic() - began < 30
    assert offsets(read(kafka, dead)) == [3, 5]


def test_without_transactions_letters_are_written_plainly(kafka, topic, client, scope, asked):
    source, dead = topic(), topic()
    range_ = OffsetRange(source, 0, 0, 2)
    for _ in range(2):
        with RangeLetters(client, dead, range_, scope, transactional=False) as letters:
            letters.add(records(range_), [(1, "key", "bad")])
            assert letters.finish() == 1
    assert offsets(read(kafka, dead)) == [1, 1]
    assert "InitProducerIdRequest" not in asked


def test_a_topic_that_is_not_there_is_named_when_the_plan_is_made(client, topic):
    check_topic(client, topic())
    with pytest.raises(UnknownTopic, match=r"'no-such-topic' does not exist: .*deadLetterTopic"):
        check_topic(client, "no-such-topic")


# --- what a cluster may refuse ----------------------------------------------------------------------------------------


def test_a_clock_a_day_behind_writes_letters_and_one_a_day_ahead_is_named(kafka, topic, client, scope, monkeypatch):
    """Kafka refuses timestamps of more than an hour to come. A retry under the right clock writes each letter once."""
    source, dead = topic(), topic()
    day = 24 * 3600 * 10**9
    now = time.time_ns
    monkeypatch.setattr("penstock.dead_letters.letter_writer.time.time_ns", lambda: now() - day)
    assert attempt(client, dead, OffsetRange(source, 0, 0, 2), scope) == 2
    monkeypatch.setattr("penstock.dead_letters.letter_writer.time.time_ns", lambda: now() + day)
    with pytest.raises(BrokerError, match="Set the clock of this machine right"):
        attempt(client, dead, OffsetRange(source, 0, 2, 5), scope)
    monkeypatch.undo()
    assert attempt(client, dead, OffsetRange(source, 0, 2, 5), scope) == 3
    assert len(read(kafka, dead)) == 5


def test_what_acls_must_allow_and_what_happens_without(scope, caplog):
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    users = dict.fromkeys(("nobody", "writer", "forgetful", "looking", "whole", "admin"))
    with EmbeddedKafka(listener="SASL_PLAINTEXT", users=users, settings=settings) as kafka:
        kafka.create_topic("words")
        kafka.create_topic("dead")
        may_write = ("writer", "forgetful", "looking", "whole")
        write, read_ = AclOperation.WRITE, AclOperation.READ
        allow(
            kafka,
            *((user, read_, Resource.TOPIC, "words", Pattern.LITERAL) for user in users),
            *((user, write, Resource.TOPIC, "dead", Pattern.LITERAL) for user in may_write),
            *(
                (user, write, Resource.TRANSACTIONAL_ID, "penstock-letters:", Pattern.PREFIXED)
                for user in may_write[1:]
            ),
            ("looking", AclOperation.DESCRIBE, Resource.GROUP, "penstock-letters:", Pattern.PREFIXED),
            ("whole", read_, Resource.GROUP, "penstock-letters:", Pattern.PREFIXED),
        )

        def client(user):
            return parse_options(kafka.client_options(user=user) | {"subscribe": "words"}).client

        range_ = OffsetRange("words", 0, 0, 2)
        with pytest.raises(AuthorizationFailed, match="'dead'"):
            check_topic(client("nobody"), "dead")
        for act in (lambda c: check_topic(c, "dead"), lambda c: attempt(c, "dead", range_, scope)):
            with pytest.raises(AuthorizationFailed, match="deadLetterTransactional to false"):
                act(client("writer"))
        with RangeLetters(client("writer"), "dead", range_, scope, transactional=False) as letters:
            letters.add(records(range_), [(1, "key", "bad")])
            assert letters.finish() == 1

        check_topic(client("whole"), "dead")
        assert [attempt(client("whole"), "dead", range_, scope) for _ in range(2)] == [2, 0]
        warned = [record for record in caplog.records if record.name.startswith("penstock.")]
        assert warned == []

        check_topic(client("forgetful"), "dead")
        for user in ("forgetful", "looking"):
            theirs = LetterScope("query", user)
            assert [attempt(client(user), "dead", range_, theirs) for _ in range(2)] == [2, 2]
            warned = [m for m in caplog.messages if "may be written more than once" in m]
            assert [m for m in warned if f"penstock-letters:v2:query:{user}" in m]
        check_topic(client("forgetful"), "dead")
        assert sum("penstock-letters::dead" in message for message in caplog.messages) == 1
