"""Random Avro schemas and values, and the expected content of a column."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import avro.io
import avro.schema
import pyarrow as pa
from hypothesis import strategies as st

from penstock._kernel import Format, avro_type

Schema = Any

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
TIMES = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(datetime.UTC))
# No surrogates, which are not UTF-8, and no long strings, which find nothing new.
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)


def whole_millis(moment: Any) -> Any:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda unscaled: Decimal(unscaled).scaleb(-scale))


PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INT,
    "long": LONG,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=8),
    "string": TEXT,
}
LOGICAL: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "int", "logicalType": "date"}, st.dates()),
    ({"type": "int", "logicalType": "time-millis"}, st.times().map(whole_millis)),
    ({"type": "long", "logicalType": "time-micros"}, st.times()),
    ({"type": "long", "logicalType": "timestamp-millis"}, TIMES.map(whole_millis)),
    ({"type": "long", "logicalType": "timestamp-micros"}, TIMES),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, decimals(9, 2)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}, decimals(38, 10)),
    ({"type": "fixed", "name": "D", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 0}, decimals(20, 0)),
]
# Types whose Python values are distinct, so that a library chooses a branch without guessing.
UNION_KINDS = ("boolean", "long", "double", "bytes", "string", "record", "array")
# And no type is a promotion of another. For those, fastavro takes the first branch, as the specification says. Java's
# library, and with it Spark and the kernel, take the branch of the exact type.
UNLIKE_KINDS = ("boolean", "long", "string", "record", "array")


class Names:
    """Avro's named types must be defined once."""

    def __init__(self) -> None:
        self.count = 0

    def next(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"


@st.composite
def cases(
    draw: st.DrawFn,
    names: Names | None = None,
    depth: int = 2,
    kind: str | None = None,
    union_kinds: tuple[str, ...] = UNION_KINDS,
    logical: bool = True,
) -> Any:
    """A schema, and a strategy for its values."""
    names = names or Names()

    def inner(kind: str | None = None) -> st.SearchStrategy[Any]:
        return cases(names, depth - 1, kind, union_kinds, logical)

    kinds = [*PRIMITIVES, "fixed", "enum"] + (["logical"] if logical else [])
    kinds += ["record", "array", "map", "nullable", "union"] * 2 if depth else []
    kind = kind or draw(st.sampled_from(kinds))
    if kind in PRIMITIVES:
        return kind, PRIMITIVES[kind]
    if kind == "logical":
        schema, values = draw(st.sampled_from(LOGICAL))
        return ({**schema, "name": names.next("D")} if schema["type"] == "fixed" else schema), values
    if kind == "fixed":
        size = draw(st.integers(1, 20))
        return {"type": "fixed", "name": names.next("F"), "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "enum":
        symbols = [f"S{at}" for at in range(draw(st.integers(1, 4)))]
        return {"type": "enum", "name": names.next("E"), "symbols": symbols}, st.sampled_from(symbols)
    if kind == "record":
        fields = [draw(inner()) for _ in range(draw(st.integers(0, 4)))]
        schema = {
            "type": "record",
            "name": names.next("R"),
            "fields": [{"name": f"f{at}", "type": field} for at, (field, _) in enumerate(fields)],
        }
        return schema, st.fixed_dictionaries({f"f{at}": values for at, (_, values) in enumerate(fields)})
    if kind == "array":
        items, values = draw(inner())
        return {"type": "array", "items": items}, st.lists(values, max_size=3)
    if kind == "map":
        items, values = draw(inner())
        return {"type": "map", "values": items}, st.dictionaries(TEXT, values, max_size=3)
    if kind == "nullable":
        value, values = draw(inner().filter(lambda case: case[0] != "null" and not isinstance(case[0], list)))
        return (["null", value] if draw(st.booleans()) else [value, "null"]), st.none() | values
    branches = draw(st.lists(st.sampled_from(union_kinds), min_size=1, max_size=4, unique=True))
    pairs = [draw(inner(branch)) for branch in branches]
    if draw(st.booleans()):
        pairs.insert(draw(st.integers(0, len(pairs))), ("null", st.none()))
    return [schema for schema, _ in pairs], st.one_of([values for _, values in pairs])


def written(schema: Schema, value: Any) -> bytes:
    """Encoded by Apache's own library."""
    out = io.BytesIO()
    avro.io.DatumWriter(avro.schema.parse(json.dumps(schema))).write(value, avro.io.BinaryEncoder(out))
    return out.getvalue()


def read(schema: Schema, data: bytes) -> Any:
    """Decoded by Apache's own library, up to the last byte."""
    source = io.BytesIO(data)
    value = avro.io.DatumReader(avro.schema.parse(json.dumps(schema))).read(avro.io.BinaryDecoder(source))
    assert not source.read()
    return value


def type_of(schema: Schema) -> pa.DataType:
    return pa.field(avro_type(json.dumps(schema))).type


def column_of(
    schema: Schema, values: list[bytes | None], wanted: pa.DataType | None = None
) -> tuple[pa.Array, dict[int, str]]:
    """Decode values without framing. Returns the column and its faults."""
    decoded = Format.avro(json.dumps(schema), pa.field("", type_of(schema) if wanted is None else wanted)).decode(
        pa.array(values, pa.binary())
    )
    column = pa.array(decoded)
    column.validate(full=True)
    return column, dict(decoded.faults)


def spark(schema: Schema, value: Any) -> Any:
    """A value decoded by a library, in the form of a column's `as_py`: Spark's types, unions as structs."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if value is None or not branches:
            return None
        if len(branches) == 1:
            return spark(branches[0], value)
        if set(map(str, branches)) <= {"int", "long"} or set(map(str, branches)) <= {"float", "double"}:
            return value
        at = next(at for at, branch in enumerate(branches) if belongs(branch, value))
        return {f"member{other}": spark(branches[at], value) if other == at else None for other in range(len(branches))}
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if kind == "record":
        return {field["name"]: spark(field["type"], value[field["name"]]) for field in schema["fields"]}
    if kind == "array":
        return [spark(schema["items"], item) for item in value]
    if kind == "map":
        return {key: spark(schema["values"], item) for key, item in value.items()}
    if logical in ("time-millis", "time-micros"):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        return micros // 1000 if logical == "time-millis" else micros
    return value


def belongs(branch: Schema, value: Any) -> bool:
    kind = branch if isinstance(branch, str) else branch["type"]
    python = {
        "boolean": bool,
        "long": int,
        "double": float,
        "bytes": bytes,
        "string": str,
        "record": dict,
        "array": list,
    }
    return type(value) is python[kind]


def plain(value: Any) -> Any:
    """A column's value with maps as dicts."""
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):
            return {key: plain(item) for key, item in value}
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def alike(one: Any, other: Any) -> bool:
    """Whether two values are equal; an empty list equals an empty map, because `as_py` returns the same for both."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other or (not one and not other and {type(one), type(other)} == {list, dict})
