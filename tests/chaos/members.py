"""Members of a consumer group that join, leave and are killed, and the records that each of them got."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from chaos.load import group_offsets
from chaos.processes import Program
from fixtures.consumer import eventually, quick

MEMBER = Path(__file__).with_name("member.py")
END_SECONDS = 60.0
ASK_SECONDS = 3.0

Record = tuple[str, int, int]


class Process(Program):
    """A member that can be killed (see member.py)."""

    def __init__(self, kafka: Any, group: str, topic: str, folder: Path, name: str, **settings: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._topic = topic
        self._records = folder / f"{name}.records"
        config = {"group.id": group, "consumer.id": name, "client.id": name, "enable.auto.commit": False}
        config |= quick(settings) | kafka.client_options(prefix="") | settings
        order = folder / f"{name}.order"
        order.write_text(json.dumps({"config": config, "topic": topic, "streams": 2, "records": str(self._records)}))
        super().__init__(name, [sys.executable, MEMBER, order], folder)

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Its batches as far as it has recorded them: partition, first and last offset of each."""
        text = self._records.read_text() if self._records.exists() else ""
        whole, _, _ = text.rpartition("\n")
        for line in whole.splitlines():
            partition, first, last = map(int, line.split())
            yield partition, first, last

    def records(self) -> Counter[Record]:
        """The same, record by record."""
        found: Counter[Record] = Counter()
        for partition, first, last in self.ranges():
            found.update((self._topic, partition, offset) for offset in range(first, last + 1))
        return found

    def committed(self) -> dict[int, int]:
        """Its last commit per partition, as it printed it."""
        found: dict[int, int] = {}
        for line in self.log().splitlines():
            if line.startswith("{"):
                found |= {int(partition): offset for partition, offset in json.loads(line).items()}
        return found

    def leave(self) -> None:
        """Send SIGTERM, and wait for its end."""
        os.kill(self.pid, signal.SIGTERM)
        assert self.wait(END_SECONDS) == 0, self.log()[-3000:]
        assert "refused: " not in self.log(), self.log()[-3000:]


class Group:
    """The state of a group in Kafka, read with a client that shares no code with Penstock."""

    def __init__(self, kafka: Any, name: str, topic: str, partitions: int) -> None:
        self.name, self.topic, self.partitions = name, topic, partitions
        self._options = kafka.client_options(prefix="")
        self._admin = self._new_admin()

    def members(self) -> dict[str, list[int]]:
        """The partitions of each member by client id; {} while the group is not stable."""
        found = self._describe()
        if found is None or found.state is not ConsumerGroupState.STABLE:
            return {}
        return {
            member.member_id: sorted(tp.partition for tp in member.assignment.topic_partitions)
            for member in found.members
        }

    def knows(self, name: str) -> bool:
        """Whether the group still has a member with this client id, dead or alive."""
        found = self._describe()
        return found is not None and name in {member.client_id for member in found.members}

    def partitions_of(self, name: str) -> list[int]:
        """The partitions of the member with this client id, dead or alive."""
        found = self._describe()
        members = [] if found is None else [member for member in found.members if member.client_id == name]
        return sorted(tp.partition for member in members for tp in member.assignment.topic_partitions)

    def await_members(self, count: int, seconds: float = 90.0) -> None:
        """Wait until this many members share all partitions."""

        def shared() -> bool:
            members = self.members()
            given = sorted(partition for mine in members.values() for partition in mine)
            return len(members) == count and all(members.values()) and given == list(range(self.partitions))

        eventually(
            shared, lambda: f"{count} members that share {self.partitions} partitions; {self._standing()}", seconds
        )

    def _standing(self) -> str:
        """The state of the group, and which member has what."""
        if (found := self._describe()) is None:
            return "no broker answers"
        owned = {member.client_id: self.partitions_of(member.client_id) for member in found.members}
        return f"{found.state.name}: {owned}"

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._options["bootstrap.servers"]})

    def _describe(self) -> Any:
        """None if no broker answers. librdkafka's request hangs if the coordinator is just starting or has moved: then
        another client must ask."""
        asked = self._admin.describe_consumer_groups([self.name], request_timeout=ASK_SECONDS)
        try:
            return asked[self.name].result(2 * ASK_SECONDS)
        except (KafkaException, TimeoutError):
            self._admin = self._new_admin()
            return None

    def committed(self) -> dict[int, int]:
        """The group's offset by partition; 0 where there is none."""
        places = [(self.topic, partition) for partition in range(self.partitions)]
        found = group_offsets(self._options, self.name, places)
        return {partition: found.get((self.topic, partition), 0) for partition in range(self.partitions)}

    def everything(self) -> set[Record]:
        """All records of the topic."""
        return {
            (self.topic, partition, offset)
            for partition, end in ends(self._options, self.topic, self.partitions).items()
            for offset in range(end)
        }


def ends(options: Mapping[str, str], topic: str, partitions: int) -> dict[int, int]:
    """The log end offsets."""
    consumer = Consumer({"bootstrap.servers": options["bootstrap.servers"], "group.id": "watcher"})
    try:
        found = {}
        for partition in range(partitions):
            _, found[partition] = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        return found
    finally:
        consumer.close()


class Listening:
    """A rebalance listener that records its calls, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, set[int]]] = []

    def revoked(self, owned: list[Any]) -> None:
        self.events.append(("revoked", {tp.partition for tp in owned}))

    def assigned(self, consumer_id: str, assignment: Mapping[str, Mapping[int, str]]) -> None:
        mine = {
            partition
            for threads in assignment.values()
            for partition, thread in threads.items()
            if thread.rpartition("-")[0] == consumer_id
        }
        self.events.append(("assigned", mine))

    def count(self, what: str) -> int:
        return sum(event == what for event, _ in self.events)
