"""A group of Penstock, kafka-python and librdkafka members, with the assignors that all of them have (H6): each record
goes to one member, once.

The other clients do not promise that in all cases. They report those cases, in their logs or to callbacks. Records that
were read twice are accepted only from a client that has reported one.
"""

import logging
import re
import threading
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaError
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from chaos.load import Load
from chaos.members import Group
from fixtures.consumer import QUICK, WAIT, eventually
from fixtures.leaks import LEAKS
from fixtures.produce import Rec

pytestmark = [
    pytest.mark.usefixtures("kafka_python_leaks"),
    pytest.mark.filterwarnings(f"ignore:{LEAKS}:ResourceWarning"),
]

PARTITIONS = 6
OF_KAFKA_PYTHON = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Foreign:
    """A consumer of another client, polled by its own thread.

    `reports` tells why it may have read records that another member had read, or left its own for another to read.
    """

    def __init__(self) -> None:
        self.records: Counter = Counter()
        self.reports: list[str] = []
        self.errors: list[BaseException] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self.records.update(self.poll())
            self.close()
        except BaseException as error:
            self.errors.append(error)

    def leave(self) -> None:
        self._stopped.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert not self.errors


class CoordinatorLog(logging.Handler):
    """Reads kafka-python's log for cases in which it repeats records."""

    ADMITTED = re.compile("likely to cause duplicate|lost membership|forcibly revoking")
    JOINING = "(Re-)joining group"
    JOINED = "Successfully joined group"
    ASSIGNED = "Setting newly assigned partitions"

    def __init__(self, reports: list[str]) -> None:
        super().__init__(logging.INFO)
        self._reports = reports
        self.joining = False
        self._joined = False
        """Whether the member has joined a generation whose assignment it has not applied."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if self.ADMITTED.search(text):
            self._reports.append(text)
        if text.startswith(self.JOINING):
            self.joining = True
            if self._joined:
                self._reports.append(f"dropped an assignment, and kept its old positions: {text}")
        elif text.startswith(self.JOINED):
            self._joined = True
        elif text.startswith(self.ASSIGNED):
            self.joining = self._joined = False


class KafkaPython(Foreign):
    LOG = logging.getLogger("kafka.coordinator")
    POLL_MS = 20_000
    """Long, though `poll` returns as soon as there are records. A `poll` that ends during a join drops the assignment
    that arrives next (kafka-python 3.0.12): the member joins again, and keeps the positions from before."""

    def __init__(self, kafka, group, topic, assignor):
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=QUICK["session.timeout.ms"],
            heartbeat_interval_ms=QUICK["heartbeat.interval.ms"],
            partition_assignment_strategy=[OF_KAFKA_PYTHON[assignor]],
        )
        super().__init__()

    def _run(self):
        self.log = CoordinatorLog(self.reports)
        level = self.LOG.level
        self.LOG.setLevel(logging.INFO)
        self.LOG.addHandler(self.log)
        try:
            super()._run()
        finally:
            self.LOG.removeHandler(self.log)
            self.LOG.setLevel(level)

    def poll(self):
        found = self._consumer.poll(timeout_ms=self.POLL_MS)
        return [(tp.topic, tp.partition, record.offset) for tp, records in found.items() for record in records]

    def close(self):
        self._consumer.close()


class Rdkafka(Foreign):
    def __init__(self, kafka, group, topic, assignor):
        config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        config |= {name: QUICK[name] for name in ("session.timeout.ms", "heartbeat.interval.ms")}
        config |= {"partition.assignment.strategy": assignor, "on_commit": self._on_commit}
        self._consumer = Consumer(config)
        # With `on_revoke`, partitions are revoked inside of `poll`, not while a record is on its way to the caller.
        self._consumer.subscribe([topic], on_revoke=lambda consumer, partitions: None, on_lost=self._on_lost)
        super().__init__()

    def _on_commit(self, error, partitions):
        if error is not None and error.code() != KafkaError._NO_OFFSET:  # there was nothing to commit
            self.reports.append(f"a commit failed: {error}")

    def _on_lost(self, consumer, partitions):
        self.reports.append(f"lost {len(partitions)} partitions")

    def poll(self):
        record = self._consumer.poll(0.1)
        if record is None:
            return []
        assert record.error() is None
        return [(record.topic(), record.partition(), record.offset())]

    def close(self):
        self._consumer.close()


def repeated(found, others, ours=()):
    """The records that were read more than once, though no client that read them has reported anything: which members
    have read how many of them."""
    excused = set().union(*(other.records for other in others if other.reports))
    twice = sorted(record for record, count in found.items() if count > 1 and record not in excused)
    readers = {f"{type(each).__name__} {at}": each.records() for at, each in enumerate(ours)}
    readers |= {f"{type(other).__name__} {at}": other.records for at, other in enumerate(others)}
    by = {name: sum(record in read for record in twice) for name, read in readers.items()}
    return f"{len(twice)}, the first {twice[:3]}, read by {by}" if twice else ""


@pytest.mark.parametrize("assignor", OF_KAFKA_PYTHON)
def test_H6_a_group_shared_with_other_clients_reads_each_record_once(consumers, kafka, topic, assignor):
    name = topic(partitions=PARTITIONS)
    group = Group(kafka, consumers.group, name, PARTITIONS)
    others = []

    def join(kind):
        others.append(kind(kafka, consumers.group, name, assignor))
        return others[-1]

    def ours():
        return consumers.reading(name, 2, partition_assignment_strategy=assignor)

    try:
        with Load(kafka.client_options(prefix=""), lambda i: (name, i % PARTITIONS)) as load:
            # The first member leads: each of the three is first in turn.
            first = join(Rdkafka)
            group.await_members(1)
            mine = ours()
            group.await_members(2)
            second = join(KafkaPython)
            group.await_members(3)
            eventually(lambda: all((first.records, second.records, mine.count())), "records for all of them")
            first.leave()
            group.await_members(2)
            third = join(Rdkafka)
            group.await_members(3)
            mine.connector.shutdown()
            group.await_members(2)
            again = ours()
            group.await_members(3)
            second.leave()
            third.leave()
            group.await_members(1)
            reached = again.count()
            eventually(lambda: again.count() > reached + 100, "more records")
            load.stop()
        everything = group.everything()
        found = Counter()
        deadline = time.monotonic() + 60
        while found.keys() != everything and time.monotonic() < deadline:
            found = sum((other.records for other in others), consumers.records())
            time.sleep(0.05)
        assert found.keys() == everything
        assert not repeated(found, others, [mine, again])
        assert not mine.errors
        assert not again.errors
    finally:
        for other in others:
            other.leave()


class Interrupted(KafkaPython):
    """Stops polling in the middle of its next join after `interrupt`, until `resume`."""

    def __init__(self, *arguments):
        self.interrupted = threading.Event()
        self._resumed = threading.Event()
        super().__init__(*arguments)

    def interrupt(self):
        self.POLL_MS = 500

    def resume(self):
        self.POLL_MS = KafkaPython.POLL_MS
        self._resumed.set()

    def poll(self):
        found = super().poll()
        if self.log.joining and not self._resumed.is_set():
            self.interrupted.set()
            assert self._resumed.wait(WAIT)
        return found


class SlowListener:
    """Holds back a rebalance: its `revoked` returns when `released` is set."""

    def __init__(self):
        self.released = threading.Event()

    def revoked(self, owned):
        assert self.released.wait(WAIT)

    def assigned(self, consumer_id, assignment):
        pass


def test_H6_a_client_that_repeats_records_is_known_by_its_log(consumers, kafka, topic, produce):
    """A `poll` of kafka-python ends during a join. So it misses a generation, in which Penstock reads on, and continues
    at its positions from before."""
    name = topic(partitions=PARTITIONS)
    group = Group(kafka, consumers.group, name, PARTITIONS)

    def write():
        produce(name, [Rec(b"value", partition=number % PARTITIONS) for number in range(20 * PARTITIONS)])

    def found():
        return other.records + consumers.records()

    write()
    listener = SlowListener()
    other = Interrupted(kafka, consumers.group, name, "roundrobin")
    try:
        group.await_members(1)
        first = consumers.reading(name, 2, partition_assignment_strategy="roundrobin")
        group.await_members(2)
        eventually(lambda: found().keys() == group.everything(), "all records")
        other.interrupt()
        write()  # its long poll returns
        eventually(lambda: found().keys() == group.everything(), "all records again")
        first.connector.set_rebalance_listener(listener)
        second = consumers.reading(name, 2, partition_assignment_strategy="roundrobin")
        assert other.interrupted.wait(WAIT)
        listener.released.set()
        group.await_members(3)
        before = first.count() + second.count()
        write()
        eventually(lambda: first.count() + second.count() == before + 80, "the records of four partitions")
        second.connector.shutdown()
        other.resume()
        eventually(lambda: found().keys() == group.everything(), "all records")
        assert not repeated(found(), [other])
    finally:
        listener.released.set()
        other.resume()
        write()  # its long poll returns
        other.leave()
