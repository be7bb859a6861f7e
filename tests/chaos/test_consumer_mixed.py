"""A group of Penstock, kafka-python and librdkafka members, with the assignors that all of them have (H6): each record
goes to one member, once."""

import threading
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from chaos.load import Load
from chaos.members import Group
from fixtures.consumer import QUICK, eventually
from fixtures.leaks import LEAKS

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
    """A consumer of another client, polled by its own thread."""

    def __init__(self) -> None:
        self.records: Counter = Counter()
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


class KafkaPython(Foreign):
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

    def poll(self):
        found = self._consumer.poll(timeout_ms=100)
        return [(tp.topic, tp.partition, record.offset) for tp, records in found.items() for record in records]

    def close(self):
        self._consumer.close()


class Rdkafka(Foreign):
    def __init__(self, kafka, group, topic, assignor):
        config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        config |= {name: QUICK[name] for name in ("session.timeout.ms", "heartbeat.interval.ms")}
        self._consumer = Consumer(config | {"partition.assignment.strategy": assignor})
        self._consumer.subscribe([topic])
        super().__init__()

    def poll(self):
        found = self._consumer.consume(100, 0.1)
        assert not [record.error() for record in found if record.error()]
        return [(record.topic(), record.partition(), record.offset()) for record in found]

    def close(self):
        self._consumer.close()


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
        assert found == Counter(everything)
        assert not mine.errors
        assert not again.errors
    finally:
        for other in others:
            other.leave()
