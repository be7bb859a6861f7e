"""Our client against a real registry, with schemas and messages by Confluent's own clients."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterator

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from google.protobuf import descriptor_pb2

from fixtures.serializers import avro_messages, json_messages, message_class, protobuf_messages
from penstock.errors import RegistryError, RegistryUnavailable, SchemaNotFound
from penstock.formats.registry.client import SchemaRegistry, clear_schema_cache, file_descriptor
from support.configs import registry_config

pytestmark = pytest.mark.usefixtures("fresh_schemas")

MONEY = '{"type":"record","name":"Money","namespace":"shop","fields":[{"name":"amount","type":"long"}]}'
ITEM = """{"type":"record","name":"Item","namespace":"shop","fields":[
    {"name":"price","type":"Money"},{"name":"discount","type":["null","shop.Money"]}]}"""
ORDER = """{"type":"record","name":"Order","namespace":"sales","fields":[
    {"name":"items","type":{"type":"array","items":"shop.Item"}},{"name":"total","type":"shop.Money"}]}"""


@pytest.fixture
def name() -> Callable[[str], str]:
    """Names that no other test has."""
    mark = uuid.uuid4().hex[:12]
    return lambda word: f"{word}-{mark}"


@pytest.fixture
def ours(registry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(registry_config((registry.url,))) as opened:
        yield opened


def id_of(message: bytes) -> int:
    assert message[0] == 0
    return int.from_bytes(message[1:5], "big")


def test_the_id_in_an_avro_message_leads_to_what_it_was_written_with(registry, ours, name):
    [message] = avro_messages(registry, name("t"), MONEY, [{"amount": 7}])
    found = ours.schema(id_of(message))
    assert (found.id, found.kind, found.references) == (id_of(message), "AVRO", ())
    writer = fastavro.parse_schema(json.loads(found.avro_text()))
    assert fastavro.schemaless_reader(io.BytesIO(message[5:]), writer) == {"amount": 7}


def test_latest_and_earlier_versions_of_a_subject(registry, ours, name):
    subject = name("evolving")
    client = registry.client()
    more = json.loads(MONEY)
    more["fields"].append({"name": "currency", "type": "string", "default": "EUR"})
    first = client.register_schema(subject, Schema(MONEY, "AVRO"))
    assert ours.latest(subject).id == first
    second = client.register_schema(subject, Schema(json.dumps(more), "AVRO"))
    newest = ours.latest(subject)
    assert (newest.id, newest.version, newest.subject) == (second, 2, subject)
    assert json.loads(newest.text) == more
    assert (ours.version(subject, 1).id, ours.version(subject, 1).version) == (first, 1)


def test_subjects_may_have_any_characters(registry, ours, name):
    subject = name("a/b c?d#e%2Fü")
    schema_id = registry.client().register_schema(subject, Schema(MONEY, "AVRO"))
    assert ours.latest(subject).id == schema_id


def test_avro_types_of_other_subjects_are_written_into_one_schema(registry, ours, name):
    client = registry.client()
    money, item, topic = name("money"), name("item"), name("orders")
    client.register_schema(money, Schema(MONEY, "AVRO"))
    to_money = SchemaReference("shop.Money", money, 1)
    client.register_schema(item, Schema(ITEM, "AVRO", [to_money]))
    order = Schema(ORDER, "AVRO", [SchemaReference("shop.Item", item, 1), to_money])
    value = {"items": [{"price": {"amount": 3}, "discount": {"amount": 1}}], "total": {"amount": 2}}
    [message] = avro_messages(registry, topic, order, [value])
    found = ours.schema(id_of(message))
    assert [reference for reference, _ in found.references] == ["shop.Money", "shop.Item"]
    writer = fastavro.parse_schema(json.loads(found.avro_text()))
    assert fastavro.schemaless_reader(io.BytesIO(message[5:]), writer) == value


def test_protobuf_comes_with_its_imports_before_it(registry, ours, name):
    mark = uuid.uuid4().hex[:8]
    files = []
    for file, imported, field in (("c", None, None), ("b", "c", "C"), ("a", "b", "B")):
        dependency = [f"{mark}/{imported}.proto"] if imported else []
        made = descriptor_pb2.FileDescriptorProto(
            name=f"{mark}/{file}.proto", package="p", syntax="proto3", dependency=dependency
        )
        message = made.message_type.add(name=file.upper())
        message.field.add(name="id", number=1, type=9, label=1)
        if field:
            message.field.add(name="inner", number=2, type=11, label=1, type_name=f".p.{field}")
        files.append(made)
    cls = message_class("p.A", *files)
    [message] = protobuf_messages(registry, name("t"), [cls(id="x", inner={"id": "y", "inner": {"id": "z"}})])
    found = ours.schema(id_of(message))
    assert found.kind == "PROTOBUF"
    assert [reference for reference, _ in found.references] == [f"{mark}/c.proto", f"{mark}/b.proto"]
    texts = [text for _, text in found.references] + [found.text]
    # Confluent's serializer registers descriptors, not sources, and Apicurio keeps them.
    kept = [descriptor_pb2.FileDescriptorProto.FromString(file_descriptor(text) or b"") for text in texts]
    assert kept == files
    again = message_class("p.A", *kept).FromString(message[6:])
    assert again.inner.inner.id == "z"
    with pytest.raises(ValueError, match="not AVRO"):
        found.avro_text()


def test_protobuf_sources_stay_sources(registry, ours, name):
    source = 'syntax = "proto3"; message A { int64 x = 1; }'
    schema_id = registry.client().register_schema(name("t-value"), Schema(source, "PROTOBUF"))
    assert ours.schema(schema_id).text == source
    assert file_descriptor(source) is None


def test_json_schemas(registry, ours, name):
    schema = {"title": "A", "type": "object", "properties": {"a": {"type": "integer"}}}
    topic = name("t")
    [message] = json_messages(registry, topic, json.dumps(schema), [{"a": 1}])
    found = ours.schema(id_of(message))
    assert (found.kind, json.loads(found.text)) == ("JSON", schema)
    assert ours.latest(f"{topic}-value").id == found.id


def test_what_is_not_there_is_named(registry, ours, name):
    subject = name("s")
    registry.client().register_schema(subject, Schema(MONEY, "AVRO"))
    with pytest.raises(SchemaNotFound, match="no schema 2000000000") as unknown:
        ours.schema(2_000_000_000)
    assert registry.url in str(unknown.value)
    with pytest.raises(SchemaNotFound, match=f"no version 2 of subject '{subject}'"):
        ours.version(subject, 2)
    with pytest.raises(SchemaNotFound, match="no latest version of subject 'nobody-"):
        ours.latest(name("nobody"))


def test_a_deleted_subject_is_gone_but_its_records_can_be_read(registry, ours, name):
    subject = name("s")
    schema = json.loads(MONEY) | {"name": f"Deleted{uuid.uuid4().hex}"}
    client = registry.client()
    schema_id = client.register_schema(subject, Schema(json.dumps(schema), "AVRO"))
    client.delete_subject(subject)
    with pytest.raises(SchemaNotFound):
        ours.latest(subject)
    assert ours.schema(schema_id).id == schema_id
    client.delete_subject(subject, permanent=True)
    assert ours.schema(schema_id).id == schema_id  # from memory: a schema never changes
    clear_schema_cache()
    with pytest.raises(SchemaNotFound):
        ours.schema(schema_id)


def test_an_address_without_its_path_is_no_registry(registry):
    wrong = registry.url.removesuffix("/apis/ccompat/v7")
    with SchemaRegistry(registry_config((wrong,))) as ours, pytest.raises(RegistryError, match="Check the path"):
        ours.schema(1)


def test_a_schema_is_asked_for_once_per_process(registry, ours, name):
    [message] = avro_messages(registry, name("t"), MONEY, [{"amount": 7}])
    found = ours.schema(id_of(message))
    registry.pause()
    try:
        quick = registry_config((registry.url,), timeout=0.2, retries=0)
        with SchemaRegistry(registry_config((registry.url,))) as another:
            assert another.schema(found.id) is found
        # Another configuration may be another user, who sees other schemas.
        with SchemaRegistry(quick) as stranger, pytest.raises(RegistryUnavailable, match="no answer within"):
            stranger.schema(found.id)
    finally:
        registry.resume()
