"""The limits and the order of a search, over logs in memory."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from penstock.cli import newest_records
from penstock.cli.newest_records import SearchLimits, _Run
from penstock.cli.shown_records import COLUMNS
from penstock.model.columns import arrow_schema
from penstock.model.topic_partition import TopicPartition


class Logs:
    """Partitions of records, each a (timestamp in ms, value), that `read_range` reads in batches of two."""

    def __init__(self, *logs):
        self.logs = {TopicPartition("t", at): log for at, log in enumerate(logs)}
        self.partitions = list(self.logs)
        self.topic = SimpleNamespace(topic_id=None)
        self.cluster = self

    def end(self, partitions):
        return {tp: len(self.logs[tp]) for tp in partitions}

    def begin(self, partitions):
        return dict.fromkeys(partitions, 0)

    def largest_times(self, partitions):
        return {tp: max((at for at, _ in self.logs[tp]), default=None) for tp in partitions}

    def read_range(self, range_, columns, options, *, on_read):
        log = self.logs[TopicPartition(range_.topic, range_.partition)]
        for start in range(range_.start, range_.stop, 2):
            rows = range(start, min(start + 2, range_.stop))
            cells = {
                "partition": [range_.partition for _ in rows],
                "offset": list(rows),
                "timestamp": [log[at][0] * 1000 for at in rows],
                "key": [None for _ in rows],
                "value": [log[at][1] for at in rows],
                "headers": [None for _ in rows],
            }
            schema = arrow_schema(COLUMNS)
            batch = pa.RecordBatch.from_arrays([pa.array(cells[f.name], f.type) for f in schema], schema=schema)
            on_read(batch)
            matches = [options.where is None or options.where in log[at][1] for at in rows]
            yield batch.filter(pa.array(matches))


@pytest.fixture
def search(monkeypatch):
    def run(logs, *, where=None, limit=2, limits=None, clock=lambda: 0.0):
        monkeypatch.setattr(newest_records, "read_range", logs.read_range)
        options = SimpleNamespace(where=where)
        return _Run(options, logs, COLUMNS, limit, limits or SearchLimits(), clock).result()

    return run


def values(result):
    return [each.value.text for each in result.records]


def test_matches_are_the_newest_of_all_partitions(search, monkeypatch):
    """The partition with the latest records is read on while it may have newer ones than the other."""
    monkeypatch.setattr(newest_records, "FIRST_WINDOW", 2)
    busy = [(100 + at, b"a%d" % at) for at in range(20)]
    quiet = [(at, b"a of long ago") for at in range(20)]
    result = search(Logs(quiet, busy), where=b"a", limit=7)
    assert values(result) == [f"a{at}" for at in range(19, 12, -1)]
    assert result.scanned <= 12
    assert result.stopped is None


def test_the_limit_of_bytes_counts_what_does_not_match(search):
    log = [(at, b"x" * 1000) for at in range(100)]
    result = search(Logs(log), where=b"y", limits=SearchLimits(size=10_000))
    assert (result.records, result.stopped) == ((), "the limit of 0 MB is reached")
    assert 8 <= result.scanned <= 12


def test_the_limit_of_records_counts_what_does_not_match(search):
    result = search(Logs([(at, b"x") for at in range(100)]), where=b"y", limits=SearchLimits(records=10))
    assert (result.scanned, result.stopped) == (10, "the limit of 10 records is reached")


def test_what_was_found_before_a_limit_is_shown(search):
    times = iter([0.0, 0.0, 0.0, 99.0])
    result = search(Logs([(at, b"x") for at in range(100)]), where=b"x", clock=lambda: next(times, 99.0))
    assert result.stopped == "the limit of 10 s is reached"
    assert values(result) == ["x", "x"]


def test_an_empty_topic_has_no_records(search):
    assert search(Logs([], [])).records == ()
