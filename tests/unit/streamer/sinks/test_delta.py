"""What is special about Delta Lake."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock import DeltaSink, OptionError, SinkError
from penstock.streamer.sinks.delta import RETENTION, application_id
from penstock.streamer.table_offsets import OffsetMoves, TablePartition

NAME = TablePartition("penstock/1/c/g/t/id", 3)
ROWS = pa.table({"value": [b"x"], "at": pa.array([0], pa.timestamp("us", "UTC"))})


def test_I5_application_ids_are_durable():
    assert application_id(NAME) == "penstock/1/c/g/t/id/3"


def test_I5_a_table_that_forgets_offsets_is_refused(delta):
    with pytest.raises(OptionError, match="would let the table forget its offsets"):
        delta.sink(configuration={RETENTION: "interval 7 days"})
    delta.sink().open("t").commit(ROWS, OffsetMoves({NAME: None}, {NAME: 1}))
    delta.table().alter.set_table_properties({RETENTION: "interval 7 days"}, raise_if_not_exists=False)
    with pytest.raises(SinkError, match=r"interval 7 days.*UNSET TBLPROPERTIES"):
        delta.sink().open("t")


def test_I5_offsets_survive_checkpoints_cleanup_and_restore(delta):
    writer = delta.sink().open("t")
    for at in range(12):
        writer.commit(ROWS, OffsetMoves({NAME: at or None}, {NAME: at + 1}))
        if at in (5, 11):
            delta.maintain()
    assert writer.offsets([NAME]) == {NAME: 12}
    delta.table().restore(delta.table().version() - 1)
    assert writer.offsets([NAME]) == {NAME: 12}, "what was taken out does not return"


def test_properties_and_partitions_of_a_new_table(delta):
    sink = delta.sink(partition_by=["at"], configuration={"delta.appendOnly": "true"})
    sink.open("t").commit(ROWS, OffsetMoves({NAME: None}, {NAME: 1}))
    metadata = delta.table().metadata()
    assert (metadata.partition_columns, metadata.configuration) == (["at"], {"delta.appendOnly": "true"})


def test_I1_arguments_are_checked(tmp_path, monkeypatch):
    for wrong, said in (
        ({"table": ""}, "is missing"),
        ({"partition_by": "date"}, "must be a list of columns"),
        ({"commit_rows": 0}, "commit_rows"),
        ({"commit_seconds": 0}, "commit_seconds"),
    ):
        with pytest.raises(OptionError, match=said):
            DeltaSink(**{"table": str(tmp_path), **wrong})
    with pytest.raises(SinkError, match="does not accept these options"):
        DeltaSink(tmp_path / "t", nonsense=1).open("t").commit(ROWS, OffsetMoves({NAME: None}, {NAME: 1}))
    secret = DeltaSink(tmp_path, storage_options={"AWS_SECRET_ACCESS_KEY": "hush"})
    assert "hush" not in repr(secret)
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(SinkError, match=r"pip install 'penstock\[delta\]'"):
        DeltaSink(tmp_path).open("t")
