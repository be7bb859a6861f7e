"""Malformed Protobuf: Penstock rejects records that Google's parser rejects, and reads the others as Google does."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.protobuf_schemas import Schema, decode, is_map, load, messages, schemas, shown
from penstock._kernel import Format, compile_protobuf, protobuf_type
from support.examples import examples

NESTED = (
    'syntax = "proto3"; message M { M0 m = 1; repeated int32 r = 2; string s = 3; oneof o { M0 a = 4; bool b = 5; } }'
)


def google(schema: Schema, value: bytes) -> Message | None:
    try:
        message = schema.message.FromString(value)
    except DecodeError:
        return None
    return message if message.IsInitialized() else None


@st.composite
def damaged(draw: st.DrawFn, value: bytes) -> bytes:
    """Some bytes changed, removed, inserted or repeated."""
    changed = bytearray(value)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(changed)))
        match draw(st.sampled_from(["flip", "cut", "insert", "remove", "repeat", "huge"])):
            case "flip" if at < len(changed):
                changed[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del changed[at:]
            case "insert":
                changed[at:at] = draw(st.binary(min_size=1, max_size=4))
            case "remove":
                del changed[at : at + draw(st.integers(1, 4))]
            case "repeat":
                changed[at:at] = changed[at : at + 8]
            case "huge":
                changed[at:at] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"[draw(st.integers(0, 9)) :]
            case _:
                pass
    return bytes(changed)


def has_maps(descriptor: Any) -> bool:
    return any(
        is_map(field) or (field.message_type is not None and has_maps(field.message_type))
        for field in descriptor.fields
    )


@settings(max_examples=examples(150))
@given(st.data())
def test_damage_affects_only_its_record_and_google_agrees(data: st.DataObject) -> None:
    schema = data.draw(schemas("proto3"))
    good = data.draw(messages(schema, 8)).SerializeToString()
    bad = [data.draw(damaged(good)) for _ in range(5)]
    values = [good, *(value for each in bad for value in (each, good))]
    found, faults = decode(schema.reader(), values)
    whole = shown(schema.message.FromString(good))
    for row, value in enumerate(values):
        if row % 2 == 0:
            assert row not in faults
            assert found[row] == whole, "a neighbour of a bad record"
            continue
        if "too many for microseconds" in faults.get(row, ""):
            continue  # a good message that a timestamp cannot represent
        message = google(schema, value)
        assert (row in faults) == (message is None), faults.get(row)
        if message is None:
            assert found[row] == dict.fromkeys(whole)
        elif not has_maps(message.DESCRIPTOR):
            # Google's C library drops a map entry with an unknown field; its other libraries do not.
            assert found[row] == shown(message)


@settings(max_examples=examples(60))
@given(st.data())
def test_any_bytes_end_in_rows(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    values = data.draw(st.lists(st.binary(max_size=40), max_size=10))
    found, faults = decode(schema.reader(), values)
    assert len(found) == len(values)
    for row, value in enumerate(values):
        if "too many for microseconds" not in faults.get(row, ""):
            assert (row in faults) == (google(schema, value) is None)


@settings(max_examples=examples(60))
@given(st.binary(max_size=60))
def test_any_bytes_as_descriptors_are_types_or_an_error(value: bytes) -> None:
    with contextlib.suppress(ValueError):
        protobuf_type(value, "")


@settings(max_examples=examples(60))
@given(st.data())
def test_damaged_descriptors_are_types_or_an_error(data: st.DataObject) -> None:
    value = data.draw(damaged(data.draw(schemas()).descriptors))
    with contextlib.suppress(ValueError):
        kind = pa.field(protobuf_type(value, "r.M0"))
        Format.protobuf(value, "r.M0", kind).decode(pa.array([b"\x08\x01", b"\x0a\x02\x08\x01"]))


def nested(depth: int) -> tuple[Format, Schema]:
    text = 'syntax = "proto3";' + "".join(
        f"message M{level} {{ M{level + 1} m = 1; int32 x = 2; }}" for level in range(depth)
    )
    descriptors = compile_protobuf("m.proto", [("m.proto", text + f"message M{depth} {{ int32 x = 2; }}")])
    kind = pa.field(protobuf_type(descriptors, "M0"))
    return Format.protobuf(descriptors, "M0", kind), load(FileDescriptorSet.FromString(descriptors), "M0")


def test_the_depth_limit_equals_googles() -> None:
    reader, schema = nested(50)
    for depth in (1, 50, 51, 99, 100, 101, 102, 5000, 100_000):
        # Messages as deep as the type, and in the innermost one unknown groups.
        value = b"\x1b" * max(0, depth - 50) + b"\x1c" * max(0, depth - 50)
        for _ in range(min(depth, 50)):
            value = b"\x0a" + varint(len(value)) + value
        _, faults = decode(reader, [value, b""])
        assert (0 in faults) == (google(schema, value) is None) == (depth > 100), depth
        assert 1 not in faults


def test_a_type_too_deep_for_arrow_is_rejected_with_its_path() -> None:
    with pytest.raises(ValueError, match=r"field (m\.)+m: is nested more than 60 levels deep"):
        nested(60)


def varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


@pytest.mark.parametrize("form", ["list", "map", "turns"])
def test_empty_messages_cannot_exhaust_memory(form: str) -> None:
    fields = "".join(f"double f{number} = {number};" for number in range(1, 2001))
    forms = {"list": "repeated W w = 1;", "map": "map<int32, W> w = 1;", "turns": "oneof o { W w = 1; W v = 2; }"}
    text = f'syntax = "proto3"; message M {{ {forms[form]} }} message W {{ {fields} }}'
    descriptors = compile_protobuf("m.proto", [("m.proto", text)])
    reader = Format.protobuf(descriptors, "M", pa.field(protobuf_type(descriptors, "M")))
    hostile = (b"\x0a\0\x12\0" if form == "turns" else b"\x0a\0") * 500_000
    decoded = reader.decode(pa.array([b"\x0a\0", hostile, b"\x0a\0"]))
    assert [row for row, _ in decoded.faults] == [1]
    assert pa.array(decoded).nbytes < 2_000_000
