"""Exactly once: Python workers of Spark are killed with SIGKILL repeatedly, under mode=DEADLETTER.

Spark runs the task of a killed worker again. Each row must be in the sink once, and each bad record among the letters
once, for readers of committed records. Kills alternate: one hits any moment of a batch that is planned but not in the
sink, the next one the moment at which letters are appended, in the middle of their transaction.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from chaos.checkpoint import Checkpoint, Moment
from chaos.processes import Driver, until
from chaos.sink import values_of, written
from fixtures.produce import Rec

pytestmark = [pytest.mark.spark, pytest.mark.broker]

PARTITIONS = 4
BAD_ONE_IN = 50
BATCH_SECONDS = 0.5  # of a batch with two tasks and their letters on an idle machine
AIM_SECONDS = 2.0
SECONDS = 150


class Letters:
    """The dead-letter topic, with one partition, read with librdkafka."""

    def __init__(self, kafka, topic: str) -> None:
        self.place = Place(topic, 0, 0)
        self._config = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        self._watching = Consumer(self._config | {"isolation.level": "read_uncommitted"})

    def end(self) -> int:
        """The log end offset, committed or not."""
        return self._watching.get_watermark_offsets(self.place, timeout=SECONDS)[1]

    def committed(self) -> Counter[bytes]:
        """The letters that readers of committed records find."""
        consumer = Consumer(self._config)
        found: Counter[bytes] = Counter()
        try:
            consumer.assign([self.place])
            while True:
                message = consumer.poll(SECONDS)
                assert message is not None, "librdkafka did not reach the end of the topic"
                if message.error():
                    return found
                found[message.value()] += 1
        finally:
            consumer.close()

    def close(self) -> None:
        self._watching.close()


def kill(pids: list[int]) -> int:
    """Send SIGKILL to the processes that still run. Returns their number."""
    killed = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def kill_workers(driver: Driver, checkpoint: Checkpoint, letters: Letters, kills: int) -> int:
    """Kill workers up to this number, or until the query ends. Returns the number of kills."""
    chance, killed, turn = random.Random(kills), 0, 0

    def reading(newer_than: int) -> bool:
        progress = checkpoint.progress()
        return progress.planned > newer_than and progress.moment is Moment.READING

    batch = -1  # each turn has its own batch
    while killed < kills and driver.running:
        met = until(lambda newer_than=batch: reading(newer_than) or not driver.running, SECONDS, 0.005)
        assert met, f"no batch to kill a worker in: {driver.log()[-3000:]}"
        batch, before = checkpoint.progress().planned, letters.end()
        if turn % 2 == 0:
            time.sleep(chance.uniform(0, BATCH_SECONDS))
            workers = driver.task_workers()
        else:
            until(driver.task_workers, AIM_SECONDS, 0.01)
            workers = driver.task_workers()
            until(lambda end=before, last=batch: letters.end() > end or not reading(last - 1), AIM_SECONDS, 0)
        killed += kill(workers)
        turn += 1
    return killed


def value(number: int) -> bytes:
    """Text, or sometimes bytes that are not text."""
    return b"%s %d" % (b"value" if number % BAD_ONE_IN else b"\xff", number)


def check(kafka, topic, produce, folder, kills: int, per_batch: int) -> None:
    source, dead = topic(partitions=PARTITIONS), topic()
    count = kills * per_batch  # the query outlasts the kills: a turn kills two workers, one, or none
    produce(source, [Rec(value(number), partition=number % PARTITIONS) for number in range(count)])
    checkpoint = Checkpoint(folder / "checkpoint", folder / "output")
    options = kafka.client_options() | {
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(per_batch),
        "valueFormat": "string",
        "mode": "DEADLETTER",
        "deadLetterTopic": dead,
    }
    step = {
        "do": "stream",
        "format": "penstock",
        "options": options,
        "path": str(checkpoint.output),
        "checkpoint": str(checkpoint.folder),
        "trigger": {"availableNow": True},
    }
    # By default a local master does not repeat a task.
    with contextlib.closing(Letters(kafka, dead)) as letters, Driver([step], folder, master="local[2,100]") as driver:
        killed = kill_workers(driver, checkpoint, letters, kills)
        driver.answers(600)
        assert killed >= kills, "the query ended before all kills"
        assert "Lost task" in driver.log(), "no kill fell into a task"
        rows = values_of(written(checkpoint.output))
        assert rows == Counter(value(number).decode() for number in range(count) if number % BAD_ONE_IN)
        assert letters.committed() == Counter(map(value, range(0, count, BAD_ONE_IN)))


@pytest.mark.timeout(600)
def test_workers_killed_eight_times_give_each_row_and_each_letter_once(kafka, topic, produce, tmp_path):
    check(kafka, topic, produce, tmp_path, kills=8, per_batch=500)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_workers_killed_400_times_give_each_row_and_each_letter_once(kafka, topic, produce, tmp_path):
    check(kafka, topic, produce, tmp_path, kills=400, per_batch=500)
