"""Messages made by Confluent's serializers, which register their schemas as producers do. Functions, not fixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import Message

    from fix_registry import ApicurioRegistry

# Importing them takes a second, and these functions are loaded with every test.


def avro_messages(
    registry: ApicurioRegistry,
    topic: str,
    schema: str | Schema,
    values: Sequence[Any],
    *,
    column: str = "value",
    **settings: Any,
) -> list[bytes]:
    """Framed Avro. `schema` with references is Confluent's Schema; `settings` as its serializers take them, with _ for
    the dots: auto_register_schemas=False."""
    from confluent_kafka.schema_registry.avro import AvroSerializer

    return _serialized(AvroSerializer(registry.client(), schema, conf=_dotted(settings)), topic, column, values)


def json_messages(
    registry: ApicurioRegistry,
    topic: str,
    schema: str | Schema,
    values: Sequence[Any],
    *,
    column: str = "value",
    **settings: Any,
) -> list[bytes]:
    """Framed JSON, checked against its JSON Schema, which must have a title."""
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

    return _serialized(JSONSerializer(schema, registry.client(), conf=_dotted(settings)), topic, column, values)


def protobuf_messages(
    registry: ApicurioRegistry, topic: str, values: Sequence[Message], *, column: str = "value", **settings: Any
) -> list[bytes]:
    """Framed Protobuf, of messages of one class (see `message_class`). What its file imports is registered too, under
    the file's name."""
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

    conf = {"use.deprecated.format": False} | _dotted(settings)
    return _serialized(ProtobufSerializer(type(values[0]), registry.client(), conf), topic, column, values)


def message_class(name: str, *files: FileDescriptorProto) -> type[Message]:
    """The class of a message by its full name, out of files in the order of their imports."""
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    found: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return found


def _serialized(serializer: Any, topic: str, column: str, values: Sequence[Any]) -> list[bytes]:
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext(topic, MessageField.KEY if column == "key" else MessageField.VALUE)
    return [serializer(value, context) for value in values]


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}
