"""Exactly once: Python workers of Spark killed with SIGKILL, again and again, under mode=DEADLETTER.

Spark runs the task of a killed worker again. Each row must be in the sink once, and each bad record among the letters
once, for readers of committed records. A kill waits for a batch that is planned and not in the sink, and then a random
time, so that kills fall into fetching, into the letters' transaction, into the report and between tasks.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from chaos.checkpoint import Checkpoint, Moment
from chaos.processes import Driver, until
from chaos.sink import values_of, written
from fix_produce import Rec

pytestmark = [pytest.mark.spark, pytest.mark.broker]

PARTITIONS = 4
BAD_ONE_IN = 50
KILLS_PER_BATCH = 2  # a task is killed again when it is run again; and the kills are spread over the query
BATCH_SECONDS = 0.5  # of a batch with two tasks and their letters on an idle machine
NEXT_KILL_SECONDS = 150


def value(number: int) -> bytes:
    """Text, or now and then what is not."""
    return b"%s %d" % (b"value" if number % BAD_ONE_IN else b"\xff", number)


def kill_workers(driver: Driver, checkpoint: Checkpoint, kills: int) -> int:
    """Kill workers, one at a time, until there were so many or the query has ended; how many there were."""
    chance, killed = random.Random(kills), 0
    while killed < kills and driver.running:
        batch = killed // KILLS_PER_BATCH

        def reading(batch: int = batch) -> bool:
            progress = checkpoint.progress()
            return progress.planned >= batch and progress.moment is Moment.READING

        met = until(lambda: reading() or not driver.running, NEXT_KILL_SECONDS, 0.005)
        assert met, f"no batch to kill a worker in: {driver.log()[-3000:]}"
        time.sleep(chance.uniform(0, BATCH_SECONDS))
        killed += driver.kill_worker(chance)
    return killed


def letters(kafka, topic: str) -> Counter[bytes]:
    """What readers of committed records find, by librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: Counter[bytes] = Counter()
    try:
        consumer.assign([Place(topic, 0, 0)])
        while True:
            message = consumer.poll(60)
            assert message is not None, "the topic's end does not come"
            if message.error():
                return found
            found[message.value()] += 1
    finally:
        consumer.close()


def check(kafka, topic, produce, folder, kills: int, per_batch: int) -> None:
    source, dead = topic(partitions=PARTITIONS), topic()
    count = kills * per_batch  # the query outlasts the kills: a batch may be done before a kill aimed at it
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
    # By default a local master runs no task twice.
    with Driver([step], folder, master="local[2,100]") as driver:
        killed = kill_workers(driver, checkpoint, kills)
        driver.answers(600)
        assert killed == kills, "the query ended before all kills"
        assert "Lost task" in driver.log(), "no kill fell into a task"
    rows = values_of(written(checkpoint.output))
    assert rows == Counter(value(number).decode() for number in range(count) if number % BAD_ONE_IN)
    assert letters(kafka, dead) == Counter(map(value, range(0, count, BAD_ONE_IN)))


@pytest.mark.timeout(600)
def test_workers_killed_ten_times_give_each_row_and_each_letter_once(kafka, topic, produce, tmp_path):
    check(kafka, topic, produce, tmp_path, kills=10, per_batch=500)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_workers_killed_400_times_give_each_row_and_each_letter_once(kafka, topic, produce, tmp_path):
    check(kafka, topic, produce, tmp_path, kills=400, per_batch=500)
