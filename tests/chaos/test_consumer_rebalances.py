"""A group whose members join, leave and are killed under load: every record once, except for records that a killed
member had not committed (H5, H7, H8)."""

import os
import random
import signal
import threading
import time
import uuid
from pathlib import Path

import pytest

from chaos.load import Load
from chaos.members import Group, Listening, Process
from fixtures.consumer import MORTAL, Consumers, Reading, eventually
from fixtures.produce import Rec
from support.group_configs import set_session

PARTITIONS = 12
CONSUMER = "consumer"
ASSIGNORS = ["range", "roundrobin", "cooperative-sticky", CONSUMER]
"""The last one stands for the protocol in which the brokers assign."""
MORTAL_SECONDS = 6


def settings_of(assignor: str) -> dict[str, object]:
    return {"group.protocol": CONSUMER} if assignor == CONSUMER else {"partition.assignment.strategy": assignor}


class Changing:
    """A group of members in this process, which end cleanly, and of members in other processes, which are killed."""

    def __init__(self, consumers: Consumers, kafka, topic: str, folder: Path, assignor: str) -> None:
        self.group = Group(kafka, consumers.group, topic, PARTITIONS)
        self._consumers, self._kafka, self._topic, self._folder = consumers, kafka, topic, folder
        self._settings = settings_of(assignor)
        self._mortal = {} if assignor == CONSUMER else MORTAL
        if assignor == CONSUMER:
            set_session(kafka, consumers.group, MORTAL_SECONDS * 1000)
        self._processes: list[Process] = []
        self.read_again: set = set()
        """Records that killed members had read and not committed, by the group's offsets at that time."""
        self.may_be_read_again: set = set()
        """The same by the killed member's output. Its last commit may have succeeded without its knowing."""

    def here(self, by: str = "messages", listener: Listening | None = None) -> Reading:
        settings = {name.replace(".", "_"): value for name, value in self._settings.items()}
        connector = self._consumers.connector(**settings)
        connector.set_rebalance_listener(listener)
        reading = Reading(connector, connector.create_message_streams({self._topic: 2})[self._topic], by)
        self._consumers.readings.append(reading)
        return reading

    def process(self, **more: object) -> Process:
        name = f"process-{len(self._processes)}"
        settings = self._settings | more
        started = Process(self._kafka, self.group.name, self._topic, self._folder, name, **settings)
        self._processes.append(started)
        return started

    def mortal(self) -> Process:
        """A process whose session ends soon after it is killed."""
        return self.process(**self._mortal)

    def kill(self, process: Process) -> None:
        eventually(process.records, f"{process.name} has read something")
        process.kill()
        committed, reported = self.group.committed(), process.committed()
        given = set(process.records())
        if self.group.knows(process.name):  # otherwise other members may have committed meanwhile
            self.read_again |= {record for record in given if record[2] >= committed[record[1]]}
        self.may_be_read_again |= {record for record in given if record[2] >= reported.get(record[1], 0)}

    def records(self):
        found = self._consumers.records()
        for process in self._processes:
            found.update(process.records())
        return found

    def close(self) -> None:
        for process in self._processes:
            process.kill()


def come_and_go(changing: Changing, load: Load, listening: Listening) -> Reading:
    """1 -> 3 -> 2 -> 4 -> 1 members. Returns the one that stayed."""
    group = changing.group
    first = changing.here(listener=listening)
    group.await_members(1)
    eventually(first.count, "records")
    killed, here = changing.mortal(), changing.here("batches")
    group.await_members(3)
    changing.kill(killed)
    group.await_members(2)
    leaving, killed = changing.process(), changing.mortal()
    group.await_members(4)
    eventually(leaving.records, "records")
    changing.kill(killed)
    here.connector.shutdown()
    leaving.leave()
    group.await_members(1)
    reached = first.count()
    eventually(lambda: first.count() > reached + 100, "more records")
    load.stop()
    return first


def check(changing: Changing, first: Reading, listening: Listening, assignor: str) -> None:
    everything = changing.group.everything()
    eventually(lambda: changing.records().keys() == everything, "every record")
    found = changing.records()
    assert max(found.values()) <= 2
    twice = {record for record, times in found.items() if times == 2}
    assert changing.read_again <= twice <= changing.may_be_read_again
    rebalances = first.connector.metrics().rebalances
    assert rebalances == listening.count("assigned") >= 5
    stays(listening) if assignor in ("cooperative-sticky", CONSUMER) else stops(listening)


def stays(listening: Listening) -> None:
    """A cooperative member never stops the partitions that it keeps."""
    held: set[int] = set()
    kept = 0
    for at, (event, partitions) in enumerate(listening.events):
        if event == "revoked":
            assert partitions <= held
            held -= partitions
            assert listening.events[at + 1][0] == "assigned"
            assert not partitions & listening.events[at + 1][1], "released, and then begun again"
        else:
            assert held <= partitions
            kept += len(held)
            held = set(partitions)
    assert kept > 0
    assert held == set(range(PARTITIONS))


def stops(listening: Listening) -> None:
    """An eager member revokes all its partitions before it gets new ones."""
    held: set[int] = set()
    for event, partitions in listening.events:
        if event == "revoked":
            assert partitions == held
            held = set()
        else:
            assert not held
            held = set(partitions)
    assert held == set(range(PARTITIONS))


def run(consumers: Consumers, kafka, folder: Path, assignor: str) -> None:
    topic = f"t-{uuid.uuid4().hex[:12]}"
    kafka.create_topic(topic, PARTITIONS)
    changing, listening = Changing(consumers, kafka, topic, folder, assignor), Listening()
    try:
        with Load(kafka.client_options(prefix=""), lambda i: (topic, i % PARTITIONS)) as load:
            first = come_and_go(changing, load, listening)
        check(changing, first, listening, assignor)
    finally:
        changing.close()


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_H8_members_join_leave_and_are_killed_and_every_record_comes_once(consumers, kafka, tmp_path, assignor):
    run(consumers, kafka, tmp_path, assignor)


def test_H8_the_same_on_three_nodes(cluster_consumers, kafka_cluster, tmp_path):
    run(cluster_consumers, kafka_cluster, tmp_path, "cooperative-sticky")


class Slow(Reading):
    """Nearly always in the middle of a batch when something happens."""

    @staticmethod
    def _messages(stream, seen) -> None:
        for message in stream:
            seen.append((message.topic, message.partition, message.offset))
            if message.offset % 10 == 0:
                time.sleep(0.001)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky", CONSUMER])
def test_H8_members_that_join_and_leave_without_waiting_for_each_other(consumers, kafka, topic, produce, assignor):
    name = topic(partitions=PARTITIONS)
    chance = random.Random(5)
    behind = produce(name, [Rec(b"x", partition=i % PARTITIONS) for i in range(10_000 * PARTITIONS)])

    def join() -> Reading:
        kind, by = chance.choice([(Reading, "messages"), (Reading, "batches"), (Slow, "messages"), (Slow, "messages")])
        settings = {name.replace(".", "_"): value for name, value in settings_of(assignor).items()}
        connector = consumers.connector(max_partition_fetch_bytes=20_000, **settings)
        consumers.readings.append(kind(connector, connector.create_message_streams({name: 2})[name], by))
        return consumers.readings[-1]

    with Load(kafka.client_options(prefix=""), lambda i: (name, i % PARTITIONS), per_second=1000) as load:
        members, leaving = [join()], []
        for _ in range(20):
            if len(members) == 1 or chance.random() < 0.5:
                members.append(join())
            else:
                leaver = members.pop(chance.randrange(len(members)))
                leaving.append(threading.Thread(target=leaver.connector.shutdown))
                leaving[-1].start()
            time.sleep(chance.uniform(0, 0.6))
        for thread in leaving:
            thread.join()
        count = behind + sum(load.stop().values())

    def missing() -> str:
        have = consumers.records()
        lines = [f"{len(have)} of {count} records"]
        for reading in consumers.readings:
            connector = reading.connector
            lines.append(f"{connector._membership.state} {connector.lag()} {reading.errors}")
        return "\n".join(lines)

    def came() -> int:
        return sum(reading.count() for reading in consumers.readings)

    # Counted, not compared: comparing so many records repeatedly would take the readers' time. And without a deadline
    # while records come: the last member is alone, and slow. The test fails if no more records come.
    while (before := came()) < count:
        eventually(lambda: came() > before, missing)
    assert max(consumers.records().values()) == 1
    assert len(consumers.records()) == count
    assert not [error for reading in consumers.readings for error in reading.errors]


def test_H7_a_cooperative_member_keeps_reading_while_a_rebalance_waits_for_another_member(
    consumers, kafka, topic, tmp_path
):
    """The member that kept the others waiting was removed meanwhile: it notices, and takes nothing back."""
    name = topic(partitions=PARTITIONS)
    changing = Changing(consumers, kafka, name, tmp_path, "cooperative-sticky")
    try:
        with Load(kafka.client_options(prefix=""), lambda i: (name, i % PARTITIONS)) as load:
            # Its session is long enough to see the others continue, and short enough to wait for its end.
            first, asleep = changing.here(), changing.process(**{"session.timeout.ms": 15_000})
            changing.group.await_members(2)
            eventually(asleep.records, "records")
            eventually(lambda: first.connector._membership.state == "stable", "the end of that rebalance")
            os.kill(asleep.pid, signal.SIGSTOP)
            third = changing.here()
            eventually(lambda: first.connector._membership.state == "joining", "a rebalance")
            stays, reached = set(first.connector.assignment()), first.connector.position()
            assert len(stays) == PARTITIONS / 2
            eventually(
                lambda: all(first.connector.position()[tp] > reached[tp] + 5 for tp in stays), "records of all of them"
            )
            assert first.connector._membership.state == "joining", "the sleeper was thrown out too early to see this"
            first.connector.commit_offsets()
            changing.group.await_members(2)
            os.kill(asleep.pid, signal.SIGCONT)
            changing.group.await_members(3)
            load.stop()
        everything = changing.group.everything()
        eventually(lambda: changing.records().keys() == everything, "every record")
        others = first.records() + third.records()
        assert max(others.values()) == 1
        assert "refused: " in asleep.log(), "its last commit came too late"
    finally:
        changing.close()
