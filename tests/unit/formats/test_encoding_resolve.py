"""From options and columns to an encoding: what is refused before the first record."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import OptionError
from penstock.formats.encoding import Encoding, WriteAsIs, WriteAvro, WriteJson, WriteProtobuf
from penstock.formats.encoding_resolve import resolve_encoding
from support.configs import write_formats

ORDER = pa.struct([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
ROWS = pa.schema([("key", pa.string()), ("value", ORDER)])
FLAT = pa.schema([("key", pa.string()), ("id", pa.int64()), ("topic", pa.string())])


def resolve(schema: pa.Schema, topic: str | None = "orders", **given: str) -> Encoding:
    return resolve_encoding(write_formats(**given), schema, topic)


def refuse(schema: pa.Schema, topic: str | None = "orders", **given: str) -> OptionError:
    with pytest.raises(OptionError) as caught:
        resolve(schema, topic, **given)
    return caught.value


def test_W2_raw_and_string_columns_are_written_as_they_are() -> None:
    assert resolve(ROWS) == Encoding()
    assert resolve(ROWS, keyFormat="string").key == WriteAsIs()
    assert "value is struct" in str(refuse(ROWS, valueFormat="string"))


def test_W2_json_needs_no_schema() -> None:
    encoding = resolve(ROWS, valueFormat="json", timeZone="Europe/Berlin", ignoreNullFields="false")
    assert encoding == Encoding(value=WriteJson("Europe/Berlin", ignore_null_fields=False))
    assert resolve(FLAT, valueFormat="json", flatten="true") == Encoding(value=WriteJson(), flatten=True)


@pytest.mark.parametrize(
    ("schema", "given", "name", "reason"),
    [
        (FLAT, {"valueFormat": "json"}, "valueFormat", "Set flatten to true"),
        (pa.schema([("value", ORDER)]), {"keyFormat": "json"}, "keyFormat", "Name a column key"),
        (ROWS, {"keyFormat": "json"}, "keyFormat", "must be a struct, an array or a map"),
        (ROWS, {"valueFormat": "json", "timeZone": "Nowhere"}, "timeZone", "Nowhere is not a time zone"),
        (ROWS, {"valueFormat": "json", "flatten": "true"}, "flatten", "there is a column value too"),
        (pa.schema([("key", pa.string())]), {"valueFormat": "json", "flatten": "true"}, "flatten", "no columns"),
        (
            pa.schema([("value", pa.struct([("a", pa.struct([("b", pa.time64("us"))]))]))]),
            {"valueFormat": "json"},
            "valueFormat",
            "field a.b has Arrow type time64",
        ),
    ],
)
def test_W2_columns_that_do_not_fit_are_refused_by_name(
    schema: pa.Schema, given: dict[str, str], name: str, reason: str
) -> None:
    error = refuse(schema, **given)
    assert error.name == name
    assert reason in str(error)


SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def test_W2_the_avro_schema_is_a_text_or_a_file_or_derived(tmp_path: Path) -> None:
    text = json.dumps(SCHEMA)
    assert resolve(ROWS, valueFormat="avro", valueSchema=text).value == WriteAvro(text)
    (tmp_path / "order.avsc").write_text(text)
    assert resolve(ROWS, valueFormat="avro", valueSchema=str(tmp_path / "order.avsc")).value == WriteAvro(text)
    derived = resolve(ROWS, valueFormat="avro").value
    assert isinstance(derived, WriteAvro)
    assert json.loads(derived.schema)["name"] == "topLevelRecord"
    assert resolve(ROWS, valueFormat="avro", valueSchema="derived").value == derived


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("missing.avsc", "cannot be read"),
        ("{", "is not JSON"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}',
            "field id: a column of type Int64",
        ),
        ('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}', "field at: is a column"),
    ],
)
def test_W2_an_avro_schema_that_does_not_fit_is_refused(schema: str, reason: str) -> None:
    error = refuse(ROWS, valueFormat="avro", valueSchema=schema)
    assert error.name == "valueSchema"
    assert reason in str(error)


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Empty { }
message Order { int64 id = 1; google.protobuf.Timestamp at = 2; }
"""


def test_W2_the_protobuf_schema_is_a_proto_file_or_a_descriptor_set(tmp_path: Path) -> None:
    (tmp_path / "order.proto").write_text(PROTO)
    source = resolve(
        ROWS, valueFormat="protobuf", valueSchema=str(tmp_path / "order.proto"), valueMessage="Order"
    ).value
    assert isinstance(source, WriteProtobuf)
    assert source.message == "shop.Order"
    (tmp_path / "order.desc").write_bytes(source.descriptors)
    compiled = resolve(ROWS, valueFormat="protobuf", valueSchema=str(tmp_path / "order.desc"), valueMessage="Order")
    assert compiled.value == source
    error = refuse(ROWS, valueFormat="protobuf", valueSchema=str(tmp_path / "order.proto"))
    assert "field id: is a column that message shop.Empty does not have" in str(error)
    error = refuse(ROWS, valueFormat="protobuf", valueSchema=str(tmp_path / "order.desc"), valueMessage="Odrer")
    assert error.name == "valueMessage"
    assert "cannot be read" in str(refuse(ROWS, valueFormat="protobuf", valueSchema="missing.proto"))
