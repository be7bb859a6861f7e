"""The fit of rows to a table's columns, and the columns of a new table."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from penstock import RowsRefused, SinkError
from penstock.model.columns import TYPES
from penstock.streamer.sinks.table import fitted, new_schema, with_partition_columns


def one(value, type_):
    return pa.table({"a": pa.array([value], type_)})


@pytest.mark.parametrize(
    ("have", "want", "value"),
    [
        (pa.int64(), pa.int32(), 5),
        (pa.int8(), pa.int64(), 5),
        (pa.float32(), pa.float64(), 0.5),
        (pa.string(), pa.large_string(), "x"),
        (pa.binary(), pa.large_binary(), b"x"),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), "x"),
        (pa.null(), pa.date32(), None),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), datetime(2025, 1, 1, tzinfo=UTC)),
        (pa.list_(pa.int32()), pa.large_list(pa.int64()), [1]),
        (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int64())]), {"x": 1}),
    ],
)
def test_types_of_one_kind_are_converted(have, want, value):
    rows = fitted(one(value, have), pa.schema([("a", want)]), "T")
    assert rows.schema.field("a").type == want
    assert rows.column("a").to_pylist() == [value]


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (pa.string(), pa.int64()),
        (pa.int64(), pa.float64()),
        (pa.binary(), pa.string()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.struct([("x", pa.int32())]), pa.struct([("y", pa.int32())])),
    ],
)
def test_types_of_two_kinds_are_an_error(have, want):
    with pytest.raises(SinkError, match=r"column 'a' is .* in the rows and .* in T. Use one type") as caught:
        fitted(one(None, have), pa.schema([("a", want)]), "T")
    assert not isinstance(caught.value, RowsRefused)


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(RowsRefused, match="column 'a' is int8"):
        fitted(one(300, pa.int64()), pa.schema([("a", pa.int8())]), "T")
    with pytest.raises(RowsRefused, match="is required, and a row has no value"):
        fitted(one(None, pa.int64()), pa.schema([pa.field("a", pa.int64(), nullable=False)]), "T")


def test_columns_are_matched_by_name():
    rows = pa.table({"b": [1], "a": ["x"]})
    found = fitted(rows, pa.schema([("a", pa.string()), ("c", pa.date32()), ("b", pa.int64())]), "T")
    assert found.to_pylist() == [{"a": "x", "c": None, "b": 1}]
    with pytest.raises(SinkError, match=r"T has no column 'b', .*ADD COLUMN"):
        fitted(rows, pa.schema([("a", pa.string())]), "T")
    with pytest.raises(SinkError, match="column 'd' is required, and the rows do not have it"):
        fitted(rows, pa.schema([("a", pa.string()), ("b", pa.int64()), pa.field("d", pa.int8(), nullable=False)]), "T")


def test_a_new_table_has_types_that_tables_have():
    schema = pa.schema(
        [
            ("u", pa.uint16()),
            ("d", pa.dictionary(pa.int8(), pa.large_string())),
            ("t", pa.timestamp("ns", "Europe/Paris")),
            ("n", pa.timestamp("s")),
            ("m", pa.map_(pa.string(), pa.uint8())),
        ]
    )
    found = new_schema(schema, "T")
    assert [field.type for field in found] == [
        *(pa.int32(), pa.string(), pa.timestamp("us", "UTC"), pa.timestamp("us")),
        pa.map_(pa.string(), pa.int16()),
    ]
    kafka = pa.schema(list(TYPES.items()))
    assert new_schema(kafka, "T") == kafka
    for type_ in (pa.uint64(), pa.duration("s"), pa.null(), pa.struct([])):
        with pytest.raises(SinkError, match=r"T cannot be created: .* column 'x'"):
            new_schema(pa.schema([("x", type_)]), "T")


def test_the_date_is_that_of_the_timestamp():
    rows = pa.table({"timestamp": pa.array([datetime(2025, 1, 31, 23, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    assert with_partition_columns(rows, ["date"], "T").column("date").to_pylist() == [date(2025, 1, 31)]
    with pytest.raises(SinkError, match="T is partitioned by 'country', which the rows do not have"):
        with_partition_columns(rows, ["country"], "T")
