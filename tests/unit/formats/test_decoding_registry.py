"""Columns whose records name schemas by ids, of which a registry has some."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from penstock._kernel import compile_protobuf, protobuf_message, protobuf_type
from penstock.errors import IncompatibleSchema, SchemaNotFound, UnreadableSchema
from penstock.formats import decoding
from penstock.formats.decoding import _KernelDecoder, descriptors_of
from penstock.formats.registry.client import RegisteredSchema
from penstock.formats.spec import Avro, Json, Protobuf


class Registry:
    """As it is asked by a decoder: the memory and the network behind it have tests of their own."""

    def __init__(self) -> None:
        self.has: set[int] = set()
        self.remembered: set[int] = set()
        self.asked: list[int] = []

    def has_cached(self, schema_id: int) -> bool:
        return schema_id in self.remembered

    def schema(self, schema_id: int) -> RegisteredSchema:
        self.asked.append(schema_id)
        if schema_id not in self.has:
            raise SchemaNotFound("http://registry", f"schema {schema_id}")
        return RegisteredSchema(schema_id, "AVRO", '"long"')


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def now(monkeypatch):
    """Seconds since the test began, which pass only if it says so."""
    clock = [0.0]
    monkeypatch.setattr(decoding, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    return clock


@pytest.fixture
def decode(registry):
    """`decode(3, 5, ...)`: records that were written with these schemas. The numbers read, and the faults."""
    decoder = _KernelDecoder("value", Avro('"long"', pa.int64(), framed=True), registry, drops_malformed=True)

    def decode(*ids, extra=()):
        values = [b"\0" + schema_id.to_bytes(4) + b"\x02" for schema_id in ids]
        found = decoder.decode(pa.record_batch({"value": pa.array([*values, *extra], pa.binary())}))
        return found.array.to_pylist(), dict(found.faults)

    return decode


def test_a_schema_that_the_registry_did_not_have_is_asked_for_again_after_a_while(registry, decode, now):
    registry.has = {3}
    assert decode(3, 5)[0] == [1, None]
    registry.has = {3, 5}
    now[0] = decoding.UNKNOWN_SECONDS - 1
    numbers, faults = decode(3, 5)
    assert numbers == [1, None]
    assert "no schema 5" in faults[1]
    assert registry.asked == [3, 5]
    now[0] = decoding.UNKNOWN_SECONDS + 1
    assert decode(3, 3)[0] == [1, 1]
    assert registry.asked == [3, 5], "no record names it, so the registry is not asked"
    assert decode(3, 5, extra=[b"\0", b"", None, b"\1\0\0\0\5\2"])[0] == [1, 1, None, None, None, None]
    assert registry.asked == [3, 5, 5]


def test_a_schema_that_is_never_there_is_asked_for_once_in_a_batch_at_most(registry, decode, now, monkeypatch):
    monkeypatch.setattr(decoding, "UNKNOWN_SECONDS", -1.0)  # believed for no time at all
    for _ in range(3):
        assert decode(5, 5)[0] == [None, None]
    assert registry.asked == [5, 5, 5]


def test_ids_that_no_registry_has_are_not_asked_for(registry, decode):
    numbers, faults = decode(2**31, 2**32 - 1, 2**31 - 1)
    assert numbers == [None] * 3
    assert "schema id 4294967295 is larger than any registry's" in faults[1]
    assert registry.asked == [2**31 - 1]


def test_after_many_unknown_ids_others_are_refused_for_a_while_without_asking(registry, decode, now):
    garbage = range(1000, 1000 + 3 * decoding.FAILED_LOOKUPS)
    registry.has = registry.remembered = {3}
    numbers, faults = decode(*garbage, 3)
    assert numbers == [None] * len(garbage) + [1]
    assert registry.asked == [3, *garbage[: decoding.FAILED_LOOKUPS]], "the smallest first"
    assert "was not looked up" in faults[len(garbage) - 1]

    registry.has = {3, 4, 5}
    registry.remembered = {3, 5}
    assert decode(4, 5)[0] == [None, 1], "what needs no question is known all the same"
    now[0] = decoding.UNKNOWN_SECONDS + 1
    assert decode(4, 5)[0] == [1, 1]
    registry.asked.clear()
    decode(*garbage)
    assert registry.asked == list(garbage[: decoding.FAILED_LOOKUPS])


def test_a_schema_that_many_records_name_is_not_lost_among_unknown_ids(registry, decode, now):
    garbage = range(1000, 1000 + 2 * decoding.FAILED_LOOKUPS)
    registry.has = {100_001}
    numbers, _ = decode(*garbage, *[100_001] * 5)
    assert numbers == [None] * len(garbage) + [1] * 5
    assert registry.asked[0] == 100_001
    registry.has.add(100_002)
    assert decode(*[100_002] * 5)[0] == [1] * 5, "also after all those questions"


def test_refused_ids_are_forgotten_when_there_are_many(registry, decode, now, monkeypatch):
    monkeypatch.setattr(decoding, "REFUSED_KEPT", 5)
    assert decode(*range(101, 105), 2**31)[0] == [None] * 5
    registry.asked.clear()
    assert decode(101)[0] == [None]
    assert registry.asked == [], "five are kept"
    assert decode(*range(105, 120), 101)[0] == [None] * 16, "more in one batch than are kept"
    registry.asked.clear()
    registry.has = {101}
    assert decode(101)[0] == [1], "all were forgotten, so it is asked for"
    assert registry.asked == [101]


def test_without_a_registry_no_id_is_kept(monkeypatch):
    decoder = _KernelDecoder("value", Avro('"long"', pa.int64(), framed=True), None, drops_malformed=True)
    monkeypatch.delattr(_KernelDecoder, "_look_up")  # the registry may not be asked
    values = [b"\0" + schema_id.to_bytes(4) + b"\x02" for schema_id in (1, 7, 2**32 - 1)]
    assert decoder.decode(pa.record_batch({"value": values})).array.to_pylist() == [1, 1, 1]


# Several kinds of records in one topic


def record(name, *fields, **more):
    return json.dumps(
        {"type": "record", "name": name, "fields": [{"name": each, "type": "long"} for each in fields]} | more
    )


ORDER = record("shop.Order", "id", aliases=["Purchase"])
KINDS = {
    1: ORDER,
    2: record("shop.Payment", "id", "amount"),
    3: record("warehouse.Order", "id", "weight"),
    4: record("Purchase", "id"),
    5: '"long"',
    6: record("shop.Order", "number"),
    7: record("Purchase", "number"),
    8: record("warehouse.Order", "number"),
    9: record("shop.Refund", "number"),
}


def decoder_of_orders(schema_id, *, drops_malformed):
    registry = SimpleNamespace(
        schema=lambda each: RegisteredSchema(each, "AVRO", KINDS[each]), has_cached=lambda _: True
    )
    kind = pa.struct([("id", pa.int64())])
    return _KernelDecoder("value", Avro(ORDER, kind, framed=True, schema_id=schema_id), registry, drops_malformed)


def framed(*ids):
    return pa.record_batch(
        {"value": [b"\0" + each.to_bytes(4) + b"\x0e" * (2 if each in (2, 3) else 1) for each in ids]}
    )


@pytest.mark.parametrize("drops_malformed", [True, False])
def test_a_record_of_another_name_is_one_bad_record_though_its_fields_fit(drops_malformed):
    found = decoder_of_orders(1, drops_malformed=drops_malformed).decode(framed(1, 2, 3, 4, 5))
    assert [row["id"] for row in found.array.to_pylist()] == [7, None, 7, 7, None]
    assert [row for row, _ in found.faults] == [1, 4]
    assert "schema 2 is unrelated: Payment was written, not Order or Purchase" in found.faults[0][1]
    assert "a value without a name was written" in found.faults[1][1]


def test_an_incompatible_version_of_the_same_record_is_an_error_unless_bad_records_are_left_out():
    for schema_id in (6, 7, 8):
        with pytest.raises(IncompatibleSchema, match=f"schema {schema_id} cannot be read with schema 1: "):
            decoder_of_orders(1, drops_malformed=False).decode(framed(1, schema_id))
        found = decoder_of_orders(1, drops_malformed=True).decode(framed(1, schema_id))
        assert [row for row, _ in found.faults] == [1]


def test_a_record_of_another_name_is_one_bad_record_of_a_users_schema_if_it_does_not_fit():
    found = decoder_of_orders(None, drops_malformed=False).decode(framed(1, 9, 5))
    assert found.array.field("id").to_pylist() == [7, None, None]
    assert "schema 9 is unrelated: Refund was written" in found.faults[0][1]
    with pytest.raises(IncompatibleSchema):
        decoder_of_orders(None, drops_malformed=False).decode(framed(6))


def test_two_schemas_without_names_are_versions_of_each_other(registry, monkeypatch):
    monkeypatch.setattr(registry, "schema", lambda each: RegisteredSchema(each, "AVRO", '"string"'))
    decoder = _KernelDecoder(
        "value", Avro('"long"', pa.int64(), framed=True, schema_id=1), registry, drops_malformed=False
    )
    with pytest.raises(IncompatibleSchema, match="was written as string"):
        decoder.decode(framed(2))


def test_a_union_is_a_version_of_what_it_has_a_name_of(registry, monkeypatch):
    texts = {2: f'["null", {ORDER}]', 3: f'["string", {KINDS[9]}]', 4: f'["string", {KINDS[6]}]'}
    monkeypatch.setattr(registry, "schema", lambda each: RegisteredSchema(each, "AVRO", texts[each]))
    spec = Avro(ORDER, pa.struct([("id", pa.int64())]), framed=True, schema_id=1)
    decoder = _KernelDecoder("value", spec, registry, drops_malformed=False)
    found = decoder.decode(pa.record_batch({"value": [b"\0\0\0\0\2\2\x0e", b"\0\0\0\0\3\2\x0e"]}))
    assert found.array.field("id").to_pylist() == [7, None]
    with pytest.raises(IncompatibleSchema):
        decoder.decode(pa.record_batch({"value": [b"\0\0\0\0\4\2\x0e"]}))


def test_a_schema_that_a_user_wrote_may_be_called_anything():
    found = decoder_of_orders(None, drops_malformed=False).decode(framed(1, 2, 3, 4))
    assert (found.array.field("id").to_pylist(), found.faults) == ([7] * 4, [])


def test_poison_pills_cost_themselves_whatever_their_schema_is():
    values = framed(*[1] * 100, 9, *[1] * 100)
    found = decoder_of_orders(1, drops_malformed=False).decode(values)
    assert [row for row, _ in found.faults] == [100]
    assert found.array.field("id").to_pylist() == [7] * 100 + [None] + [7] * 100


@pytest.mark.parametrize(
    ("kind", "text", "is_error"),
    [("XML", "<a/>", False), ("AVRO", KINDS[9], False), ("AVRO", '"shop.Refund"', False), ("AVRO", ORDER, True)],
)
def test_a_schema_that_is_not_read_costs_its_records_unless_it_is_a_version_of_theirs(kind, text, is_error):
    def schema(schema_id):
        if schema_id == 1:
            return RegisteredSchema(1, "AVRO", ORDER)
        raise UnreadableSchema("http://registry", "schema 2", "refers to too many others", kind, text)

    registry = SimpleNamespace(schema=schema, has_cached=lambda _: True)
    spec = Avro(ORDER, pa.struct([("id", pa.int64())]), framed=True, schema_id=1)
    values = pa.record_batch({"value": [b"\0\0\0\0\1\x0e", b"\0\0\0\0\2\x0e"]})
    if is_error:
        with pytest.raises(UnreadableSchema):
            _KernelDecoder("value", spec, registry, drops_malformed=False).decode(values)
    found = _KernelDecoder("value", spec, registry, drops_malformed=is_error).decode(values)
    assert found.array.field("id").to_pylist() == [7, None]
    assert "refers to too many others" in found.faults[0][1]


# Protobuf, as registries keep it

COMMON = 'syntax = "proto3"; package c; message C { int64 id = 1; }'
MAIN = 'syntax = "proto3"; import "common.proto"; message M { c.C c = 1; }'


def in_base64(name: str, files: dict[str, str]) -> str:
    found = descriptor_pb2.FileDescriptorSet.FromString(compile_protobuf(name, list(files.items())))
    return base64.b64encode(found.file[-1].SerializeToString()).decode()


def test_source_or_descriptor_what_is_referred_to_comes_along():
    common, main = (
        in_base64("common.proto", {"common.proto": COMMON}),
        in_base64("main.proto", {"common.proto": COMMON, "main.proto": MAIN}),
    )
    for text, reference in [(MAIN, COMMON), (main, COMMON), (main, common), (MAIN, common)]:
        made = descriptors_of(RegisteredSchema(1, "PROTOBUF", text, (("common.proto", reference),)))
        assert pa.field(protobuf_type(made, "M")).type == pa.struct({"c": pa.struct({"id": pa.int64()})})


def test_a_descriptor_is_known_by_the_name_that_it_is_referred_to_by():
    other = in_base64("elsewhere/c.proto", {"elsewhere/c.proto": COMMON})
    made = descriptors_of(RegisteredSchema(1, "PROTOBUF", MAIN, (("common.proto", other),)))
    assert protobuf_message(made, "C") == "c.C"


def test_what_is_no_descriptor_is_named():
    with pytest.raises(ValueError, match=r"common\.proto is not a file descriptor"):
        descriptors_of(RegisteredSchema(1, "PROTOBUF", MAIN, (("common.proto", "bm9uZQ=="),)))


def test_json_is_read_by_its_names_whatever_schema_its_frame_names(registry):
    spec = Json(pa.struct([("id", pa.int64())]), framed=True)
    values = [b'\0\0\0\0\1{"id": 7}', b'\0\0\0\0\2{"name": "x"}', b'\0\0\0\0\3"x"']
    found = _KernelDecoder("value", spec, registry, drops_malformed=False).decode(pa.record_batch({"value": values}))
    assert found.array.field("id").to_pylist() == [7, None, None]
    assert [row for row, _ in found.faults] == [2]
    assert registry.asked == []


# Messages of another name

READ = 'syntax = "proto3"; package shop; message Order { int64 id = 1; }'
WRITTEN = {
    1: READ,
    2: 'syntax = "proto3"; package shop; message Payment { string id = 1; }',
    3: 'syntax = "proto3"; package shop; message Order { string id = 1; }',
    4: 'edition = "2023"; package shop; message Payment { string id = 1; }',
    5: 'edition = "2023"; package shop; message Order { string id = 1; }',
}


def decode_orders(*ids):
    registry = SimpleNamespace(
        schema=lambda each: RegisteredSchema(each, "PROTOBUF", WRITTEN[each]), has_cached=lambda _: True
    )
    descriptors = descriptors_of(RegisteredSchema(1, "PROTOBUF", READ))
    spec = Protobuf(descriptors, "shop.Order", pa.struct([("id", pa.int64())]), framed=True, schema_id=1)
    values = [b"\0" + each.to_bytes(4) + indexes + b"\x08\x07" for each, indexes in ids]
    return _KernelDecoder("value", spec, registry, drops_malformed=False).decode(pa.record_batch({"value": values}))


FIRST, SECOND = b"\0", b"\2\2"


def test_a_message_of_another_name_or_index_is_one_bad_record():
    found = decode_orders((1, FIRST), (2, FIRST), (1, SECOND), (4, FIRST), (1, FIRST))
    assert found.array.field("id").to_pylist() == [7, None, None, None, 7]
    reasons = dict(found.faults)
    assert "is message shop.Payment, and shop.Order is read" in reasons[1]
    assert "lead nowhere" in reasons[2]
    assert "it has no message Order" in reasons[3]


@pytest.mark.parametrize("schema_id", [3, 5])
def test_an_incompatible_version_of_the_same_message_is_an_error(schema_id):
    with pytest.raises(IncompatibleSchema, match=f"schema {schema_id} cannot be read with schema 1"):
        decode_orders((1, FIRST), (schema_id, FIRST))
