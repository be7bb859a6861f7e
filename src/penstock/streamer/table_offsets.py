"""Offsets that a table holds: stored in the commits that add the rows, so a record is in the table exactly once.

A commit of a Streamer adds the rows of [before, after) of a partition and moves the table's offset from `before` to
`after`. The table takes it only if its newest state still says `before`. So of two processes that hold the same
records, such as an owner and one that lost the partition and does not know yet, one commits; the other finds the
table's offset moved, and drops what is stored already. The group's generation is not asked: it could change between the
question and the commit.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from penstock.errors import SinkError
from penstock.model.topic_partition import Offsets, TopicPartition

VERSION = 1
"""Of the names below. Do not change what an existing version means: tables keep them for good."""


class TablePartition(NamedTuple):
    """A Kafka partition as a table names it, whose offset the table holds."""

    log: str
    """One log for each cluster, group, topic and id of that topic."""
    number: int


def log_name(cluster_id: str | None, group: str, topic: str, topic_id: object | None) -> str:
    """The durable name of what a group reads from a topic.

    The cluster, because two clusters may have a topic and a group of the same name, and write to one table. The topic's
    id, because a recreated topic begins at offset 0 again. Brokers before Kafka 2.8 report no topic id.
    """
    parts = [cluster_id or "-", group, topic, str(topic_id or "-")]
    return "/".join(["penstock", str(VERSION), *(quote(part, safe="") for part in parts)])


class OffsetsMoved(Exception):
    """A commit was not made: the table's offsets are not those that it expected. Internal to the Streamer."""

    def __init__(self, offsets: Mapping[TablePartition, int | None]) -> None:
        self.offsets = offsets
        """The table's newest offset of each partition that differs; None if it has none."""
        super().__init__(", ".join(f"{name.log}/{name.number}: {offset}" for name, offset in offsets.items()))


@dataclass(frozen=True, slots=True)
class OffsetMoves:
    """The offsets that a commit expects, and those that it sets."""

    before: Mapping[TablePartition, int | None]
    after: Mapping[TablePartition, int]

    def check(self, newest: Mapping[TablePartition, int]) -> None:
        """Raises OffsetsMoved if the table's newest offsets are not the expected ones."""
        moved = {name: newest.get(name) for name, offset in self.before.items() if newest.get(name) != offset}
        if moved:
            raise OffsetsMoved(moved)


class TableOffsets:
    """What the table says about the partitions of one Streamer. Any thread may call any method."""

    def __init__(self, table: str) -> None:
        self.table = table
        """For errors."""
        self._lock = threading.Lock()
        self._names: dict[TopicPartition, TablePartition] = {}
        self._offsets: dict[TopicPartition, int | None] = {}

    def assigned(self, logs: Mapping[str, str], newest: Mapping[TopicPartition, int | None]) -> None:
        """Partitions were assigned. `logs`: the names of logs by topic; `newest`: the table's offsets, or None."""
        with self._lock:
            for tp, offset in newest.items():
                self._names[tp] = TablePartition(logs[tp.topic], tp.partition)
                self._offsets[tp] = offset

    def offset(self, tp: TopicPartition) -> int | None:
        """The offset below which the table holds every record; None if it holds none of the partition."""
        with self._lock:
            return self._offsets.get(tp)

    def has(self, tp: TopicPartition) -> bool:
        with self._lock:
            return tp in self._names

    def known(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The offsets of assigned partitions, as they are at one moment."""
        with self._lock:
            return {tp: self._offsets[tp] for tp in partitions if tp in self._names}

    def moves(self, positions: Offsets, known: Mapping[TopicPartition, int | None]) -> tuple[Offsets, OffsetMoves]:
        """The positions that the table does not have yet, and the commit's part about them.

        `known`: the offsets below which the caller has dropped what it holds. Not the present ones: a rebalance may
        change those at any time, and then the commit would have rows of a partition and not its offset.
        """
        wanted: Offsets = {}
        for tp, position in positions.items():
            if tp in known and ((at := known[tp]) is None or position > at):
                wanted[tp] = position
        with self._lock:
            before = {self._names[tp]: known[tp] for tp in wanted}
            return wanted, OffsetMoves(before, {self._names[tp]: position for tp, position in wanted.items()})

    def stored(self, positions: Offsets) -> None:
        """A commit with these positions is in the table."""
        with self._lock:
            for tp, position in positions.items():
                self._offsets[tp] = max(position, self._offsets.get(tp) or 0)

    def moved(
        self,
        moved: Mapping[TablePartition, int | None],
        expected: Mapping[TablePartition, int | None],
        held: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Take over what another process has stored: the offset below which held records must be dropped.

        `expected`: the offsets that the commit expected, and not the present ones: a rebalance may have read newer ones
        than the commit has found. `held`: the first held offset of partitions. Raises SinkError if the table's offsets
        do not continue: some records would be stored twice, or never.
        """
        with self._lock:
            tps = {self._names[tp]: tp for tp in self._names}
            found: dict[TopicPartition, int] = {}
            for name, offset in moved.items():
                tp = tps[name]
                known = expected[name]
                first = held.get(tp)
                if offset is None or (known is not None and offset < known):
                    raise SinkError(
                        f"{self.table}: the table's offset of {tp.topic}-{tp.partition} went back from {known} to "
                        f"{'none' if offset is None else offset}. The table was restored or created again while the "
                        "Streamer ran. Start the Streamer again: it continues from what the table has now"
                    )
                if known is None and first is not None and first > offset:
                    raise SinkError(
                        f"{self.table}: another member of the group has stored {tp.topic}-{tp.partition} up to offset "
                        f"{offset}, and this one began at {first}. The records between would be missing. Start the "
                        "Streamers with the same `start` and auto.offset.reset; they continue from the table"
                    )
                found[tp] = offset
            for tp, offset in found.items():
                self._offsets[tp] = max(offset, self._offsets[tp] or 0)
            return found


def went_back(table: str, tp: TopicPartition, known: int, end: int) -> SinkError:
    """The error for a log that is shorter than what the table has of it."""
    return SinkError(
        f"{table} holds the records of {tp.topic}-{tp.partition} up to offset {known}, and its log ends at {end}. The "
        "log was truncated, or the topic was created again on a broker without topic ids. Records with lower offsets "
        "would be taken for stored ones. Use another group.id for the records of the new log"
    )


def truncated(table: str, tp: TopicPartition, first: int, known: int) -> SinkError:
    """The error for a log whose records were replaced by others while the Streamer read it."""
    return SinkError(
        f"{table} holds, or is about to hold, the records of {tp.topic}-{tp.partition} up to offset {known}, and its "
        f"log was truncated to {first}: an unclean leader election. Its records from there on are others. Start the "
        "Streamer again: it continues at the table's offset, without those below it"
    )


def new_partitions(assigned: Collection[TopicPartition], owned: Collection[TopicPartition]) -> list[TopicPartition]:
    return sorted(set(assigned) - set(owned))
