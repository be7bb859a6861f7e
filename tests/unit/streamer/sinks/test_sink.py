"""Sinks alone: complete files, and SQLite through ADBC."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from fixtures.streamer import batch_of
from penstock import AdbcSink, CallableSink, OptionError, ParquetSink, RowsRefused, SinkError
from penstock.streamer.sinks.adbc import open_connection

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})


@pytest.fixture
def patient_sqlite(monkeypatch):
    """Wait for a lock as long as a slow disk may take."""
    monkeypatch.setattr("penstock.streamer.sinks.adbc.SQLITE_WAIT_MS", 120_000)


def table_of(rows, path):
    sink = AdbcSink(f"sqlite:{path}", "t", mode="create_append")
    writer = sink.open("0")
    writer.write(rows)
    writer.close()


def rows_in(path, table="t"):
    import adbc_driver_sqlite.dbapi

    with adbc_driver_sqlite.dbapi.connect(str(path)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        return cursor.fetchall()


# --- functions ------------------------------------------------------------------------------------------------------


def test_a_function_gets_the_rows():
    seen = []
    writer = CallableSink(seen.append).open("0")
    writer.write(ROWS)
    writer.write([1, 2])
    writer.close()
    assert seen == [ROWS, [1, 2]]


# --- Parquet --------------------------------------------------------------------------------------------------------


def test_each_write_is_one_whole_file_with_a_name_of_its_own(tmp_path):
    sink = ParquetSink(tmp_path / "new" / "folder")
    writers = [sink.open("0"), sink.open("1")]
    for writer in writers:
        writer.write(ROWS)
        writer.write(ROWS)
        writer.write(ROWS.slice(0, 0))  # no rows, no file
    files = sorted((tmp_path / "new" / "folder").iterdir())
    assert len(files) == 4
    assert all(file.name.startswith("part-") and file.suffix == ".parquet" for file in files)
    assert ds.dataset(tmp_path / "new" / "folder").to_table().sort_by("a").num_rows == 12
    assert all(pq.read_table(file).equals(ROWS) for file in files)
    assert pq.ParquetFile(files[0]).metadata.row_group(0).column(0).compression == "ZSTD"


def test_readers_see_nothing_of_a_file_that_is_being_written(tmp_path, monkeypatch):
    seen = []
    honest = os.fsync

    def look(handle):
        seen.append(
            (sorted(p.name[0] for p in tmp_path.iterdir()), ds.dataset(tmp_path, format="parquet").count_rows())
        )
        honest(handle)

    writer = ParquetSink(tmp_path).open("0")
    writer.write(ROWS)
    monkeypatch.setattr(os, "fsync", look)
    writer.write(ROWS)
    assert seen == [([".", "p"], 3), (["p", "p"], 6)]  # before the rename, and after it


@pytest.mark.parametrize("moment", ["write", "fsync", "rename"])
def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch, moment):
    writer = ParquetSink(tmp_path, partition_by=["b"]).open("0")

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if moment == "write":
            patch.setattr(pq, "write_table", fail)
        elif moment == "fsync":
            patch.setattr(os, "fsync", fail)
        else:
            renamed = []
            honest = Path.rename
            patch.setattr(Path, "rename", lambda a, b: fail() if renamed else (renamed.append(1), honest(a, b)))
        with pytest.raises(OSError, match="No space left"):
            writer.write(ROWS)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    writer.write(ROWS)
    assert ds.dataset(tmp_path, partitioning="hive").count_rows() == 3


def test_a_file_system_that_does_not_sync_folders_is_written_to(tmp_path, monkeypatch):
    honest = os.fsync

    def fsync(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")  # as network mounts do
        honest(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    ParquetSink(tmp_path, partition_by=["b"]).open("0").write(ROWS)
    assert ds.dataset(tmp_path, partitioning="hive").count_rows() == 3


def test_rows_that_parquet_has_no_type_for_are_no_reason_to_try_again(tmp_path):
    writer = ParquetSink(tmp_path).open("0")
    unions = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(SinkError, match="cannot be written as Parquet"):
        writer.write(pa.table({"u": unions}))


def test_files_of_a_killed_process_are_removed_after_an_hour(tmp_path):
    (tmp_path / "date=2025-01-31").mkdir()
    old = tmp_path / "date=2025-01-31" / ".part-1.parquet.unfinished"
    young, stranger = tmp_path / ".part-2.parquet.unfinished", tmp_path / ".hidden"
    for path in (old, young, stranger):
        path.write_text("half a file")
    for path in (old, stranger):
        os.utime(path, (time.time() - 7200,) * 2)
    ParquetSink(tmp_path).open("0")
    assert not old.exists()
    assert young.exists(), "another process may be at it"
    assert stranger.exists()


def test_partitions_become_folders(tmp_path):
    rows = pa.Table.from_batches([batch_of("click/s", 0, 0, [b"a", b"b"]), batch_of("orders", 0, 86_400_000, [b"c"])])
    ParquetSink(tmp_path, partition_by=["topic", "date"]).open("0").write(rows)
    folders = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert folders == ["topic=click%2Fs/date=2023-11-14", "topic=orders/date=2023-11-15"]
    found = ds.dataset(tmp_path, partitioning="hive").to_table().to_pylist()
    assert sorted((row["topic"], str(row["date"]), row["value"]) for row in found) == [
        ("click/s", "2023-11-14", b"a"),
        ("click/s", "2023-11-14", b"b"),
        ("orders", "2023-11-15", b"c"),
    ]


def test_rows_without_a_value_have_a_folder_too(tmp_path):
    ParquetSink(tmp_path, partition_by=["b"]).open("0").write(ROWS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b=__HIVE_DEFAULT_PARTITION__", "b=x", "b=y"]
    assert ds.dataset(tmp_path, partitioning="hive").to_table().sort_by("a").column("a").to_pylist() == [1, 2, 3]


def test_rows_whose_value_equals_nothing_are_not_lost(tmp_path):
    rows = pa.table({"a": range(5), "b": [1.5, float("nan"), None, float("nan"), 1.5]})
    ParquetSink(tmp_path, partition_by=["b"]).open("0").write(rows)
    found = {path.parent.name: pq.read_table(path, partitioning=None)["a"] for path in tmp_path.rglob("*.parquet")}
    assert {name: values.to_pylist() for name, values in found.items()} == {
        "b=1.5": [0, 4],
        "b=nan": [1, 3],
        "b=__HIVE_DEFAULT_PARTITION__": [2],
    }


def test_times_beyond_the_calendar_have_folders_too(tmp_path):
    """A producer may take microseconds for milliseconds, and Kafka any number."""
    times = pa.array([1_738_324_800_000_000, 1_738_324_800_000_000_000, None], pa.timestamp("us", "UTC"))
    rows = pa.table({"a": range(3), "timestamp": times, "when": times})
    ParquetSink(tmp_path, partition_by=["date", "when"]).open("0").write(rows)
    found = {
        str(path.parent.relative_to(tmp_path)): pq.read_table(path, partitioning=None)["a"].to_pylist()
        for path in tmp_path.rglob("*.parquet")
    }
    assert found == {
        "date=2025-01-31/when=2025-01-31 12%3A00%3A00%2B00%3A00": [0],
        "date=__HIVE_DEFAULT_PARTITION__/when=1738324800000000000": [1],
        "date=__HIVE_DEFAULT_PARTITION__/when=__HIVE_DEFAULT_PARTITION__": [2],
    }


def test_files_without_a_column_hold_no_rows_and_are_not_written(tmp_path):
    with pytest.raises(SinkError, match="no column is left for the files"):
        ParquetSink(tmp_path, partition_by=["b", "a"]).open("0").write(ROWS)


def test_a_value_that_is_too_long_for_a_folder_is_refused_and_not_tried_for_ever(tmp_path):
    writer = ParquetSink(tmp_path, partition_by=["b"]).open("0")
    with pytest.raises(RowsRefused, match="too long for the name of a folder"):
        writer.write(pa.table({"a": [1, 2], "b": ["x", "y" * 300]}))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_column_that_is_not_there_cannot_be_partitioned_by(tmp_path):
    with pytest.raises(SinkError, match="the rows have no column 'c', only a, b"):
        ParquetSink(tmp_path, partition_by=["c"]).open("0").write(ROWS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "s3://bucket/x"}, "not a folder of this machine"),
        ({"path": "x", "partition_by": "date"}, "a list"),
        ({"path": "x", "file_rows": 0}, "file_rows = .*whole number of at least 1"),
        ({"path": "x", "file_bytes": 1e6}, "file_bytes = .*whole number"),
        ({"path": "x", "file_seconds": "60"}, "file_seconds = .*more than 0 seconds"),
    ],
)
def test_wrong_arguments_of_a_parquet_sink_are_refused(arguments, said):
    with pytest.raises(OptionError, match=said):
        ParquetSink(**arguments)


@pytest.mark.parametrize(
    "options",
    [{"compresion": "zstd"}, {"compression": "zsdt"}, {"row_group_size": 0}],
    ids=str,
)
def test_I1_options_that_pyarrow_does_not_accept_fail_the_start(tmp_path, options):
    """Each write would fail with them, and be retried forever."""
    with pytest.raises(SinkError, match="does not accept these options"):
        ParquetSink(tmp_path, **options).open("0")


def test_I1_a_folder_that_is_not_writable_fails_the_start(tmp_path):
    with pytest.raises(SinkError, match="Parquet files cannot be written to /proc/self"):
        ParquetSink("/proc/self").open("0")
    ParquetSink(tmp_path).open("0")
    assert not list(tmp_path.iterdir())


# --- ADBC -----------------------------------------------------------------------------------------------------------


def test_rows_are_appended_to_a_table_that_is_there(tmp_path):
    path = tmp_path / "x.db"
    with pytest.raises(SinkError, match=r"table 't' does not exist. Create it"):
        AdbcSink(f"sqlite:{path}", "t").open("0")
    table_of(ROWS.slice(0, 1), path)
    writer = AdbcSink(f"sqlite:{path}", "t").open("0")
    writer.write(ROWS.slice(1))
    writer.close()
    assert rows_in(path) == [(1, "x"), (2, "y"), (3, None)]


@pytest.mark.usefixtures("patient_sqlite")
def test_threads_that_make_the_table_and_write_at_once_do_not_stand_in_each_others_way(tmp_path):
    path = tmp_path / "x.db"
    sink = AdbcSink(f"sqlite:///{path}", "t", mode="create_append")
    writers = [sink.open(str(number)) for number in range(4)]
    barrier = threading.Barrier(4)

    def write(writer):
        barrier.wait(60)
        for _ in range(20):
            writer.write(ROWS)
        writer.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, writers))
    assert len(rows_in(path)) == 4 * 20 * 3


@pytest.mark.usefixtures("patient_sqlite")
def test_a_lock_of_another_process_is_waited_for(tmp_path):
    path = tmp_path / "x.db"
    table_of(ROWS, path)
    code = (
        "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); "
        "print('locked', flush=True); sys.stdin.readline(); c.commit()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "locked\n"
        writer = AdbcSink(f"sqlite:{path}", "t").open("0")
        threading.Timer(0.3, lambda: (holder.stdin.write("\n"), holder.stdin.flush())).start()
        writer.write(ROWS)
        writer.close()
    assert len(rows_in(path)) == 6


def test_a_row_that_breaks_a_constraint_is_refused_with_all_that_came_along(tmp_path):
    import adbc_driver_sqlite.dbapi

    path = tmp_path / "x.db"
    with adbc_driver_sqlite.dbapi.connect(str(path)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT NOT NULL)")
        connection.commit()
    writer = AdbcSink(f"sqlite:{path}", "t").open("0")
    with pytest.raises(RowsRefused, match=r"table 't' refuses rows.*NOT NULL"):
        writer.write(ROWS)
    assert rows_in(path) == []
    writer.write(ROWS.slice(0, 2))
    with pytest.raises(RowsRefused, match="UNIQUE"):
        writer.write(ROWS.slice(0, 1))
    writer.close()
    assert rows_in(path) == [(1, "x"), (2, "y")]


def test_duplicates_are_skipped_on_demand(tmp_path):
    import adbc_driver_sqlite.dbapi

    path = tmp_path / "x.db"
    with adbc_driver_sqlite.dbapi.connect(str(path)) as connection, connection.cursor() as cursor:
        cursor.execute('CREATE TABLE t (a INTEGER PRIMARY KEY, "b""c" TEXT)')
        connection.commit()
    rows = ROWS.rename_columns(["a", 'b"c'])
    sink = AdbcSink(f"sqlite:{path}", "t", skip_duplicates=True)
    writers = [sink.open("0"), sink.open("1")]
    for writer in writers:
        writer.write(rows.slice(0, 2))
        writer.write(pa.concat_tables([rows, rows]))
        writer.close()
    assert rows_in(path) == [(1, "x"), (2, "y"), (3, None)]


def sqlite_says(path, statement, value, **options):
    """What becomes of one row."""
    import adbc_driver_sqlite.dbapi

    with adbc_driver_sqlite.dbapi.connect(str(path)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        connection.commit()
    writer = AdbcSink(f"sqlite:{path}", "t", **options).open("0")
    with pytest.raises(SinkError) as raised:
        writer.write(pa.table({"a": [value]}) if not isinstance(value, pa.Array) else pa.table({"a": value}))
    writer.close()
    return raised.value


@pytest.mark.parametrize("skip_duplicates", [False, True])
@pytest.mark.parametrize(
    "statement", ["CREATE TABLE t (a INTEGER) STRICT", "CREATE TABLE t (a INTEGER PRIMARY KEY)"], ids=["strict", "key"]
)
def test_a_value_of_the_wrong_type_is_refused_and_not_tried_for_ever(tmp_path, statement, skip_duplicates):
    said = sqlite_says(tmp_path / "x.db", statement, "no number", skip_duplicates=skip_duplicates)
    assert isinstance(said, RowsRefused)


@pytest.mark.parametrize("type_", [pa.uint64(), pa.timestamp("us", "UTC")], ids=str)
def test_a_value_that_sqlite_cannot_hold_is_refused(tmp_path, type_):
    value = 2**63 if type_ == pa.uint64() else 1_738_324_800_000_000_000  # milliseconds that were microseconds
    said = sqlite_says(tmp_path / "x.db", "CREATE TABLE t (a)", pa.array([value], type_))
    assert isinstance(said, RowsRefused)


def test_a_statement_that_cannot_succeed_is_not_retried(tmp_path):
    said = sqlite_says(tmp_path / "x.db", "CREATE VIEW t AS SELECT 1 AS a", 1)
    assert not isinstance(said, RowsRefused)
    assert "is a view" in str(said)


def test_columns_that_the_table_does_not_have_are_an_error_that_stays(tmp_path):
    path = tmp_path / "x.db"
    table_of(ROWS, path)
    writer = AdbcSink(f"sqlite:{path}", "t").open("0")
    with pytest.raises(SinkError, match="no column named c") as raised:
        writer.write(pa.table({"a": [1], "c": [2]}))
    assert not isinstance(raised.value, RowsRefused)
    writer.close()


def test_after_an_error_that_may_pass_a_new_connection_is_made(tmp_path):
    import adbc_driver_sqlite.dbapi

    path = tmp_path / "x.db"
    table_of(ROWS, path)
    made = []

    def connect():
        if len(made) == 1:
            made.append(None)
            raise OSError("no route")
        made.append(adbc_driver_sqlite.dbapi.connect(str(path)))
        return made[-1]

    sink = AdbcSink(connect=connect, table="t")
    writer = sink.open("0")
    made[0].close()
    with pytest.raises(Exception, match=r"closed|INVALID_STATE"):
        writer.write(ROWS)
    with pytest.raises(OSError, match="no route"):
        writer.write(ROWS)
    writer.write(ROWS)
    writer.close()
    assert len(rows_in(path)) == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"uri": "sqlite:x"}, "option table: is missing"),
        ({"table": "t"}, "or a connect function, but not both"),
        ({"uri": "sqlite:x", "connect": print, "table": "t"}, "but not both"),
        ({"uri": "x.db", "table": "t"}, "option driver: is missing"),
        ({"uri": "sqlite:x", "table": "t", "mode": "replace"}, "append or create_append"),
    ],
)
def test_wrong_arguments_of_an_adbc_sink_are_refused(arguments, said):
    with pytest.raises(OptionError, match=said):
        AdbcSink(**arguments)


@pytest.mark.parametrize(("driver", "extra"), [("sqlite", "sqlite"), ("postgresql", "postgresql"), ("duckdb", "adbc")])
def test_without_adbc_the_extra_with_the_driver_is_named(driver, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, "adbc_driver_manager.dbapi", None)
    with pytest.raises(SinkError, match=rf"pip install 'penstock\[{extra}\]'$"):
        open_connection(driver, "x")


def test_a_driver_that_is_not_installed_is_named():
    with pytest.raises(SinkError, match=r"no ADBC driver 'oracle'. Install it: pip install adbc-driver-oracle"):
        AdbcSink("oracle://host/db", "t").open("0")


def test_no_password_is_shown(tmp_path):
    sink = AdbcSink("postgresql://me:geheim@127.0.0.1:1/db", "t")
    assert "geheim" not in repr(sink)
    with pytest.raises(Exception, match="refused") as raised:
        sink.open("0")
    assert "geheim" not in str(raised.value)
    with pytest.raises(OptionError) as wrong:
        AdbcSink("postgresql://me:geheim@h/db", "t", connect=print)
    assert "geheim" not in str(wrong.value)
