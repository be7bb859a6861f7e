"""A cluster of plain values: the answers a StreamPlanner gets, without a broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

from penstock.errors import UnknownTopic
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.metadata import Broker, Leader, Metadata, Topic

BROKER = Broker(1, "broker", 9092)
OTHER_BROKER = Broker(2, "other-broker", 9092)


@dataclass
class Log:
    """One partition: its records have the offsets [begin, end)."""

    begin: int = 0
    end: int = 0
    epoch: int = 0
    """The leader epoch."""
    epoch_ends: dict[int, int] = field(default_factory=dict)
    """The end offsets of earlier leader epochs."""
    stable_end: int | None = None
    """The last stable offset, if a transaction is open."""
    has_leader: bool = True
    bytes_per_record: float = 100.0


class FakeCluster:
    """Topics that a test creates, fills, truncates and deletes; implements `StreamCluster`."""

    def __init__(self, read_committed: bool = False) -> None:
        self.config = SimpleNamespace(read_committed=read_committed)
        self.known: Metadata | None = None
        self.logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[str, uuid.UUID | None] = {}
        self.groups: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        """Committed offsets with their leader epochs."""
        self.questions: list[str] = []
        """The methods that were called, in order."""

    # --- called by tests ----------------------------------------------------------------------------------------------

    def create(self, topic: str, *ends: int, with_id: bool = True) -> None:
        """A topic with one partition for each end, of records from offset 0."""
        self.topic_ids[topic] = uuid.uuid4() if with_id else None
        for partition, end in enumerate(ends):
            self.logs[TopicPartition(topic, partition)] = Log(end=end)

    def grow(self, topic: str, *ends: int) -> None:
        """Adds a partition for each end."""
        count = sum(tp.topic == topic for tp in self.logs)
        for partition, end in enumerate(ends, start=count):
            self.logs[TopicPartition(topic, partition)] = Log(end=end)

    def delete(self, topic: str) -> None:
        del self.topic_ids[topic]
        self.logs = {tp: log for tp, log in self.logs.items() if tp.topic != topic}

    def recreate(self, topic: str, *ends: int) -> None:
        self.delete(topic)
        self.create(topic, *ends)

    def truncate(self, tp: TopicPartition, at: int, end: int) -> None:
        """Elects a leader that lacks the records from `at` on, and appends other records up to `end`."""
        log = self.logs[tp]
        log.epoch_ends[log.epoch] = at
        log.epoch += 1
        log.end = end
        self.listing(None)

    # --- called by the planner ----------------------------------------------------------------------------------------

    def metadata(self, topics):
        metadata, unknown = self.listing(topics)
        if unknown:
            raise UnknownTopic(unknown[0])
        return metadata

    def listing(self, topics):
        self.questions.append("listing")
        names = list(self.topic_ids) if topics is None else [name for name in topics if name in self.topic_ids]
        partitions: dict[str, dict[int, Leader | None]] = {name: {} for name in names}
        for tp, log in sorted(self.logs.items()):
            if tp.topic in partitions:
                partitions[tp.topic][tp.partition] = Leader(BROKER, log.epoch) if log.has_leader else None
        found = {name: Topic(name, self.topic_ids[name], name.startswith("__"), partitions[name]) for name in names}
        unknown = [name for name in topics or () if name not in self.topic_ids]
        metadata = Metadata({BROKER.node_id: BROKER}, found)
        known = metadata if topics is None or self.known is None else self.known.updated(metadata)
        self.known = known.without(unknown) if unknown else known
        return metadata, unknown

    def _log(self, tp: TopicPartition) -> Log:
        log = self.logs.get(tp)
        if log is None:
            raise UnknownTopic(tp.topic, None if tp.topic not in self.topic_ids else tp.partition)
        return log

    def _readable(self, log: Log) -> int:
        is_open = self.config.read_committed and log.stable_end is not None
        return log.stable_end if is_open else log.end

    def begin(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.questions.append("begin")
        return {tp: self._log(tp).begin for tp in partitions}

    def end(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.questions.append("end")
        return {tp: self._readable(self._log(tp)) for tp in partitions}

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._log(tp).end for tp in partitions}

    def hidden_past(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: self._log(tp).end for tp, end in ends.items() if self._log(tp).end > end}

    def reachable_ends(self, partitions, wait_for):
        self.questions.append("reachable_ends")
        return {tp: self._readable(log) for tp in partitions if (log := self._log(tp)).has_leader}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        self.questions.append("epoch_ends")
        return {tp: (epoch, self._log(tp).epoch_ends.get(epoch, self._log(tp).end)) for tp, epoch in epochs.items()}

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        known = self.groups.get(group, {})
        return {tp: known[tp][0] if tp in known else None for tp in partitions}

    def commits(self, group: str, partitions: Iterable[TopicPartition]):
        known = self.groups.get(group, {})
        return {tp: SimpleNamespace(offset=known[tp][0], leader_epoch=known[tp][1]) for tp in partitions if tp in known}

    def first_at(self, times, ends, since=None):
        raise NotImplementedError("logs of this cluster have no timestamps: see timed_logs.py")

    def bytes_per_record(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        self.questions.append("bytes_per_record")
        return {tp: self._log(tp).bytes_per_record for tp in positions}
