"""What is written with a schema registry: read by Confluent's deserializers, registered or only looked up."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2

from fixtures.registry import ApicurioRegistry
from hostile.protobuf_schemas import load
from penstock._kernel import compile_protobuf
from penstock.errors import OptionError, SchemaNotFound, SchemaRefused
from penstock.formats.encoding import Encoding
from penstock.formats.encoding_resolve import resolve_encoding
from support.configs import write_formats

pytestmark = pytest.mark.usefixtures("fresh_schemas")

ROWS = [{"id": 1, "name": "ä", "tags": ["x", "y"]}, {"id": 2, "name": None, "tags": []}]
TYPE = pa.struct([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
OTHER_TYPE = pa.struct([("id", pa.string()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
COLUMN = pa.array([*ROWS, None], TYPE)
AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
    ],
}
PROTO = """
syntax = "proto3";
package shop;
message Other { }
message Order { int64 id = 1; optional string name = 2; repeated string tags = 3; }
"""
NUMBERS = itertools.count()


@pytest.fixture
def topic() -> str:
    """A name that no other test has. Nothing is written to it."""
    return f"written-{next(NUMBERS)}"


@pytest.fixture
def client(registry: ApicurioRegistry) -> SchemaRegistryClient:
    return registry.client()


def resolve(registry: ApicurioRegistry, topic: str | None, type_: pa.DataType = TYPE, **given: str) -> Encoding:
    formats = write_formats(schemaRegistry__url=registry.url, **given)
    return resolve_encoding(formats, pa.schema([("value", type_)]), topic)


def written(encoding: Encoding, column: pa.Array = COLUMN) -> list[Any]:
    encoded = encoding.encode(pa.RecordBatch.from_arrays([column], names=["value"]))
    assert encoded.faults == []
    return encoded.batch.column("value").to_pylist()


def read(deserializer: Any, topic: str, values: list[Any]) -> list[Any]:
    return [deserializer(value, SerializationContext(topic, MessageField.VALUE)) for value in values]


def register(client: SchemaRegistryClient, subject: str, schema: Any, kind: str = "AVRO") -> int:
    return client.register_schema(subject, Schema(schema if isinstance(schema, str) else json.dumps(schema), kind))


def test_W2_avro_with_a_given_schema_is_registered_and_read_by_confluents_deserializer(registry, client, topic):
    encoding = resolve(registry, topic, valueFormat="avro", valueSchema=json.dumps(AVRO))
    assert encoding.value.schema_id == client.get_latest_version(f"{topic}-value").schema_id
    assert read(AvroDeserializer(client), topic, written(encoding)) == [*ROWS, None]


def test_W2_avro_without_a_schema_registers_that_of_the_columns(registry, client, topic):
    encoding = resolve(registry, topic, valueFormat="avro")
    assert read(AvroDeserializer(client), topic, written(encoding)) == [*ROWS, None]
    again = resolve(registry, topic, valueFormat="avro")
    assert again.value.schema_id == encoding.value.schema_id
    assert client.get_versions(f"{topic}-value") == [1]


def test_W2_the_schema_of_the_subject_is_written_with(registry, client, topic):
    schema_id = register(client, f"{topic}-value", AVRO)
    encoding = resolve(registry, topic, valueFormat="avro")
    assert encoding.value.schema_id == schema_id
    assert read(AvroDeserializer(client), topic, written(encoding)) == [*ROWS, None]
    wider = pa.struct([*TYPE, pa.field("more", pa.int32())])
    with pytest.raises(OptionError, match="field more: is a column that the Avro schema does not have") as caught:
        resolve(registry, topic, wider, valueFormat="avro")
    assert f"subject '{topic}-value'" in str(caught.value)
    assert client.get_versions(f"{topic}-value") == [1], "nothing was registered"


def test_W2_a_version_of_the_subject_can_be_named(registry, client, topic):
    first = register(client, f"{topic}-value", AVRO)
    register(client, f"{topic}-value", {**AVRO, "doc": "newer"})
    encoding = resolve(registry, topic, valueFormat="avro", valueSchemaVersion="1")
    assert encoding.value.schema_id == first
    with pytest.raises(SchemaNotFound, match="version 9"):
        resolve(registry, topic, valueFormat="avro", valueSchemaVersion="9")


def test_W2_without_registration_the_registry_must_have_the_schema(registry, client, topic):
    given = {"valueFormat": "avro", "valueSchema": json.dumps(AVRO), "autoRegisterSchemas": "false"}
    with pytest.raises(SchemaNotFound, match="autoRegisterSchemas is false"):
        resolve(registry, topic, **given)
    with pytest.raises(SchemaNotFound, match="autoRegisterSchemas is false"):
        resolve(registry, topic, valueFormat="avro", autoRegisterSchemas="false")
    assert f"{topic}-value" not in client.get_subjects()
    schema_id = register(client, f"{topic}-value", AVRO)
    assert resolve(registry, topic, **given).value.schema_id == schema_id


def test_W2_an_incompatible_schema_is_refused_with_subject_and_reason(registry, client, topic):
    register(client, f"{topic}-value", AVRO)
    client.set_compatibility(f"{topic}-value", "BACKWARD")
    fields = [field for field in AVRO["fields"] if field["name"] != "id"]
    changed = {**AVRO, "fields": [*fields, {"name": "id", "type": "long"}, {"name": "must", "type": "string"}]}
    type_ = pa.struct([*TYPE, pa.field("must", pa.string())])
    with pytest.raises(SchemaRefused) as caught:
        resolve(registry, topic, type_, valueFormat="avro", valueSchema=json.dumps(changed))
    error = caught.value
    assert (error.subject, error.status) == (f"{topic}-value", 409)
    assert error.reason in str(error)
    assert "incompatible" in str(error)
    assert client.get_versions(f"{topic}-value") == [1]


def test_W2_a_schema_that_does_not_fit_the_columns_is_not_registered(registry, client, topic):
    with pytest.raises(OptionError, match="field id: a column of type Utf8"):
        resolve(registry, topic, OTHER_TYPE, valueFormat="avro", valueSchema=json.dumps(AVRO))
    assert f"{topic}-value" not in client.get_subjects()


@pytest.mark.parametrize(
    ("given", "subject"),
    [
        ({"subjectNameStrategy": "record"}, "shop.Order"),
        (
            {"subjectNameStrategy": "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"},
            "{topic}-shop.Order",
        ),
        ({"valueSubject": "own-{topic}"}, "own-{topic}"),
    ],
)
def test_W2_subjects_follow_their_strategy(registry, client, topic, given, subject):
    given = {name: value.format(topic=topic) for name, value in given.items()}
    encoding = resolve(registry, topic, valueFormat="avro", valueSchema=json.dumps(AVRO), **given)
    assert client.get_latest_version(subject.format(topic=topic)).schema_id == encoding.value.schema_id


def test_W2_topics_of_a_column_need_a_subject_that_does_not_depend_on_them(registry, topic):
    with pytest.raises(OptionError, match="topics come from the column topic") as caught:
        resolve(registry, None, valueFormat="avro")
    assert caught.value.name == "valueSubject"
    assert resolve(registry, None, valueFormat="avro", valueSubject=topic).value.schema_id


def test_W2_a_subject_of_another_type_is_refused(registry, client, topic):
    register(client, f"{topic}-value", AVRO)
    with pytest.raises(OptionError, match="holds a schema of type AVRO"):
        resolve(registry, topic, valueFormat="json")


def test_W2_json_registers_a_json_schema_and_confluents_deserializer_validates(registry, client, topic):
    encoding = resolve(registry, topic, valueFormat="json")
    text = client.get_latest_version(f"{topic}-value").schema.schema_str
    found = read(JSONDeserializer(text, schema_registry_client=client), topic, written(encoding))
    assert found == [ROWS[0], {"id": 2, "tags": []}, None]


def test_W2_json_takes_the_schema_of_the_subject_or_a_given_one(registry, client, topic):
    schema = {"type": "object", "title": "Order", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    schema_id = register(client, f"{topic}-value", schema, "JSON")
    assert resolve(registry, topic, valueFormat="json").value.schema_id == schema_id
    assert resolve(registry, topic, valueFormat="json", valueSchema=json.dumps(schema)).value.schema_id == schema_id
    with pytest.raises(OptionError, match="field id is required by the JSON Schema"):
        resolve(registry, topic, pa.struct([("name", pa.string())]), valueFormat="json")
    closed = json.dumps({**schema, "additionalProperties": False})
    with pytest.raises(OptionError, match="column name is not in the JSON Schema"):
        resolve(registry, topic, valueFormat="json", valueSchema=closed, valueSubject=f"closed-{topic}")


@pytest.mark.parametrize("compiled", [False, True])
def test_W2_protobuf_is_registered_and_read_by_confluents_deserializer(registry, client, topic, tmp_path, compiled):
    descriptors = compile_protobuf("order.proto", [("order.proto", PROTO)])
    path: Path = tmp_path / ("order.desc" if compiled else "order.proto")
    path.write_bytes(descriptors if compiled else PROTO.encode())
    given = {"valueFormat": "protobuf", "valueMessage": "Order"}
    encoding = resolve(registry, topic, valueSchema=str(path), **given)
    message = load(descriptor_pb2.FileDescriptorSet.FromString(descriptors), "shop.Order").message
    deserializer = ProtobufDeserializer(message, {"use.deprecated.format": False}, client)
    first, second, third = read(deserializer, topic, written(encoding))
    assert (first.id, first.name, list(first.tags)) == (1, "ä", ["x", "y"])
    assert (second.id, second.HasField("name"), third) == (2, False, None)
    # The next query finds it in the registry.
    again = resolve(registry, topic, **given)
    assert again.value.schema_id == encoding.value.schema_id
    assert written(again) == written(encoding)


def test_W2_protobuf_without_a_schema_is_refused_with_the_subject(registry, topic):
    with pytest.raises(OptionError, match=f"subject '{topic}-value' is not in the registry"):
        resolve(registry, topic, valueFormat="protobuf")


def test_W2_a_proto_file_with_imports_of_its_own_is_not_registered(registry, topic, tmp_path):
    (tmp_path / "b.proto").write_text('syntax = "proto3"; message B { int64 x = 1; }')
    (tmp_path / "a.proto").write_text('syntax = "proto3"; import "b.proto"; message A { int64 id = 1; B b = 2; }')
    only_id = pa.struct([("id", pa.int64())])
    with pytest.raises(OptionError, match=r"imports b\.proto"):
        resolve(registry, topic, only_id, valueFormat="protobuf", valueSchema=str(tmp_path / "a.proto"))


def test_W2_keys_have_a_subject_of_their_own(registry, client, topic):
    formats = write_formats(schemaRegistry__url=registry.url, keyFormat="avro", valueFormat="json", valueFraming="none")
    schema = pa.schema([("key", pa.int64()), ("value", TYPE)])
    encoding = resolve_encoding(formats, schema, topic)
    batch = pa.RecordBatch.from_arrays([pa.array([7]), pa.array(ROWS[:1], TYPE)], schema=schema)
    encoded = encoding.encode(batch).batch
    deserializer = AvroDeserializer(client)
    context = SerializationContext(topic, MessageField.KEY)
    assert deserializer(encoded.column("key")[0].as_py(), context) == 7
    assert json.loads(encoded.column("value")[0].as_py()) == ROWS[0]
    assert f"{topic}-value" not in client.get_subjects()
