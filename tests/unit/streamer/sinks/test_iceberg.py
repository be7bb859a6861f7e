"""What is special about Iceberg."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from penstock import IcebergSink, OptionError, SinkError
from penstock.streamer.sinks.iceberg import SUMMARY, changed_properties, offsets_in
from penstock.streamer.table_offsets import OffsetMoves, OffsetsMoved, TablePartition

LOG = "penstock/1/c/g/t/id"
P0, P1 = TablePartition(LOG, 0), TablePartition(LOG, 1)
ROWS = pa.table({"value": [b"x"], "country": ["de"]})


def test_I5_properties_are_durable():
    properties = changed_properties({LOG: '{"0": 3, "2": 9}', "other": "x"}, {P0: 4, P1: 1})
    assert properties == {LOG: '{"0": 4, "1": 1, "2": 9}'}
    assert offsets_in(properties, [P0, P1, TablePartition(LOG, 7)]) == {P0: 4, P1: 1}
    assert offsets_in({}, [P0]) == {}


@pytest.mark.parametrize("text", ["", "[]", '{"0": "x"}', "null"])
def test_I5_a_property_that_has_no_offsets_is_an_error(text):
    with pytest.raises(SinkError, match="has no offsets, but"):
        offsets_in({LOG: text}, [P0])


def test_I5_snapshots_may_expire_and_others_may_follow(iceberg):
    writer = iceberg.sink().open("t")
    for at in range(3):
        writer.commit(ROWS, OffsetMoves({P0: at or None}, {P0: at + 1}))
    iceberg.maintain()
    table = iceberg.table()
    assert SUMMARY not in table.current_snapshot().summary.additional_properties, "another program's"
    assert writer.offsets([P0]) == {P0: 3}
    writer.commit(ROWS, OffsetMoves({P0: 3}, {P0: 4}))
    summary = iceberg.table().current_snapshot().summary.additional_properties[SUMMARY]
    assert json.loads(summary) == {LOG: {"0": [3, 4]}}
    assert "commit.retry.num-retries" not in iceberg.table().properties


def test_I5_files_of_a_commit_that_was_made_are_kept_though_the_catalog_says_it_failed(iceberg, monkeypatch):
    """A catalog's client repeats a request whose answer was lost. The repetition conflicts with the first one."""
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table import Transaction

    writer = iceberg.sink().open("t")
    writer.commit(ROWS, OffsetMoves({P0: None}, {P0: 1}))
    honest = Transaction.commit_transaction

    def commit_transaction(self):
        honest(self)
        monkeypatch.undo()
        raise CommitFailedException("branch main has changed")

    monkeypatch.setattr(Transaction, "commit_transaction", commit_transaction)
    with pytest.raises(OffsetsMoved):
        writer.commit(ROWS, OffsetMoves({P0: 1}, {P0: 2}))
    assert iceberg.rows().num_rows == 2


def test_I5_files_of_a_commit_that_lost_are_deleted(iceberg, monkeypatch):
    slow, quick = iceberg.sink().open("slow"), iceberg.sink().open("quick")
    quick.commit(ROWS, OffsetMoves({P0: None}, {P0: 1}))
    honest, done = OffsetMoves.check, []

    def check(self, newest):
        honest(self, newest)
        if not done:
            done.append(True)
            quick.commit(ROWS, OffsetMoves({P0: 1}, {P0: 2}))

    monkeypatch.setattr(OffsetMoves, "check", check)
    with pytest.raises(OffsetsMoved):
        slow.commit(ROWS, OffsetMoves({P0: 1}, {P0: 3}))
    files = {Path(task.file.file_path).name for task in iceberg.table().scan().plan_files()}
    folder = Path(iceberg.properties["warehouse"].removeprefix("file://"))
    assert {path.name for path in folder.rglob("*.parquet")} == files
    assert len(files) == 2


def test_a_table_whose_layout_changes_during_a_commit_gets_files_of_the_new_one(iceberg, monkeypatch):
    writer = iceberg.sink(partition_by=["country"]).open("t")
    writer.commit(ROWS, OffsetMoves({P0: None}, {P0: 1}))
    assert [field.name for field in iceberg.table().spec().fields] == ["country"]
    honest, done = OffsetMoves.check, []

    def check(self, newest):
        honest(self, newest)
        if not done:
            done.append(True)
            with iceberg.table().update_spec() as change:
                change.remove_field("country")
            iceberg.table().append(ROWS)

    monkeypatch.setattr(OffsetMoves, "check", check)
    writer.commit(ROWS, OffsetMoves({P0: 1}, {P0: 2}))
    assert iceberg.rows().num_rows == 3
    specs = iceberg.table().inspect.files().column("spec_id").to_pylist()
    assert len(set(specs)) == 2


def test_I1_arguments_are_checked(iceberg, monkeypatch):
    for wrong, said in (
        ({"table": "events"}, "must be a name with its namespace"),
        ({"partition_by": "date"}, "must be a list of columns"),
        ({"commit_bytes": 0}, "commit_bytes"),
    ):
        with pytest.raises(OptionError, match=said):
            IcebergSink(**{"table": "shop.events", **wrong})
    with pytest.raises(SinkError, match="the Iceberg catalog 'nowhere' cannot be opened"):
        IcebergSink("shop.events", catalog={"name": "nowhere", "type": "no-such"}).open("t")
    assert "hush" not in repr(IcebergSink("shop.events", catalog={"token": "hush"}))
    monkeypatch.setitem(__import__("sys").modules, "pyiceberg.catalog", None)
    with pytest.raises(SinkError, match=r"pip install 'penstock\[iceberg\]'"):
        iceberg.sink().open("t")


def test_a_catalog_object_is_taken_as_it_is(iceberg):
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("test", **iceberg.properties)
    IcebergSink("shop.events", catalog=catalog).open("t").commit(ROWS, OffsetMoves({P0: None}, {P0: 1}))
    assert iceberg.rows().num_rows == 1
