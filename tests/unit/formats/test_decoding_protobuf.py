"""Protobuf columns against Google's own library: the same bytes, the same values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.protobuf_schemas import decode, expected_type, flipped, load, messages, rows, schemas, shown
from penstock._kernel import Format, compile_protobuf, protobuf_message, protobuf_type
from support.examples import examples

UNKNOWN = [
    b"\xd2\xbb\x02\x03abc",  # number 5002, a length
    b"\xd0\xbb\x02\x96\x01",
    b"\xd1\xbb\x0212345678",
    b"\xd5\xbb\x021234",
    b"\xd3\xbb\x02\x08\x01\x13\x14\xd4\xbb\x02",  # a group with a group
]


def type_of(descriptors: bytes, message: str) -> pa.DataType:
    return pa.field(protobuf_type(descriptors, message)).type


def compiled(*texts: str, message: str = "") -> tuple[Format, type[Message]]:
    """The reader and Google's class for the first message of the first text; the others are `b.proto`, `c.proto`..."""
    files = [(f"{chr(ord('a') + index)}.proto", text) for index, text in enumerate(texts)]
    descriptors = compile_protobuf("a.proto", files)
    name = protobuf_message(descriptors, message)
    schema = load(descriptor_pb2.FileDescriptorSet.FromString(descriptors), name)
    return Format.protobuf(descriptors, name, pa.field("", type_of(descriptors, name))), schema.message


@settings(max_examples=examples(60))
@given(schemas())
def test_types_are_those_of_sparks_from_protobuf(schema: Any) -> None:
    assert type_of(schema.descriptors, schema.name).equals(expected_type(schema.message.DESCRIPTOR))


@settings(max_examples=examples(120))
@given(st.data())
def test_random_messages_of_random_schemas_are_read_as_google_reads_them(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    written = data.draw(st.lists(messages(schema), min_size=1, max_size=3))
    values = [message.SerializePartialToString() for message in written]
    # Two messages one behind the other are one: the last value wins, messages are merged, lists go on.
    values.append(data.draw(st.sampled_from(UNKNOWN)).join(data.draw(st.permutations(values))))
    # Packed or not, whatever is declared.
    values.append(flipped(schema).message.FromString(values[0]).SerializePartialToString())
    found, faults = decode(schema.reader(), [*values, None])
    assert found.pop() is None
    for row, value in enumerate(values):
        message = schema.message.FromString(value)
        if message.IsInitialized():
            assert row not in faults
            assert found[row] == shown(message)
        else:
            assert "is required, but missing" in faults[row]
            assert found[row] == dict.fromkeys(found[row])


@settings(max_examples=examples(60))
@given(st.data())
def test_what_is_asked_for_is_the_same_without_the_rest(data: st.DataObject) -> None:
    schema = data.draw(schemas("proto3"))
    values = [data.draw(messages(schema)).SerializeToString() for _ in range(2)]
    values.append(values[0] + values[1])
    wanted = part(data, type_of(schema.descriptors, schema.name))
    found, faults = decode(Format.protobuf(schema.descriptors, schema.name, pa.field("", wanted)), values)
    assert not faults
    assert found == [cut(shown(schema.message.FromString(value)), wanted) for value in values]


def part(data: st.DataObject, kind: pa.DataType) -> pa.DataType:
    """Some of the fields at every depth, in another order."""
    if pa.types.is_struct(kind):
        kept = data.draw(st.lists(st.sampled_from([field.name for field in kind]), unique=True))
        return pa.struct([pa.field(name, part(data, kind.field(name).type)) for name in kept])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", part(data, kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, part(data, kind.item_type))
    return kind


def cut(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: cut(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind):
        return [cut(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return {key: cut(item, kind.item_type) for key, item in value.items()}
    return value


def test_well_known_types_and_imports_of_each_other() -> None:
    reader, message_class = compiled(
        """syntax = "proto3"; package shop; import "b.proto"; import "google/protobuf/wrappers.proto";
        import "google/protobuf/any.proto"; import "google/protobuf/empty.proto";
        message Order {
          shop.parts.Item item = 1; google.protobuf.Int64Value count = 2; google.protobuf.StringValue note = 3;
          google.protobuf.Any extra = 4; google.protobuf.Empty nothing = 5; shop.parts.Color color = 6;
          google.protobuf.Int64Value none = 7;
        }""",
        """syntax = "proto2"; package shop.parts; import public "c.proto";
        message Item { optional double price = 1; repeated Size sizes = 2; extensions 100 to 200; }""",
        """syntax = "proto3"; package shop.parts; import "google/protobuf/timestamp.proto";
        enum Color { RED = 0; GREEN = 1; }
        message Size { sint32 width = 1; google.protobuf.Timestamp at = 2; }""",
    )
    kind = pa.field(reader.type).type
    assert [field.name for field in kind] == ["item", "count", "note", "extra", "color", "none"], "no empty structs"
    assert kind.field("count").type == pa.struct([("value", pa.int64())]), (
        "wrappers are structs, as by default in Spark"
    )
    assert kind.field("extra").type == pa.struct([("type_url", pa.string()), ("value", pa.binary())])
    message: Any = message_class()
    message.item.price = 1.5
    message.item.sizes.add(width=-3).at.FromJsonString("2024-05-06T07:08:09.123456789Z")
    message.count.value = 0
    message.note.value = "n"
    message.extra.Pack(message.item)
    message.nothing.SetInParent()
    message.color = 1
    [found], faults = decode(reader, [message.SerializeToString()])
    assert not faults
    assert found["item"]["sizes"] == [{"width": -3, "at": 1714979289123456}]
    assert found["count"] == {"value": None}, "a zero that is not on the wire"
    assert found["none"] is None
    assert found["note"] == {"value": "n"}
    assert found["extra"]["type_url"].endswith("shop.parts.Item")
    assert found["color"] == "GREEN"


def test_a_group_may_be_a_timestamp() -> None:
    reader, message_class = compiled(
        """syntax = "proto2"; message M {
          optional group Timestamp = 1 { optional int64 seconds = 1; optional int32 nanos = 2; } optional int32 x = 2;
        }"""
    )
    message: Any = message_class(x=7)
    message.timestamp.seconds, message.timestamp.nanos = 5, 6000
    value = message.SerializeToString()
    assert decode(reader, [value, value + value])[0] == [
        {"timestamp": 5_000_006, "x": 7},
        {"timestamp": 5_000_006, "x": 7},
    ]
    found, faults = decode(reader, [value[:3], b"\x0b\x08\x09\x0c"])
    assert found == [{"timestamp": None, "x": None}, {"timestamp": 9_000_000, "x": None}]
    assert "group" in faults[0]


def test_a_number_without_a_name() -> None:
    reader, _ = compiled('syntax = "proto3"; enum E { A = 0; B = 1; } message M { E e = 1; repeated E all = 2; }')
    found, _ = decode(reader, [b"\x08\x07\x12\x03\x00\x01\x09", b"\x08\x00"])
    assert found[0] == {"e": "UNKNOWN_ENUM_VALUE_E_7", "all": ["A", "B", "UNKNOWN_ENUM_VALUE_E_9"]}
    assert found[1] == {"e": None, "all": []}


def test_proto2_strings_that_are_none_are_repaired_and_proto3_ones_are_bad() -> None:
    value = b"\x0a\x03a\xffb"
    reader, _ = compiled('syntax = "proto2"; message M { optional string s = 1; }')
    assert decode(reader, [value]) == ([{"s": "a\ufffdb"}], {})
    reader, _ = compiled('syntax = "proto3"; message M { string s = 1; }')
    assert decode(reader, [value, b""]) == ([{"s": None}, {"s": None}], {0: "field s: is not UTF-8"})


def test_framed_values_are_read_by_the_readers_message() -> None:
    ours = compile_protobuf("m.proto", [("m.proto", 'syntax = "proto3"; message M { int64 id = 1; string s = 3; }')])
    writer = compile_protobuf(
        "m.proto", [("m.proto", 'syntax = "proto3"; message X {} message M { int32 id = 1; bool b = 2; bytes s = 3; }')]
    )
    other = compile_protobuf("m.proto", [("m.proto", 'syntax = "proto3"; message M { string id = 1; }')])
    reader = Format.protobuf(ours, "M", pa.field("", type_of(ours, "M")), framed=True)
    values = pa.array(
        [
            b"\0\0\0\0\x05" + b"\0" + b"\x08\x07",
            b"\0\0\0\0\x06" + b"\x02\x02" + b"\x08\x08\x10\x01\x1a\x01s",
            b"\0\0\0\0\x06" + b"\0",
            b"\0\0\0\0\x07" + b"\0",
            None,
        ],
        pa.binary(),
    )
    assert reader.decode(values).unknown_schemas == [5, 6, 7]
    reader.add_schema(5, ours)
    reader.add_schema(6, writer)
    with pytest.raises(ValueError, match=r"field id \(number 1\): string was written, and int64 is read"):
        reader.add_schema(7, other)
    reader.refuse_schema(7, "does not fit")
    decoded = reader.decode(values)
    nothing = {"id": None, "s": None}
    assert rows(pa.array(decoded)) == [{"id": 7, "s": None}, {"id": 8, "s": "s"}, nothing, nothing, None]
    assert decoded.faults == [(2, "is message X, and M is read"), (3, "does not fit")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            'syntax = "proto3"; message M { N n = 1; } message N { map<string, M> m = 1; }',
            r"field n\.m: message M contains",
        ),
        (
            'syntax = "proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Value v = 1; }',
            "itself",
        ),
        ('edition = "2023"; message M { int32 x = 1; }', "edition"),
        ('syntax = "proto3"; message M { int32 x = ; }', r"a\.proto:1:42"),
        ('syntax = "proto3"; import "z.proto"; message M { }', r"z\.proto"),
    ],
    ids=["recursive", "value", "edition", "grammar", "import"],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        compiled(text)


def test_an_edition_in_a_descriptor_set_is_refused() -> None:
    files = descriptor_pb2.FileDescriptorSet()
    files.file.add(name="e.proto", syntax="editions", edition=descriptor_pb2.EDITION_2023).message_type.add(name="M")
    with pytest.raises(ValueError, match="proto2 and proto3 can be read"):
        protobuf_type(files.SerializeToString(), "M")


def test_a_set_may_lack_googles_own_files_and_no_others() -> None:
    text = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp t = 1; }'
    files = descriptor_pb2.FileDescriptorSet.FromString(compile_protobuf("m.proto", [("m.proto", text)]))
    del files.file[0]
    assert type_of(files.SerializeToString(), "") == pa.struct([("t", pa.timestamp("us", "UTC"))])
    files.file[0].dependency.append("else.proto")
    with pytest.raises(ValueError, match=r"else\.proto.*--include_imports"):
        protobuf_type(files.SerializeToString(), "")
