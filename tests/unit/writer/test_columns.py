"""W1: the columns of rows to write."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import ColumnError
from penstock.writer.columns import unwrapped, written_columns

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ALL = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": HEADERS,
    "timestamp": pa.timestamp("us", "UTC"),
}


def schema(**changes: pa.DataType | None) -> pa.Schema:
    return pa.schema([(name, type_) for name, type_ in (ALL | changes).items() if type_ is not None])


def test_W1_all_columns_of_sparks_sink_and_the_timestamp_are_written():
    assert written_columns(schema(), None) == list(ALL)


def test_W1_only_the_value_is_required():
    assert written_columns(pa.schema([("value", pa.string())]), "out") == ["value"]


def test_W1_the_option_topic_wins_over_the_column():
    assert "topic" not in written_columns(schema(), "out")


def test_W1_other_columns_are_not_written():
    assert written_columns(pa.schema([("value", pa.string()), ("extra", pa.int64())]), "out") == ["value"]


def test_headers_are_left_out_on_request():
    assert "headers" not in written_columns(schema(), None, include_headers=False)


@pytest.mark.parametrize(
    ("given", "topic", "said"),
    [
        (schema(value=None), "out", "column value: is missing"),
        (schema(topic=None), None, "column topic: is missing, and option topic is not set"),
        (schema(value=pa.int64()), "out", "column value: is int64, and must be binary or string"),
        (schema(key=pa.float64()), "out", "column key: is double, and must be binary or string"),
        (schema(topic=pa.binary()), None, "column topic: is binary, and must be string"),
        (schema(partition=pa.int64()), "out", r"column partition: is int64, and must be int. Convert it: CAST\("),
        (schema(headers=pa.string()), "out", "column headers: is string, and must be array"),
        (schema(headers=pa.list_(pa.struct([("name", pa.string())]))), "out", "column headers"),
        (schema(timestamp=pa.int64()), "out", "column timestamp: is int64, and must be timestamp"),
        (pa.schema([("value", pa.string()), ("value", pa.string())]), "out", "appears 2 times"),
    ],
)
def test_W1_wrong_or_missing_columns_fail_by_name(given, topic, said):
    with pytest.raises(ColumnError, match=said):
        written_columns(given, topic)


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
)
def test_bytes_and_texts_of_all_kinds_are_accepted(type_):
    assert written_columns(schema(key=type_, value=type_), None) == list(ALL)


def test_a_column_of_nulls_is_accepted():
    assert "key" in written_columns(schema(key=pa.null()), None)


def test_dictionaries_count_as_their_values():
    given = schema(value=pa.dictionary(pa.int32(), pa.string()))
    assert unwrapped(given).field("value").type == pa.string()
