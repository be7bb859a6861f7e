"""Random Protobuf schemas and messages, and the values that Google's library reads, as Spark shows them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from penstock._kernel import Format, protobuf_type

Proto = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    Proto.TYPE_INT32: (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    Proto.TYPE_SINT32: (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    Proto.TYPE_SFIXED32: (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    Proto.TYPE_UINT32: (pa.int32(), st.integers(0, 2**32 - 1)),
    Proto.TYPE_FIXED32: (pa.int32(), st.integers(0, 2**32 - 1)),
    Proto.TYPE_INT64: (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    Proto.TYPE_SINT64: (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    Proto.TYPE_SFIXED64: (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    Proto.TYPE_UINT64: (pa.int64(), st.integers(0, 2**64 - 1)),
    Proto.TYPE_FIXED64: (pa.int64(), st.integers(0, 2**64 - 1)),
    Proto.TYPE_FLOAT: (pa.float32(), st.floats(width=32)),
    Proto.TYPE_DOUBLE: (pa.float64(), st.floats()),
    Proto.TYPE_BOOL: (pa.bool_(), st.booleans()),
    Proto.TYPE_STRING: (pa.string(), st.text(max_size=8)),
    Proto.TYPE_BYTES: (pa.binary(), st.binary(max_size=8)),
}
KEYS = [kind for kind in SCALARS if kind not in (Proto.TYPE_FLOAT, Proto.TYPE_DOUBLE, Proto.TYPE_BYTES)]
PACKABLE = {kind for kind in SCALARS if kind not in (Proto.TYPE_STRING, Proto.TYPE_BYTES)} | {Proto.TYPE_ENUM}
MOMENTS = {"google.protobuf.Timestamp": pa.timestamp("us", "UTC"), "google.protobuf.Duration": pa.duration("us")}
ENUM_NUMBERS = {0: "ZERO", 1: "ONE", 5: "FIVE", -3: "LESS", 70000: "MANY"}
DEFAULTS = {Proto.TYPE_STRING: "pre", Proto.TYPE_INT32: "-7", Proto.TYPE_DOUBLE: "2.5", Proto.TYPE_BOOL: "true"}


@dataclass(frozen=True)
class Schema:
    """A set of descriptors. `M0` is the message to read."""

    files: descriptor_pb2.FileDescriptorSet
    message: type[Message]

    @property
    def descriptors(self) -> bytes:
        return self.files.SerializeToString()

    @property
    def name(self) -> str:
        return self.message.DESCRIPTOR.full_name

    def reader(self) -> Format:
        return Format.protobuf(
            self.descriptors, self.name, pa.field("", pa.field(protobuf_type(self.descriptors, self.name)).type)
        )


def load(files: descriptor_pb2.FileDescriptorSet, name: str = "r.M0") -> Schema:
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return Schema(files, message_factory.GetMessageClass(pool.FindMessageTypeByName(name)))


def standard_files() -> descriptor_pb2.FileDescriptorSet:
    files = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, duration_pb2):
        files.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
    return files


@st.composite
def schemas(draw: st.DrawFn, syntax: str | None = None) -> Schema:
    files = standard_files()
    file = files.file.add(name="r.proto", package="r", syntax=syntax or draw(st.sampled_from(["proto2", "proto3"])))
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"])
    numbers = list(ENUM_NUMBERS.items())
    enum = file.enum_type.add(name="Color")
    for number, name in numbers if file.syntax == "proto3" else draw(st.permutations(numbers)):
        enum.value.add(name=name, number=number)
    count = draw(st.integers(1, 3))
    for index in range(count):
        message = file.message_type.add(name=f"M{index}")
        # Only later messages, so that no message contains itself.
        others = [f".r.M{other}" for other in range(index + 1, count)]
        numbers_of = draw(st.lists(st.integers(1, 40) | st.integers(41, 3000), min_size=1, max_size=7, unique=True))
        oneof = message.oneof_decl.add(name="choice") if draw(st.booleans()) else None
        for position, number in enumerate(numbers_of):
            if 19000 <= number < 20000:
                continue
            add_field(draw, file.syntax, message, number, position, others, oneof is not None)
        if oneof is not None and not any(field.HasField("oneof_index") for field in message.field):
            message.field.add(name="last", number=3100, label=Proto.LABEL_OPTIONAL, type=Proto.TYPE_BOOL, oneof_index=0)
        if file.syntax == "proto3":
            for field in message.field:  # a compiler turns proto3's "optional" into a oneof with one member
                if field.proto3_optional:
                    field.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{field.name}")
    return load(files)


def add_field(
    draw: st.DrawFn,
    syntax: str,
    message: descriptor_pb2.DescriptorProto,
    number: int,
    position: int,
    others: Sequence[str],
    in_oneof: bool,
) -> None:
    field = message.field.add(name=f"f{number}", number=number, label=Proto.LABEL_OPTIONAL)
    # The first field is a scalar: Spark, and so Penstock, has no messages without fields.
    shapes = ["scalar"] if position == 0 else ["scalar", "scalar", "enum", "moment", "map", *["message"] * len(others)]
    if syntax == "proto2" and position > 0:
        shapes.append("group")
    shape = draw(st.sampled_from(shapes))
    if shape == "map":
        entry = message.nested_type.add(name=f"F{number}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=Proto.LABEL_OPTIONAL, type=draw(st.sampled_from(KEYS)))
        value = entry.field.add(name="value", number=2, label=Proto.LABEL_OPTIONAL)
        # The enum of a map must begin with zero, which proto2's enums here do not always do.
        inner = ["scalar", "moment", *["message"] * len(others), *["enum"] * (syntax == "proto3")]
        set_type(draw, value, draw(st.sampled_from(inner)), others)
        field.label, field.type, field.type_name = Proto.LABEL_REPEATED, Proto.TYPE_MESSAGE, entry.name
        return
    if shape == "group":
        field.type, field.type_name = Proto.TYPE_GROUP, f"G{number}"
        message.nested_type.add(name=f"G{number}").field.add(
            name="in", number=2, label=Proto.LABEL_OPTIONAL, type=Proto.TYPE_INT64
        )
    else:
        set_type(draw, field, shape, others)
    label = draw(st.sampled_from(["optional", "optional", "repeated", "oneof" if in_oneof else "repeated", "required"]))
    if label == "repeated":
        field.label = Proto.LABEL_REPEATED
        if field.type in PACKABLE:
            field.options.packed = draw(st.booleans())
    elif label == "oneof":
        field.oneof_index = 0
    elif syntax == "proto2":
        if label == "required" and draw(st.integers(0, 5)) == 0:
            field.label = Proto.LABEL_REQUIRED
        if field.type in DEFAULTS and draw(st.booleans()):
            field.default_value = DEFAULTS[field.type]
        if field.type == Proto.TYPE_ENUM and draw(st.booleans()):
            field.default_value = "FIVE"
    elif draw(st.booleans()):
        field.proto3_optional = True


def set_type(draw: st.DrawFn, field: Any, shape: str, others: Sequence[str]) -> None:
    if shape == "scalar":
        field.type = draw(st.sampled_from(list(SCALARS)))
        return
    field.type = Proto.TYPE_ENUM if shape == "enum" else Proto.TYPE_MESSAGE
    kinds = {"enum": [".r.Color"], "moment": [f".{name}" for name in MOMENTS], "message": others}
    field.type_name = draw(st.sampled_from(kinds[shape]))


def flipped(schema: Schema) -> Schema:
    """The same messages with packed and unpacked fields exchanged."""
    files = descriptor_pb2.FileDescriptorSet()
    files.CopyFrom(schema.files)
    for message in files.file[-1].message_type:
        for field in message.field:
            if field.label == Proto.LABEL_REPEATED and field.type in PACKABLE:
                field.options.packed = not field.options.packed
    return load(files, schema.name)


def fill(draw: st.DrawFn, message: Message, chance: int = 3) -> None:
    """Set some of the fields."""
    for field in message.DESCRIPTOR.fields:
        if draw(st.integers(0, chance)) == 0:
            continue
        value = getattr(message, field.name)
        if is_map(field):
            key, item = field.message_type.fields
            for _ in range(draw(st.integers(0, 3))):
                drawn = draw(SCALARS[key.type][1])
                if item.message_type is None:
                    value[drawn] = draw(scalars(item))
                else:
                    fill(draw, value[drawn], chance)
        elif field.message_type is not None:
            for _ in range(draw(st.integers(1, 3)) if field.is_repeated else 1):
                if not field.is_repeated:
                    value.SetInParent()
                fill(draw, value.add() if field.is_repeated else value, chance)
        elif field.is_repeated:
            value.extend(draw(st.lists(scalars(field), max_size=4)))
        else:
            setattr(message, field.name, draw(scalars(field)))


def scalars(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.containing_type.full_name in MOMENTS:
        return st.integers(-(10**9), 10**10) if field.name == "seconds" else st.integers(-(10**9), 10**9)
    if field.enum_type is not None:
        known = st.sampled_from(list(ENUM_NUMBERS))
        return known if field.enum_type.is_closed else known | st.sampled_from([2, -1, 2**31 - 1])
    return SCALARS[field.type][1]


@st.composite
def messages(draw: st.DrawFn, schema: Schema, chance: int = 3) -> Message:
    message = schema.message()
    fill(draw, message, chance)
    return message


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def shown(message: Message) -> dict[str, Any]:
    """A message as Spark's from_protobuf shows it."""
    return {field.name: shown_field(message, field) for field in message.DESCRIPTOR.fields}


def shown_field(message: Message, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if is_map(field):
        key, item = field.message_type.fields
        return {plain(key)(entry): plain(item)(value[entry]) for entry in value}
    if field.is_repeated:
        return [plain(field)(item) for item in value]
    if field.has_presence:
        there = message.HasField(field.name) or field.has_default_value
    else:
        there = value not in (0, "", b"") or (isinstance(value, float) and math.copysign(1, value) < 0)
    return plain(field)(value) if there else None


def plain(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return moment if field.message_type.full_name in MOMENTS else shown
    if field.enum_type is not None:
        names: dict[int, str] = {}
        for value in field.enum_type.values:
            names.setdefault(value.number, value.name)
        return lambda number: names.get(number, f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_{number}")
    if pa.types.is_floating(SCALARS[field.type][0]):
        return bits
    if field.type in (Proto.TYPE_UINT32, Proto.TYPE_FIXED32):
        return lambda number: number - 2**32 if number >= 2**31 else number
    if field.type in (Proto.TYPE_UINT64, Proto.TYPE_FIXED64):
        return lambda number: number - 2**64 if number >= 2**63 else number
    return lambda value: value


def moment(message: Any) -> int:
    # Spark truncates fractions of a microsecond towards zero.
    return int(message.seconds * 1_000_000 + math.trunc(message.nanos / 1000))


def bits(value: float) -> bytes | str:
    """Equal only for the same bits: -0.0 is not 0.0."""
    return "NaN" if math.isnan(value) else struct.pack("<d", value)


def rows(array: pa.Array) -> list[Any]:
    """An Arrow column, in the form of `shown`."""
    kind = array.type
    valid = array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        columns = [rows(array.field(index)) for index in range(kind.num_fields)]
        names = [field.name for field in kind]
        values: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        values = values if columns else [{} for _ in valid]
    elif pa.types.is_map(kind):
        keys, items = rows(array.keys), rows(array.items)
        values = []
        for start, end in pairs(array):
            assert len(set(keys[start:end])) == end - start, "a key twice"
            values.append(dict(zip(keys[start:end], items[start:end], strict=True)))
    elif pa.types.is_list(kind):
        items = rows(array.values)
        values = [items[start:end] for start, end in pairs(array)]
    elif pa.types.is_floating(kind):
        values = [None if value is None else bits(value) for value in array.to_pylist()]
    elif pa.types.is_temporal(kind):
        values = array.cast(pa.int64()).to_pylist()
    else:
        values = array.to_pylist()
    return [value if there else None for value, there in zip(values, valid, strict=True)]


def pairs(array: Any) -> list[tuple[int, int]]:
    offsets = array.offsets.to_pylist()
    return list(pairwise(offsets))


def expected_type(descriptor: Descriptor) -> pa.DataType:
    return pa.struct([pa.field(field.name, expected_field(field)) for field in descriptor.fields])


def expected_field(field: FieldDescriptor) -> pa.DataType:
    if is_map(field):
        key, value = field.message_type.fields
        return pa.map_(expected_value(key), expected_value(value))
    return pa.list_(pa.field("element", expected_value(field))) if field.is_repeated else expected_value(field)


def expected_value(field: FieldDescriptor) -> pa.DataType:
    if field.message_type is not None:
        return MOMENTS.get(field.message_type.full_name) or expected_type(field.message_type)
    return pa.string() if field.enum_type is not None else SCALARS[field.type][0]


def decode(reader: Format, values: Sequence[bytes | None]) -> tuple[list[Any], dict[int, str]]:
    decoded = reader.decode(pa.array(values, pa.binary()))
    column = pa.array(decoded)
    column.validate(full=True)
    assert column.type == pa.field(reader.type).type
    return rows(column), dict(decoded.faults)
