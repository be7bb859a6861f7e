"""A group under load for ten minutes, on three nodes: members join and leave, brokers are stopped and killed. Memory
stays flat and the lag bounded. Without killed members no record is lost, and none comes twice.

`PENSTOCK_SOAK_SECONDS=60 pytest -m soak tests/chaos/test_consumer_soak.py` is a short run.
"""

import os
import random
import time
import uuid
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from chaos.load import Load
from chaos.members import Group, Process, ends
from fixtures.consumer import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

SECONDS = float(os.environ.get("PENSTOCK_SOAK_SECONDS", "600"))
PARTITIONS = 12
PER_SECOND = 2000
MB = 1 << 20
ASSIGNORS = ["cooperative-sticky", "range"]


class Soak:
    def __init__(self, kafka, folder: Path, assignor: str) -> None:
        self._kafka, self._folder = kafka, folder
        self._chance = random.Random(9)
        self._settings = {"partition.assignment.strategy": assignor, "session.timeout.ms": 45_000}
        self.topic = f"soak-{uuid.uuid4().hex[:8]}"
        kafka.create_topic(self.topic, PARTITIONS)
        self.group = Group(kafka, f"{self.topic}-group", self.topic, PARTITIONS)
        self.all: list[Process] = []
        self.members: list[Process] = []
        self.events: Counter[str] = Counter()
        # Of the member that stays, between two events:
        self.memory: list[int] = []
        self.threads: list[int] = []
        self.files: list[int] = []

    def join(self) -> None:
        name = f"member-{len(self.all)}"
        started = Process(self._kafka, self.group.name, self.topic, self._folder, name, **self._settings)
        self.all.append(started)
        self.members.append(started)
        self.group.await_members(len(self.members))

    def leave(self) -> None:
        self.members.pop(self._chance.randrange(1, len(self.members))).leave()
        self.group.await_members(len(self.members))

    def break_a_broker(self) -> None:
        node = self._chance.choice(self._kafka.node_ids)
        if self._chance.random() < 0.5:
            self._kafka.kill_node(node)
            time.sleep(self._chance.uniform(0, 5))
        self._kafka.restart_node(node)

    def run(self, seconds: float) -> None:
        self.join()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            choices = [self.break_a_broker]
            choices += [self.join] * 2 if len(self.members) < 4 else []
            choices += [self.leave] * 2 if len(self.members) > 1 else []
            event = self._chance.choice(choices)
            event()
            self.events[event.__name__] += 1
            self.settle()

    def settle(self) -> None:
        """Wait until the lag falls to what two seconds write."""
        options = self._kafka.client_options(prefix="")

        def lag() -> float:
            try:
                committed = self.group.committed()
                return sum(end - committed[p] for p, end in ends(options, self.topic, PARTITIONS).items())
            except KafkaException:  # a new leader does not know its end yet
                return float("inf")

        eventually(lambda: lag() < 2 * PER_SECOND, "a small lag", 90)
        process = Path(f"/proc/{self.members[0].pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        self.memory.append(int(status["VmRSS"].split()[0]) * 1024)
        self.threads.append(int(status["Threads"]))
        self.files.append(len(list((process / "fd").iterdir())))

    def close(self) -> None:
        for process in self.all:
            process.kill()


def exactly_once(members: list[Process], end: dict[int, int]) -> None:
    """The batches of all members together cover each partition from its beginning to its end."""
    read = defaultdict(list)
    for member in members:
        for partition, first, last in member.ranges():
            read[partition].append((first, last))
    for partition in range(PARTITIONS):
        at = 0
        for first, last in sorted(read[partition]):
            assert first == at, f"partition {partition}: offset {at} is lost, or {first} came twice"
            at = last + 1
        assert at == end[partition]


def flat(values: list[int], slack: int) -> bool:
    half = len(values) // 2
    return max(values[half:]) <= max(values[:half]) + slack


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_H8_a_group_under_load_for_minutes(kafka_cluster, tmp_path, assignor):
    soak = Soak(kafka_cluster, tmp_path, assignor)
    options = kafka_cluster.client_options(prefix="")
    try:
        with Load(options, lambda i: (soak.topic, i % PARTITIONS), per_second=PER_SECOND) as load:
            soak.run(SECONDS / len(ASSIGNORS))
            count = sum(load.stop().values())
        end = ends(options, soak.topic, PARTITIONS)
        assert sum(end.values()) >= count  # if its broker was killed, the producer may have written a record twice
        eventually(lambda: soak.group.committed() == end, "everything is read")
        for process in soak.members:
            process.leave()
        exactly_once(soak.all, end)
        found = f"{dict(soak.events)}, {count} records, {soak.memory} bytes, {soak.threads} threads, {soak.files} files"
        (tmp_path / "soak.txt").write_text(found)
        assert flat(soak.memory, 16 * MB), found
        assert flat(soak.threads, 2), found
        assert flat(soak.files, 6), found
    finally:
        soak.close()
