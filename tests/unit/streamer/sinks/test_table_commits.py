"""Commits of rows and offsets to tables of both kinds, without a broker: each row once, also beside others (I5)."""

from __future__ import annotations

import threading
from collections import Counter

import pyarrow as pa
import pytest

from penstock import SinkError
from penstock.streamer.table_offsets import OffsetMoves, OffsetsMoved, TablePartition, log_name

LOG = log_name("c", "g", "t", "id")
P0, P1 = TablePartition(LOG, 0), TablePartition(LOG, 1)


def rows(start, end, partition=0):
    return pa.table(
        {
            "value": [b"%d" % n for n in range(start, end)],
            "partition": pa.array([partition] * (end - start), pa.int32()),
        }
    )


def move(before, after, name=P0):
    return OffsetMoves({name: before}, {name: after})


def values(lake):
    return sorted(map(int, lake.rows().column("value").to_pylist()))


def test_I5_rows_and_offsets_are_one_commit(lake):
    writer = lake.sink().open("t")
    assert writer.offsets([P0]) == {}
    assert not writer.commit(None, move(None, 3)), "no table to store offsets in, and no columns to create one"
    assert writer.commit(rows(0, 3), move(None, 3))
    assert lake.sink().open("other").offsets([P0, P1]) == {P0: 3}
    assert writer.commit(None, move(3, 7)), "offsets alone: of records that need no row"
    both = OffsetMoves({P0: 7, P1: None}, {P0: 9, P1: 1})
    assert writer.commit(rows(7, 9), both)
    assert writer.offsets([P0, P1]) == {P0: 9, P1: 1}
    assert values(lake) == [0, 1, 2, 7, 8]


@pytest.mark.parametrize("expected", [None, 2, 4])
def test_I5_a_commit_that_expects_other_offsets_stores_nothing(lake, expected):
    writer = lake.sink().open("t")
    writer.commit(rows(0, 3), move(None, 3))
    commits = lake.commits()
    with pytest.raises(OffsetsMoved) as caught:
        lake.sink().open("late").commit(rows(0, 9), move(expected, 9))
    assert caught.value.offsets == {P0: 3}
    assert (values(lake), lake.commits()) == ([0, 1, 2], commits)


def test_I5_another_commit_between_comparison_and_commit_wins(lake, monkeypatch):
    """The comparison has passed; then another process commits the same records, before this one does."""
    slow, quick = lake.sink().open("slow"), lake.sink().open("quick")
    quick.commit(rows(0, 1), move(None, 1))
    honest, done = OffsetMoves.check, []

    def check(self, newest):
        honest(self, newest)
        if not done:
            done.append(True)
            quick.commit(rows(1, 5), move(1, 5))

    monkeypatch.setattr(OffsetMoves, "check", check)
    with pytest.raises(OffsetsMoved):
        slow.commit(rows(1, 4), move(1, 4))
    assert values(lake) == [0, 1, 2, 3, 4]


def test_I5_commits_of_other_partitions_and_compaction_do_not_disturb(lake, monkeypatch):
    slow, quick = lake.sink().open("slow"), lake.sink().open("quick")
    quick.commit(rows(0, 1, 1), move(None, 1, P1))
    quick.commit(rows(1, 2, 1), move(1, 2, P1))
    honest, done = OffsetMoves.check, []

    def check(self, newest):
        honest(self, newest)
        if not done:
            done.append(True)
            quick.commit(rows(2, 3, 1), move(2, 3, P1))
            lake.maintain(vacuum=False)

    monkeypatch.setattr(OffsetMoves, "check", check)
    slow.commit(rows(100, 103), move(None, 103))
    assert values(lake) == [0, 1, 2, 100, 101, 102]
    assert slow.offsets([P0, P1]) == {P0: 103, P1: 3}


def test_I5_many_writers_store_each_row_once(lake):
    """Four writers race for one partition: also for the creation of the table."""
    end, counts, errors = 60, Counter(), []

    def race(writer, number):
        known = None
        while (known or 0) < end:
            start = known or 0
            try:
                writer.commit(rows(start, start + 5), move(known, start + 5))
                known = start + 5
                counts[number] += 1
            except OffsetsMoved as moved:
                known = moved.offsets[P0]
            except Exception as error:  # a conflict or a busy catalog: the Streamer tries again, too
                errors.append(error)
                if len(errors) > 500:
                    return

    writers = [lake.sink().open(f"t{number}") for number in range(4)]
    threads = [threading.Thread(target=race, args=[writer, number]) for number, writer in enumerate(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert values(lake) == list(range(end))
    assert sum(counts.values()) == end // 5, errors


def test_a_table_keeps_its_schema_and_says_what_does_not_fit(lake):
    writer = lake.sink().open("t")
    writer.commit(rows(0, 1), move(None, 1))
    with pytest.raises(SinkError, match="has no column 'new'"):
        writer.write(rows(1, 2).append_column("new", pa.array([1])))
    writer.commit(rows(1, 2).select(["value"]), move(1, 2))
    assert sorted(map(str, lake.rows().column("partition").to_pylist())) == ["0", "None"]
    assert lake.rows().schema.names == ["value", "partition"]
