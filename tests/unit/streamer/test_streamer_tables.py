"""Rebalances and a sink that stores offsets, on a connector and a table made of lists (I5)."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.processes import until
from fixtures.streamer import P0, SECONDS, running
from penstock import SinkError, TopicPartition
from penstock.streamer import streamer as front_door
from penstock.streamer import table_start
from penstock.streamer.backlog import Backlog
from penstock.streamer.table_offsets import OffsetMoves, TablePartition

TOPIC_ID = uuid.uuid4()


class ListTable:
    """A sink that stores offsets. Commits wait while `gate` is closed."""

    needs_arrow = stores_offsets = True

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.stored: dict[TablePartition, int] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()
        self._lock = threading.Lock()

    def open(self, thread: str) -> ListTable:
        return self

    def write(self, rows: Any) -> None:
        pass

    def offsets(self, partitions: Any) -> dict[TablePartition, int]:
        return {name: self.stored[name] for name in partitions if name in self.stored}

    def commit(self, rows: Any, moves: OffsetMoves) -> bool:
        self.waiting.set()
        assert self.gate.wait(SECONDS)
        with self._lock:
            moves.check(self.stored)
            self.values += [] if rows is None else rows.column("value").to_pylist()
            self.stored |= moves.after
        return True

    def close(self) -> None:
        pass

    def offset(self, partition: int = 0) -> int | None:
        return next((at for name, at in self.stored.items() if name.number == partition), None)


@pytest.fixture
def cluster(monkeypatch):
    """What the cluster says: a topic id, and the ends of logs."""
    said = SimpleNamespace(topic_id=TOPIC_ID, ends={})

    class Cluster:
        def __init__(self, config: object) -> None: ...

        def metadata(self, topics: Any) -> Any:
            return SimpleNamespace(
                cluster_id="c", topics={name: SimpleNamespace(topic_id=said.topic_id) for name in topics}
            )

        def end(self, partitions: Any) -> dict[TopicPartition, int]:
            return {tp: said.ends.get(tp, 1000) for tp in partitions}

    monkeypatch.setattr(table_start, "Cluster", Cluster)
    return said


def numbers(start, end):
    return [b"%d" % n for n in range(start, end)]


def test_I5_new_partitions_are_sought_to_the_tables_offsets(fake_connector, cluster):
    table = ListTable()
    with running(fake_connector, table, partitions=(0,)):
        fake_connector.put(0, numbers(0, 5))
        assert until(lambda: table.offset() == 5, SECONDS)
        assert fake_connector.seeks == [{}]
        fake_connector.release([0])
        fake_connector.assign([0], {0: 5})
        assert fake_connector.seeks == [{}, {P0: 5}]
        fake_connector.put(0, numbers(5, 8))
        assert until(lambda: table.offset() == 8, SECONDS)
        assert until(lambda: fake_connector.committed == {P0: 8}, SECONDS), "the group's offsets follow"
    assert table.values == numbers(0, 8)


def test_I5_records_that_are_held_while_their_partition_leaves_and_returns_are_stored_once(
    fake_connector, cluster, monkeypatch
):
    """The commit hangs for longer than the group waits. The partition goes, comes back to the same thread, and its
    records are read again."""
    monkeypatch.setattr(front_door, "REVOKE_SECONDS", 0.05)
    table = ListTable()
    with running(fake_connector, table, partitions=(0,)) as streamer:
        table.gate.clear()
        fake_connector.put(0, numbers(0, 6))
        assert table.waiting.wait(SECONDS)
        fake_connector.release([0])
        fake_connector.assign([0], {0: 0})
        fake_connector.put(0, numbers(0, 9))
        table.gate.set()
        assert until(lambda: table.offset() == 9, SECONDS)
        assert streamer.metrics().already_stored == 6
    assert table.values == numbers(0, 9)


def test_I5_what_another_process_stored_meanwhile_is_dropped(fake_connector, cluster):
    table = ListTable()
    with running(fake_connector, table, partitions=(0,)) as streamer:
        fake_connector.put(0, numbers(0, 2))
        assert until(lambda: table.offset() == 2, SECONDS)
        [name] = table.stored
        table.gate.clear()
        table.waiting.clear()
        fake_connector.put(0, numbers(2, 6))
        assert table.waiting.wait(SECONDS)
        table.values += numbers(2, 8)
        table.stored[name] = 8
        fake_connector.put(0, numbers(6, 10))
        table.gate.set()
        assert until(lambda: table.offset() == 10, SECONDS)
        assert streamer.metrics().already_stored == 6
        assert streamer.metrics().rows == 4
    assert Counter(table.values) == Counter(numbers(0, 10))


def test_I5_a_log_that_is_shorter_than_the_table_ends_the_streamer(fake_connector, cluster, monkeypatch):
    monkeypatch.setattr(table_start, "PAUSE", 0.01)
    monkeypatch.setattr(front_door, "REVOKE_SECONDS", 0.05)
    table = ListTable()
    with running(fake_connector, table, partitions=(0,)):
        fake_connector.put(0, numbers(0, 5))
        assert until(lambda: table.offset() == 5, SECONDS)
    cluster.ends[P0] = 3
    fake_connector.closed = False
    with (
        pytest.raises(SinkError, match=r"holds the records of t-0 up to offset 5, and its log ends at 3"),
        running(fake_connector, table, partitions=(0,)) as streamer,
    ):
        streamer.wait(SECONDS)
    assert table.values == numbers(0, 5)


def test_I5_a_topic_that_is_recreated_while_it_is_read_ends_the_streamer(fake_connector, cluster):
    table = ListTable()
    with running(fake_connector, table, partitions=(0,)) as streamer:
        fake_connector.put(0, numbers(0, 5))
        assert until(lambda: table.offset() == 5, SECONDS)
        cluster.topic_id = uuid.uuid4()
        fake_connector._ends[P0] = 0  # the consumer has reset its position
        fake_connector.put(0, numbers(100, 102))
        with pytest.raises(SinkError, match=r"'t' was deleted and created again. Start the Streamer again"):
            streamer.wait(SECONDS)
    assert table.values == numbers(0, 5)


def test_I5_a_log_that_is_truncated_while_it_is_read_ends_the_streamer(fake_connector, cluster):
    """The log has grown again: only that its offsets went back shows that its records are others."""
    table = ListTable()
    with running(fake_connector, table, partitions=(0,)) as streamer:
        fake_connector.put(0, numbers(0, 5))
        assert until(lambda: table.offset() == 5, SECONDS)
        fake_connector._ends[P0] = 3  # the consumer has found the truncation, and reads from there
        fake_connector.put(0, numbers(100, 104))
        with pytest.raises(SinkError, match=r"records of t-0 up to offset 5, and its log was truncated to 3"):
            streamer.wait(SECONDS)
    assert table.values == numbers(0, 5)


def test_I5_a_topic_that_is_recreated_before_a_rebalance_ends_the_streamer(fake_connector, cluster):
    """A thread may hold records of the old topic, and the table would take them for those of the new one."""
    table = ListTable()
    with running(fake_connector, table, partitions=(0,)) as streamer:
        fake_connector.put(0, numbers(0, 5))
        assert until(lambda: table.offset() == 5, SECONDS)
        fake_connector.release([0])
        cluster.topic_id = uuid.uuid4()
        fake_connector.assign([0], {0: 0})
        with pytest.raises(SinkError, match=r"'t' was deleted and created again"):
            streamer.wait(SECONDS)
    assert table.values == numbers(0, 5)


def test_I5_a_rebalance_while_held_records_are_compared_stores_nothing_twice(fake_connector, cluster, monkeypatch):
    """The partition goes and comes back while a thread compares what it holds with the table: another member has stored
    more in between."""
    table = ListTable()
    with running(fake_connector, table, partitions=(0,)) as streamer:
        fake_connector.put(0, numbers(0, 2))
        assert until(lambda: table.offset() == 2, SECONDS)
        [name] = table.stored
        honest, done = Backlog.drop_below, []

        def drop_below(self, floors, *arguments):
            dropped = honest(self, floors, *arguments)
            if self.positions and not done:
                done.append(True)
                table.values += numbers(2, 8)
                table.stored[name] = 8
                streamer._table.assigned({"t": name.log}, {P0: 8})
            return dropped

        monkeypatch.setattr(Backlog, "drop_below", drop_below)
        fake_connector.put(0, numbers(2, 6))
        assert until(lambda: done and streamer.metrics().already_stored == 4, SECONDS)
    assert Counter(table.values) == Counter(numbers(0, 8))
