"""Columns into Protobuf: read back by the kernel and by Google's library."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.protobuf_schemas import Schema, decode, load, messages, rows, schemas, shown
from penstock._kernel import Format, FormatEncoder, compile_protobuf, protobuf_file, protobuf_message, protobuf_type
from support.examples import examples


def compiled(body: str, *, syntax: str = "proto3", message: str = "") -> Schema:
    text = f'syntax = "{syntax}"; import "google/protobuf/timestamp.proto"; {body}'
    descriptors = compile_protobuf("a.proto", [("a.proto", text)])
    return load(descriptor_pb2.FileDescriptorSet.FromString(descriptors), protobuf_message(descriptors, message))


def encode(schema: Schema, column: pa.Array) -> tuple[list[bytes | None], dict[int, str]]:
    encoder = FormatEncoder.protobuf(schema.descriptors, schema.name, pa.field("", column.type))
    encoded = encoder.encode(column)
    return pa.array(encoded).to_pylist(), dict(encoded.faults)


def one(schema: Schema, type_: pa.DataType, value: Any) -> bytes:
    """The bytes of a message with the field `a`."""
    [data], faults = encode(schema, pa.array([{"a": value}], pa.struct([("a", type_)])))
    assert not faults
    assert data is not None
    return data


@settings(max_examples=examples(200))
@given(st.data())
def test_W2_messages_of_any_schema_are_written_as_they_were_read(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    drawn = data.draw(st.lists(messages(schema), min_size=1, max_size=3))
    values = [message.SerializeToString() for message in drawn if message.IsInitialized()]
    decoded = schema.reader().decode(pa.array([*values, None], pa.binary()))
    assert not decoded.faults
    column = pa.array(decoded)
    written, faults = encode(schema, column)
    assert not faults
    assert written.pop() is None
    again, faults = decode(schema.reader(), written)
    assert not faults
    assert again == rows(column)[:-1]
    for before, after in zip(values, written, strict=True):
        assert after is not None
        message = schema.message.FromString(after)
        assert shown(message) == shown(schema.message.FromString(before))
        assert message.IsInitialized()


def test_W2_a_field_without_presence_is_absent_if_it_is_zero() -> None:
    zeros = [("int32 a", pa.int32(), 0), ("string a", pa.string(), ""), ("bool a", pa.bool_(), False)]
    for field, type_, value in zeros:
        assert one(compiled(f"message M {{ {field} = 1; }}"), type_, value) == b""
        assert one(compiled(f"message M {{ optional {field} = 1; }}"), type_, value) != b""
        assert one(compiled(f"message M {{ oneof o {{ {field} = 1; }} }}"), type_, value) != b""
    assert one(compiled("message M { double a = 1; }"), pa.float64(), -0.0) != b""


@pytest.mark.parametrize(
    ("field", "type_", "value", "expected"),
    [
        ("uint32 a", pa.int32(), -1, 2**32 - 1),
        ("uint32 a", pa.int64(), 2**32 - 1, 2**32 - 1),
        ("fixed32 a", pa.int64(), 7, 7),
        ("uint64 a", pa.int64(), -1, 2**64 - 1),
        ("uint64 a", pa.decimal128(20, 0), 2**64 - 1, 2**64 - 1),
        ("fixed64 a", pa.decimal128(20, 0), 5, 5),
        ("int64 a", pa.int8(), -5, -5),
        ("sint64 a", pa.int16(), -5, -5),
        ("double a", pa.float32(), 0.5, 0.5),
        ("E a", pa.string(), "ONE", 1),
        ("E a", pa.int32(), 77, 77),
        ("E a", pa.string(), "UNKNOWN_ENUM_VALUE_E_9", 9),
    ],
)
def test_W2_numbers_are_widened_and_enums_written_by_name_or_number(
    field: str, type_: pa.DataType, value: Any, expected: Any
) -> None:
    schema = compiled(f"message M {{ {field} = 1; }} enum E {{ ZERO = 0; ONE = 1; }}")
    assert schema.message.FromString(one(schema, type_, value)).a == expected


def test_W2_repeated_numbers_are_packed_as_the_schema_says() -> None:
    numbers = pa.list_(pa.int32())
    assert one(compiled("message M { repeated int32 a = 1; }"), numbers, [1, 2]) == b"\x0a\x02\x01\x02"
    assert one(compiled("message M { repeated int32 a = 1 [packed = false]; }"), numbers, [1, 2]) == b"\x08\x01\x08\x02"
    assert one(compiled("message M { repeated int32 a = 1; }"), numbers, []) == b""


@pytest.mark.parametrize(
    ("body", "type_", "reason"),
    [
        (
            "message M { int32 a = 1; }",
            pa.int64(),
            "field a: a column of type Int64 cannot be written as int32: cast it",
        ),
        ("message M { string a = 1; }", pa.int32(), "field a: a column of type Int32 cannot be written as string"),
        ("message M { repeated int32 a = 1; }", pa.int32(), "the field is repeated"),
        ("message M { N a = 1; } message N { int32 b = 1; }", pa.struct([("b", pa.string())]), "field a.b: "),
        (
            "message M { N a = 1; } message N { int32 b = 1; }",
            pa.struct([("c", pa.string())]),
            "field a.c: is a column",
        ),
        ("message M { google.protobuf.Timestamp a = 1; }", pa.timestamp("us"), "no time zone"),
        ("message M { map<string, int32> a = 1; }", pa.map_(pa.int32(), pa.int32()), "cannot be written as string"),
        ("message M { int32 b = 1; }", pa.int32(), "field a: is a column that message M does not have"),
    ],
)
def test_W2_types_that_do_not_fit_are_refused_with_their_path(body: str, type_: pa.DataType, reason: str) -> None:
    schema = compiled(body)
    with pytest.raises(ValueError, match="field a") as caught:
        FormatEncoder.protobuf(schema.descriptors, "M", pa.field("", pa.struct([("a", type_)])))
    assert reason in str(caught.value)


def test_W2_a_required_field_without_a_column_is_refused() -> None:
    schema = compiled("message M { optional int32 a = 1; required int32 b = 2; }", syntax="proto2")
    with pytest.raises(ValueError, match="field b: the message requires it"):
        FormatEncoder.protobuf(schema.descriptors, "M", pa.field("", pa.struct([("a", pa.int32())])))


@pytest.mark.parametrize(
    ("body", "type_", "good", "bad", "reason"),
    [
        ("message M { uint32 a = 1; }", pa.int64(), 1, -1, "field a: -1 is not an unsigned 32-bit number"),
        ("message M { E a = 1; } enum E { ZERO = 0; }", pa.string(), "ZERO", "ONE", '"ONE" is not a name'),
        ("message M { repeated int32 a = 1; }", pa.list_(pa.int32()), [1], [1, None], "an element of the list is null"),
        ("message M { map<string, int32> a = 1; }", pa.map_(pa.string(), pa.int32()), [], [("k", None)], "is null"),
        (
            "message M { N a = 1; } message N { oneof o { int32 x = 1; int32 y = 2; } }",
            pa.struct([("x", pa.int32()), ("y", pa.int32())]),
            {"y": 0},
            {"x": 1, "y": 2},
            "more than one field of oneof o",
        ),
    ],
)
def test_W2_a_value_that_does_not_fit_is_a_fault_of_its_row(
    body: str, type_: pa.DataType, good: Any, bad: Any, reason: str
) -> None:
    column = pa.array([{"a": good}, {"a": bad}, {"a": good}], pa.struct([("a", type_)]))
    data, faults = encode(compiled(body), column)
    assert list(faults) == [1]
    assert reason in faults[1]
    assert data[1] is None
    assert data[0] == data[2] is not None


def test_W2_the_required_fields_of_a_row_must_not_be_null() -> None:
    schema = compiled("message M { required int32 a = 1; }", syntax="proto2")
    data, faults = encode(schema, pa.array([{"a": None}, {"a": 0}], pa.struct([("a", pa.int32())])))
    assert faults == {0: "field a: is null, and the message requires it"}
    assert data[1] == b"\x08\x00"


@pytest.mark.parametrize(
    ("message", "indexes"), [("M", b"\0"), ("N", b"\x02\x02"), ("N.In", b"\x04\x02\x00"), ("N.Other", b"\x04\x02\x02")]
)
def test_W2_confluents_framing_has_the_indexes_of_the_message(message: str, indexes: bytes) -> None:
    inner = "message In { int32 a = 1; } message Other { int32 a = 1; }"
    body = f"message M {{ }} message N {{ map<string, int32> m = 1; {inner} }}"
    schema = compiled(body, message=message)
    type_ = pa.field(protobuf_type(schema.descriptors, schema.name)).type
    encoder = FormatEncoder.protobuf(schema.descriptors, schema.name, pa.field("", type_), schema_id=7)
    framed = pa.array(encoder.encode(pa.array([{}, None], type_)))
    assert framed.to_pylist() == [b"\0\0\0\0\x07" + indexes, None]
    reader = Format.protobuf(schema.descriptors, schema.name, pa.field("", type_), framed=True)
    reader.add_schema(7, schema.descriptors)
    assert reader.decode(framed).faults == []


def test_names_in_another_case_fit_if_they_are_clear() -> None:
    assert one(compiled("message M { int32 A = 1; }"), pa.int32(), 1) == b"\x08\x01"
    schema = compiled("message M { int32 Ab = 1; }")
    with pytest.raises(ValueError, match="differ only in case"):
        encode(schema, pa.array([{"ab": 1, "AB": 2}], pa.struct([("ab", pa.int32()), ("AB", pa.int32())])))


def test_the_main_file_of_a_set_and_its_imports() -> None:
    schema = compiled("message M { int32 a = 1; }")
    file, imports = protobuf_file(schema.descriptors)
    assert descriptor_pb2.FileDescriptorProto.FromString(file).message_type[0].name == "M"
    assert imports == ["google/protobuf/timestamp.proto"]
