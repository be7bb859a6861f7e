"""A real PostgreSQL as a sink: types that its driver does not convert, and kinds of errors."""

from __future__ import annotations

import datetime
import random
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock import AdbcSink, RowsRefused, SinkError


@pytest.fixture
def table(postgres):
    """`table("id int")` makes a table and returns its name; without columns, a name that is not taken."""

    def make(columns=None):
        name = f"t_{uuid.uuid4().hex[:12]}"
        if columns:
            postgres.execute(f"CREATE TABLE {name} ({columns})")
        return name

    return make


def write(postgres, table, rows, **more):
    writer = AdbcSink(postgres.uri, table, **more).open("0")
    try:
        writer.write(rows)
    finally:
        writer.close()


def test_rows_fit_a_table_that_others_have_made(postgres, table):
    name = table(
        "small smallint, number integer, large bigint, near real, far double precision, amount numeric(8,2), "
        "said text, short varchar(10), raw bytea, flag boolean, day date, at timestamptz, wall timestamp, "
        "doc json, docs jsonb, added timestamptz DEFAULT now()"
    )
    noon = datetime.datetime(2025, 1, 31, 12, tzinfo=datetime.UTC)
    rows = pa.table(
        {
            "small": pa.array([7], pa.int64()),
            "number": pa.array([7], pa.int64()),
            "large": pa.array([7], pa.int32()),
            "near": pa.array([0.5], pa.float64()),
            "far": pa.array([0.5], pa.float32()),
            "amount": pa.array([Decimal("12.50")], pa.decimal128(10, 2)),
            "said": pa.array(["é"]),
            "short": pa.array([b"bytes"]),
            "raw": pa.array([b"\x00\xff"]),
            "flag": pa.array([True]),
            "day": pa.array([noon.date()]),
            "at": pa.array([noon], pa.timestamp("us", "UTC")),
            "wall": pa.array([noon], pa.timestamp("us", "UTC")),
            "doc": pa.array(['{"a": 1}']),
            "docs": pa.array([b'{"b": [2]}']),
        }
    )
    write(postgres, name, rows)
    write(postgres, name, pa.table({"docs": pa.array([None], pa.string()), "number": pa.array([None], pa.int64())}))
    [first, second] = postgres.execute(
        "SELECT small, number, large, near, far, amount::text, said, short, raw, flag, day::text, "
        f"at = wall::timestamptz, doc->>'a', docs->'b'->>0, added IS NOT NULL FROM {name} ORDER BY small NULLS LAST"
    )
    assert first == (7, 7, 7, 0.5, 0.5, "12.50", "é", "bytes", b"\x00\xff", True, "2025-01-31", True, "1", "2", True)
    assert second == (None,) * 14 + (True,)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("n integer NOT NULL", pa.array([1, None]), "not-null"),
        ("n integer PRIMARY KEY", pa.array([1, 1]), "duplicate key"),
        ("n integer CHECK (n > 1)", pa.array([2, 1]), "check constraint"),
        ("n smallint", pa.array([1, 70_000]), "int2.*not in range"),
        ("n varchar(3)", pa.array(["abc", "abcd"]), "too long"),
        ("n text", pa.array(["a", "b\0c"]), "invalid byte sequence"),
        ("n jsonb", pa.array(["{}", "{"]), "invalid input syntax for type json"),
        # Random, so that it cannot be packed.
        ("n text PRIMARY KEY", pa.array(["a", random.Random(1).randbytes(9000).hex()]), "index row"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_rows_that_never_fit_are_refused_and_none_of_them_written(postgres, table, column, values, said):
    name = table(column)
    writer = AdbcSink(postgres.uri, name).open("0")
    with pytest.raises(RowsRefused, match=f"(?s){said}"):
        writer.write(pa.table({"n": values}))
    assert postgres.execute(f"SELECT count(*) FROM {name}") == [(0,)]
    writer.write(pa.table({"n": values.slice(0, 1)}))
    writer.close()
    assert postgres.execute(f"SELECT count(*) FROM {name}") == [(1,)]


def test_a_row_that_a_trigger_raises_on_is_refused(postgres, table):
    name = table("n integer")
    body = "BEGIN IF NEW.n > 5 THEN RAISE EXCEPTION 'more than five'; END IF; RETURN NEW; END"
    postgres.execute(f"CREATE FUNCTION {name}_check() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    postgres.execute(f"CREATE TRIGGER c BEFORE INSERT ON {name} FOR EACH ROW EXECUTE FUNCTION {name}_check()")
    with pytest.raises(RowsRefused, match="more than five"):
        write(postgres, name, pa.table({"n": [1, 7]}))
    assert postgres.execute(f"SELECT count(*) FROM {name}") == [(0,)]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("n integer", pa.array(["1234"])),  # four bytes: they would be taken for a number
        ("n bigint", pa.array([datetime.datetime(2025, 1, 31)])),
        ("n uuid", pa.array(["16 bytes of text"])),
        ("n numeric", pa.array([1.5])),
        ("m integer", pa.array([1])),
        ("n integer", pa.array([[1]])),
    ],
)
def test_columns_that_never_fit_are_an_error_of_the_setup(postgres, table, column, values):
    name = table(column)
    with pytest.raises(SinkError) as raised:
        write(postgres, name, pa.table({"n": values}))
    assert not isinstance(raised.value, RowsRefused)
    assert postgres.execute(f"SELECT count(*) FROM {name}") == [(0,)]


def test_a_table_that_is_not_there_is_found_when_the_sink_is_opened(postgres, table):
    with pytest.raises(SinkError, match=r"does not exist\. Create it"):
        AdbcSink(postgres.uri, table()).open("0")
    with pytest.raises(Exception, match="password authentication failed"):
        AdbcSink(postgres.uri.replace("tester:", "tester:wrong"), table()).open("0")


def test_threads_and_processes_that_make_the_table_at_once(postgres, table):
    name = table()
    sinks = [AdbcSink(postgres.uri, name, mode="create_append") for _ in range(4)]
    writers = [sink.open(str(thread)) for sink in sinks for thread in range(2)]
    barrier = threading.Barrier(len(writers))

    def work(writer):
        barrier.wait(30)
        for _ in range(5):
            writer.write(pa.table({"n": [1, 2]}))
        writer.close()

    with ThreadPoolExecutor(len(writers)) as pool:
        list(pool.map(work, writers))
    assert postgres.execute(f"SELECT count(*) FROM {name}") == [(len(writers) * 10,)]


def test_a_schema_may_be_named(postgres, table):
    schema, name = table(), table()
    postgres.execute(f"CREATE SCHEMA {schema}")
    write(postgres, name, pa.table({"n": [1]}), schema=schema, mode="create_append")
    write(postgres, name, pa.table({"n": pa.array([2], pa.int32())}), schema=schema)
    assert postgres.execute(f"SELECT n FROM {schema}.{name} ORDER BY n") == [(1,), (2,)]


def test_duplicates_are_skipped_on_demand_and_other_rows_that_never_fit_are_still_refused(postgres, table):
    name = table("id integer PRIMARY KEY, doc jsonb NOT NULL, at timestamptz DEFAULT now()")
    writer = AdbcSink(postgres.uri, name, skip_duplicates=True).open("0")
    rows = pa.table({"doc": ['{"a": 1}', "{}", "{}"], "id": [1, 2, 1]})
    writer.write(rows)
    writer.write(rows)
    with pytest.raises(RowsRefused, match="not-null"):
        writer.write(pa.table({"doc": pa.array([None], pa.string()), "id": [3]}))
    with pytest.raises(RowsRefused, match="int4"):
        writer.write(pa.table({"doc": ["{}"], "id": [2**40]}))
    writer.write(pa.table({"doc": ["{}"], "id": [3]}))
    writer.close()
    assert postgres.execute(f"SELECT id, doc->>'a' FROM {name} ORDER BY id") == [(1, "1"), (2, None), (3, None)]


def test_a_server_that_was_restarted_is_written_to_again(postgres, table):
    name = table("n bigint")
    writer = AdbcSink(postgres.uri, name).open("0")
    writer.write(pa.table({"n": [1]}))
    postgres.stop()
    for _ in range(2):  # the connection that was cut, and one that is refused
        with pytest.raises(Exception, match="IO") as raised:
            writer.write(pa.table({"n": [2]}))
        assert not isinstance(raised.value, SinkError), "it may pass"
    postgres.start()
    writer.write(pa.table({"n": [2]}))
    writer.close()
    assert postgres.execute(f"SELECT n FROM {name} ORDER BY n") == [(1,), (2,)]
