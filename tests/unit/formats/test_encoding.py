"""Batches of typed columns into batches with the bytes of keys and values."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from penstock.formats.encoding import Encoding, WriteJson


def batch(**columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_W2_the_column_value_is_encoded_and_kafkas_others_are_kept() -> None:
    rows = batch(value=[{"a": 1}, None], key=[b"k", None], topic=["t", "u"], other=[1, 2])
    encoded = Encoding(value=WriteJson()).encode(rows)
    assert encoded.batch.to_pydict() == {"key": [b"k", None], "value": [b'{"a":1}', None], "topic": ["t", "u"]}
    assert encoded.faults == []


def test_W2_flatten_builds_the_value_from_all_columns_that_are_not_kafkas() -> None:
    rows = batch(id=[1, 2], key=["a", "b"], name=["x", None], partition=pa.array([0, 1], pa.int32()), offset=[5, 6])
    encoded = Encoding(value=WriteJson(), flatten=True).encode(rows).batch.to_pydict()
    assert encoded["value"] == [b'{"id":1,"name":"x","offset":5}', b'{"id":2,"offset":6}']
    assert (encoded["key"], encoded["partition"]) == (["a", "b"], [0, 1])


def test_W2_flatten_with_a_prefix_writes_what_a_flattened_read_returns() -> None:
    rows = batch(id=[1], key=["mine"], kafka_key=[b"k"], kafka_offset=[7], kafka_timestampType=[0], kafka_topic=["t"])
    encoded = Encoding(value=WriteJson(), flatten=True, prefix="kafka_").encode(rows).batch.to_pydict()
    assert encoded == {"key": [b"k"], "topic": ["t"], "value": [b'{"id":1,"key":"mine"}']}


def test_W2_columns_of_other_libraries_are_cast() -> None:
    rows = batch(
        value=pa.StructArray.from_arrays(
            [
                pa.array(["x", "y"]).dictionary_encode(),
                pa.array([1, 2**64 - 1], pa.uint64()),
                pa.array([[1], None], pa.large_list(pa.uint8())),
                pa.array(["p", None], pa.string_view()),
                pa.array([1_500, 2_999], pa.timestamp("ns", "UTC")),
                pa.array([1, 2], pa.date64()),
                pa.array([b"ab", b"cd"], pa.binary(2)),
                pa.nulls(2),
            ],
            names=["d", "u", "l", "s", "t", "a", "f", "n"],
        )
    )
    encoded = Encoding(value=WriteJson()).encode(rows).batch.column("value").to_pylist()
    time = '"t":"1970-01-01T00:00:00.000Z","a":"1970-01-01"'
    assert encoded == [
        f'{{"d":"x","u":1,"l":[1],"s":"p",{time},"f":"YWI="}}'.encode(),
        f'{{"d":"y","u":18446744073709551615,{time},"f":"Y2Q="}}'.encode(),
    ]


def test_W2_a_batch_without_rows_stays_one() -> None:
    rows = batch(value=pa.array([], pa.struct([("a", pa.int8())])))
    assert Encoding(value=WriteJson()).encode(rows).batch.num_rows == 0


def test_an_encoding_can_be_pickled() -> None:
    encoding = Encoding(value=WriteJson(schema_id=3), flatten=True, prefix="k_")
    assert pickle.loads(pickle.dumps(encoding)) == encoding


@pytest.mark.parametrize("rows", [1, 1000])
def test_W2_keys_are_encoded_too(rows: int) -> None:
    made = batch(key=[{"id": 1}] * rows, value=[b"v"] * rows)
    encoded = Encoding(key=WriteJson()).encode(made).batch
    assert encoded.column("key").to_pylist() == [b'{"id":1}'] * rows
    assert encoded.column("value").to_pylist() == [b"v"] * rows
