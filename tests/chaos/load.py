"""Writers that run in the background while a test breaks something. Afterwards they know what the broker accepted."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from fixtures.produce import rdkafka

DELIVERY_SECONDS = 60
GROUP_SECONDS = 30
COORDINATOR_LATE = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
Place = tuple[str, int]


class Writing:
    """A thread that writes until it is stopped."""

    _thread: threading.Thread
    _ended: threading.Event

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(DELIVERY_SECONDS)


class Load(Writing):
    """Numbered records, distributed by `place`. `records` has the delivered ones after the load has stopped."""

    def __init__(self, options: dict[str, str], place: Callable[[int], Place], per_second: int = 300) -> None:
        # A broker that comes back late is not a failed delivery: the producer retries for the whole test. And topics
        # grow here.
        patience = {"delivery.timeout.ms": 120_000, "reconnect.backoff.max.ms": 500}
        self._producer = Producer(rdkafka(options, **patience, **{"topic.metadata.refresh.interval.ms": 200}))
        self._place = place
        self._per_second = per_second
        self._ended = threading.Event()
        self._errors: list[object] = []
        self.values: Counter[bytes] = Counter()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    @property
    def written(self) -> int:
        """The number so far. Any thread may call it."""
        return len(self.values)

    def _run(self) -> None:
        number = 0
        begun = time.monotonic()
        try:
            while not self._ended.is_set():
                while number < (time.monotonic() - begun) * self._per_second and self._produce(number):
                    number += 1
                self._producer.poll(0.02)
        except Exception as error:
            self._errors.append(error)

    def _produce(self, number: int) -> bool:
        """Returns False if the client does not know the new partition yet."""
        topic, partition = self._place(number)
        value = b"value %d" % number
        try:
            self._producer.produce(topic, value=value, partition=partition, on_delivery=self._delivered)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:
                return False
            raise
        return True

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(error)
        else:
            self.values[message.value()] += 1

    def stop(self) -> Counter[bytes]:
        """All values written, each once: the broker has all of them."""
        self._ended.set()
        self._thread.join(DELIVERY_SECONDS)
        assert not self._thread.is_alive()
        assert self._producer.flush(2 * DELIVERY_SECONDS) == 0, "the broker did not accept all records"
        assert not self._errors, self._errors
        return self.values


class Transactions(Writing):
    """Transactions of a few records each, committed or aborted at random. One thread per instance."""

    def __init__(self, options: dict[str, str], transactional_id: str, topic: str, partitions: int, seed: int) -> None:
        self._producer = Producer(rdkafka(options, **{"transactional.id": transactional_id}))
        self._id, self._topic, self._partitions = transactional_id, topic, partitions
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._errors: list[BaseException] = []
        self.committed: Counter[bytes] = Counter()
        self.aborted: Counter[bytes] = Counter()
        self._thread = threading.Thread(target=self._run, name=transactional_id, daemon=True)

    def _run(self) -> None:
        try:
            self._producer.init_transactions(DELIVERY_SECONDS)
            number = 0
            while not self._ended.is_set():
                commit = self._random.random() < 0.5
                values = [b"%s %d %d" % (self._id.encode(), number, at) for at in range(self._random.randint(1, 20))]
                self._producer.begin_transaction()
                for value in values:
                    partition = self._random.randrange(self._partitions)
                    self._producer.produce(self._topic, value=value, partition=partition)
                self._producer.flush(DELIVERY_SECONDS)  # aborted records must be in the log, too
                if commit:
                    self._producer.commit_transaction(DELIVERY_SECONDS)
                    self.committed.update(values)
                else:
                    self._producer.abort_transaction(DELIVERY_SECONDS)
                    self.aborted.update(values)
                number += 1
        except BaseException as error:
            self._errors.append(error)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(DELIVERY_SECONDS)
        assert not self._thread.is_alive()
        assert not self._errors, self._errors


def group_offsets(options: dict[str, str], group: str, places: list[Place]) -> dict[Place, int]:
    """The committed offsets of a group, without partitions that have none."""
    consumer = Consumer({"bootstrap.servers": options["bootstrap.servers"], "group.id": group})
    asked = [TopicPartition(topic, partition) for topic, partition in places]
    end = time.monotonic() + GROUP_SECONDS
    try:
        while True:
            try:
                found = consumer.committed(asked, timeout=GROUP_SECONDS)
                return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}
            except KafkaException as error:
                # The first request about any group makes the broker create the offsets topic.
                if error.args[0].code() not in COORDINATOR_LATE or time.monotonic() > end:
                    raise
                time.sleep(0.1)
    finally:
        consumer.close()
