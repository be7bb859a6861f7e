"""A group of Java, librdkafka and Penstock members in processes of their own, under both protocols. They join and
leave, are paused for longer than their sessions, and are killed. No record is lost, and a record comes twice only if a
member that was paused or killed had read it and not committed it (H5, H8)."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.load import Load
from chaos.members import Group, Process, Record
from chaos.processes import Program
from fixtures.consumer import MORTAL, eventually
from penstock.testing.distribution import get_distribution
from support.group_clients import JAVA
from support.group_configs import set_session

PARTITIONS = 6
ASSIGNOR = "range"
"""In the classic protocol. Not cooperative-sticky: with it Java reads on while it joins again, revokes partitions only
afterwards, and commits nothing then. So their next owner reads its last record again (seen with Kafka 4.3)."""

SESSION_MS = 6000
"""The shortest that brokers allow."""

RDKAFKA_REVOKES_MS = 45_000
"""The time that the coordinator gives librdkafka to revoke partitions; its shortest. Once, on a machine at load 14, its
first heartbeat timed out, it then kept all partitions, and the others waited for the default of five minutes."""

RDKAFKA = Path(__file__).with_name("rdkafka_member.py")
JAVA_LINE = re.compile(r"^Partition:(\d+)\tOffset:(\d+)", re.MULTILINE)


class Rdkafka(Process):
    """The same as a Process, by librdkafka: only the program differs."""

    def __init__(self, kafka: Any, group: str, topic: str, folder: Path, name: str, **settings: object) -> None:
        self._topic, self._records = topic, folder / f"{name}.records"
        config = {"group.id": group, "client.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        config |= kafka.client_options(prefix="") | settings
        order = folder / f"{name}.order"
        order.write_text(json.dumps({"config": config, "topic": topic, "records": str(self._records)}))
        Program.__init__(self, name, [sys.executable, RDKAFKA, order], folder)

    def refused(self) -> set[Record]:
        """Records whose commit the coordinator has refused: librdkafka's, from inside of a rebalance, may be late."""
        found: set[Record] = set()
        committed: dict[str, int] = {}
        for line in self.log().splitlines():
            if line.startswith("{"):
                committed |= json.loads(line)
            elif line.startswith("refused "):
                for partition, stop in json.loads(line[line.index("{") : line.index("}") + 1]).items():
                    offsets = range(committed.get(partition, 0), stop)
                    found.update((self._topic, int(partition), offset) for offset in offsets)
        return found & self.records().keys()


class JavaMember(Process):
    """Kafka's console consumer, which prints each record and commits what it has printed."""

    def __init__(self, kafka: Any, group: str, topic: str, folder: Path, name: str, **settings: object) -> None:
        self._topic = topic
        distribution = get_distribution()
        properties = {"client.id": name, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 200, **settings}
        command = [str(distribution.java), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]
        command += [distribution.classpath(), "org.apache.kafka.tools.consumer.ConsoleConsumer"]
        command += ["--bootstrap-server", kafka.bootstrap_servers, "--topic", topic, "--group", group]
        for key, value in properties.items():
            command += ["--command-property", f"{key}={value}"]
        for key in ("print.partition", "print.offset"):
            command += ["--formatter-property", f"{key}=true"]
        command += ["--formatter-property", "print.value=false"]
        Program.__init__(self, name, command, folder)

    def ranges(self):
        for partition, offset in JAVA_LINE.findall(self.log().rpartition("\n")[0]):
            yield int(partition), int(offset), int(offset)

    def leave(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        self.wait(60.0)


class Clients:
    """A group of all three. Knows which records may be read again."""

    def __init__(self, kafka: Any, group: Group, folder: Path, protocol: str) -> None:
        self._kafka, self.group, self._folder = kafka, group, folder
        self._settings: dict[str, object] = {"group.protocol": protocol}
        if protocol == "classic":
            self._settings |= MORTAL
        else:
            set_session(kafka, group.name, SESSION_MS)
        self._assignor = {"partition.assignment.strategy": ASSIGNOR} if protocol == "classic" else {}
        self.all: list[Process] = []
        self.may_come_again: set[Record] = set()

    def join(self, kind: Callable[..., Process]) -> Process:
        name = f"{kind.__name__.lower()}-{len(self.all)}"
        settings = self._settings | self._assignor
        if kind is Rdkafka and not self._assignor:
            settings["max.poll.interval.ms"] = RDKAFKA_REVOKES_MS
        if kind is JavaMember and self._assignor:
            settings["partition.assignment.strategy"] = JAVA[ASSIGNOR]
        started = kind(self._kafka, self.group.name, self.group.topic, self._folder, name, **settings)
        self.all.append(started)
        return started

    def reads(self, member: Process) -> None:
        before = sum(member.records().values())
        eventually(
            lambda: sum(member.records().values()) > before + 20, lambda: f"{member.name}: {member.log()[-2000:]}"
        )

    def pause(self, member: Process, others: int) -> None:
        """Stop a process until the group goes on without it, and then let it continue."""
        # Before it stops: afterwards the answers may come so late that others have its partitions, and have committed.
        owned, committed = self.group.partitions_of(member.name), self.group.committed()
        assert owned, self.group.members()
        os.kill(member.pid, signal.SIGSTOP)
        self.group.await_members(others)
        os.kill(member.pid, signal.SIGCONT)
        self.group.await_members(others + 1)
        self._excuse(member, owned, committed)

    def kill(self, member: Process, others: int) -> None:
        owned, committed = self.group.partitions_of(member.name), self.group.committed()
        member.kill()
        self._excuse(member, owned, committed)
        self.group.await_members(others)

    def _excuse(self, member: Process, owned: list[int], committed: dict[int, int]) -> None:
        self.may_come_again |= {
            record for record in member.records() if record[1] in owned and record[2] >= committed[record[1]]
        }

    def records(self) -> Counter[Record]:
        return sum((member.records() for member in self.all), Counter())

    def explain(self, records: set[Record]) -> str:
        """Who has read these records, and which commits came too late."""
        read = {member.name: member.records() for member in self.all}
        lines = []
        for record in sorted(records)[:20]:
            lines.append(f"{record}: {[name for name, mine in read.items() if record in mine]}")
        for member in self.all:
            late = [line for line in member.log().splitlines() if line.startswith(("late", "refused"))]
            lines += [f"{member.name}: {line}" for line in late]
        return "\n".join(lines)

    def close(self) -> None:
        for member in self.all:
            member.kill()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_H8_members_of_three_clients_are_paused_and_killed_and_no_record_is_lost(kafka, topic, tmp_path, protocol):
    name = topic(partitions=PARTITIONS)
    group = Group(kafka, f"{name}-group", name, PARTITIONS)
    clients = Clients(kafka, group, tmp_path, protocol)
    try:
        with Load(kafka.client_options(prefix=""), lambda i: (name, i % PARTITIONS)) as load:
            penstock, rdkafka, java = (clients.join(kind) for kind in (Process, Rdkafka, JavaMember))
            group.await_members(3)
            for member in (penstock, rdkafka, java):
                clients.reads(member)
                clients.pause(member, others=2)
            for member in (penstock, rdkafka, java):
                clients.reads(member)
            clients.kill(rdkafka, others=2)
            again = clients.join(Rdkafka)
            group.await_members(3)
            clients.reads(again)
            clients.kill(penstock, others=2)
            last = clients.join(Process)
            group.await_members(3)
            clients.reads(last)
            java.leave()
            group.await_members(2)
            again.leave()
            group.await_members(1)
            clients.reads(last)
            load.stop()
        everything = group.everything()
        eventually(lambda: clients.records().keys() == everything, "every record")
        twice = {record for record, times in clients.records().items() if times > 1}
        for member in clients.all:
            twice -= member.refused() if isinstance(member, Rdkafka) else set()
        assert twice <= clients.may_come_again, clients.explain(twice - clients.may_come_again)
        last.leave()
    finally:
        clients.close()
