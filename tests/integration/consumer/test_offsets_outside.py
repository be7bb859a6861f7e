"""Offsets that are kept outside of Kafka: a seek in the listener's `assigned` decides where a partition starts (H7)."""

import contextlib
import sqlite3
import threading

import pytest

from fixtures.consumer import WAIT, eventually
from fixtures.stream import records, tp
from penstock import ConsumerTimeout

PROTOCOLS = {
    "range": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}


def with_protocols(*quick):
    """Runs a test with each protocol; those that are not named only in the extended tests."""
    each = [pytest.param(PROTOCOLS[p], id=p, marks=() if p in quick else pytest.mark.extended) for p in PROTOCOLS]
    return pytest.mark.parametrize("protocol", each)


def names_of(consumer_id, assignment):
    """The partitions of this consumer."""
    return [
        tp(topic, partition)
        for topic, threads in assignment.items()
        for partition, thread in threads.items()
        if thread.rpartition("-")[0] == consumer_id
    ]


class SeekTo:
    """Starts partitions that it has not seen at one offset, once their logs have it."""

    def __init__(self, connector, offset):
        self.connector, self.offset = connector, offset
        self.has_offset = threading.Event()
        self.has_offset.set()
        self.before, self.after, self.errors = {}, {}, []

    def revoked(self, owned):
        pass

    def assigned(self, consumer_id, assignment):
        try:
            assert self.has_offset.wait(WAIT)
            new = [each for each in names_of(consumer_id, assignment) if each not in self.connector.assignment()]
            self.before |= {each: at for each, at in self.connector.position().items() if each in new}
            self.connector.seek(dict.fromkeys(new, self.offset))
            self.connector.pause(new)
            assert set(new) <= set(self.connector.paused())
            self.connector.resume(new)
            self.after |= {each: at for each, at in self.connector.position().items() if each in new}
        except BaseException as error:
            self.errors.append(error)
            raise


@with_protocols("range", "consumer")
def test_H7_a_seek_in_assigned_decides_where_a_new_partition_starts(consumers, topic, produce, operator, protocol):
    name = topic(partitions=2)
    for partition in (0, 1):
        produce(name, records(60, partition))
    first = consumers.reading(name, **protocol)
    eventually(lambda: first.count() == 120, "all records")
    first.connector.shutdown()

    connector = consumers.connector(consumer_timeout_ms=500, **protocol)
    listener = SeekTo(connector, 50)
    connector.set_rebalance_listener(listener)
    (stream,) = connector.create_message_streams({name: 1})[name]
    seen = set()

    def reads_the_end_of(partitions):
        """In an eager rebalance, the other partitions are assigned again: they are read from the seek on once more."""

        def has_read():
            with contextlib.suppress(ConsumerTimeout):
                seen.update((message.partition, message.offset) for message in stream)
            return {partition for partition, _ in seen} == set(range(partitions)) and len(seen) >= 10 * partitions

        eventually(has_read, lambda: f"records of {partitions} partitions, not {sorted(seen)}: {listener.errors}")

    reads_the_end_of(2)
    listener.has_offset.clear()  # the protocol `consumer` may assign it before its records are there
    operator.grow(name, 3)
    produce(name, records(60, 2))
    listener.has_offset.set()
    reads_the_end_of(3)
    assert not listener.errors
    assert listener.before[tp(name, 0)] == 60, "the group's offset shows in the callback"
    assert listener.after == {tp(name, partition): 50 for partition in range(3)}
    assert seen == {(partition, offset) for partition in range(3) for offset in range(50, 60)}


class Table:
    """Rows and offsets in one sqlite file. Both change in one transaction."""

    def __init__(self, path):
        self.path = path
        with self.open() as database:
            database.execute("CREATE TABLE IF NOT EXISTS rows (part INTEGER, at INTEGER)")
            database.execute("CREATE TABLE IF NOT EXISTS offsets (part INTEGER PRIMARY KEY, next INTEGER)")

    @contextlib.contextmanager
    def open(self):
        database = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")
        finally:
            database.close()

    def next_offset(self, database, partition):
        found = database.execute("SELECT next FROM offsets WHERE part = ?", [partition]).fetchone()
        return found[0] if found else 0

    def write(self, partition, offsets):
        """Write the rows that the table does not have. Another member may have written them meanwhile."""
        with self.open() as database:
            stored = self.next_offset(database, partition)
            assert offsets[0] <= stored, f"offsets {stored} to {offsets[0]} of partition {partition} are missing"
            new = [offset for offset in offsets if offset >= stored]
            if new:
                database.executemany("INSERT INTO rows VALUES (?, ?)", [(partition, offset) for offset in new])
                database.execute("REPLACE INTO offsets VALUES (?, ?)", [partition, new[-1] + 1])

    def rows(self):
        with self.open() as database:
            return sorted(database.execute("SELECT part, at FROM rows").fetchall())


class Loader:
    """A member that writes what it reads into a table, and starts where the table ends."""

    def __init__(self, consumers, table, topic, **settings):
        self.connector = consumers.connector(
            enable_auto_commit=False, auto_offset_reset="none", consumer_timeout_ms=200, **settings
        )
        self._table = table
        self.errors = []
        self.connector.set_rebalance_listener(self)
        (self._stream,) = self.connector.create_message_streams({topic: 1})[topic]
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def revoked(self, owned):
        pass

    def assigned(self, consumer_id, assignment):
        new = [each for each in names_of(consumer_id, assignment) if each not in self.connector.assignment()]
        with self._table.open() as database:
            self.connector.seek({each: self._table.next_offset(database, each.partition) for each in new})

    def _run(self):
        while not self._closing.is_set():
            try:
                for batch in self._stream.batches(["partition", "offset"]):
                    self._table.write(batch["partition"][0].as_py(), batch["offset"].to_pylist())
                return
            except ConsumerTimeout:
                continue
            except BaseException as error:
                self.errors.append(error)
                return

    def close(self):
        self._closing.set()
        self.connector.shutdown()
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert not self.errors


@with_protocols("consumer")
def test_H7_offsets_beside_the_rows_give_each_row_once_through_restarts_and_rebalances(
    consumers, topic, produce, tmp_path, protocol
):
    name = topic(partitions=4)
    table = Table(tmp_path / "rows.sqlite")
    written = 0

    def more(count=200):
        nonlocal written
        for partition in range(4):
            produce(name, records(count, partition))
        written += count

    def load(**settings):
        return Loader(consumers, table, name, **protocol, **settings)

    more()
    first = load()
    eventually(table.rows, "the first rows")
    second = load()
    more()
    eventually(lambda: len(second.connector.assignment()) == 2, "a rebalance")
    more()
    first.close()
    third = load()
    more()
    eventually(lambda: len(table.rows()) >= 4 * written, lambda: f"{written} rows of each partition")
    second.close()
    third.close()
    assert table.rows() == [(partition, offset) for partition in range(4) for offset in range(written)]
