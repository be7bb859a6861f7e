"""Encodes events as record values, with the libraries that producers use."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.formats.events import FIELDS, Event, Field
from benchmarks.programs.user_code import message_class

AVRO_TYPES = {"BIGINT": "long", "STRING": "string", "DOUBLE": "double"}
PROTOBUF_TYPES = {"BIGINT": "TYPE_INT64", "STRING": "TYPE_STRING", "DOUBLE": "TYPE_DOUBLE"}
PROTOBUF_MESSAGE = "shop.Event"

AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "namespace": "shop",
        "fields": [{"name": field.name, "type": AVRO_TYPES[field.kind]} for field in FIELDS],
    }
)


def write_values(path: Path, values: Iterable[bytes]) -> Path:
    """Write values to a file in the format that Load.java reads."""
    with path.open("wb") as file:
        for value in values:
            file.write(struct.pack(">i", len(value)) + value)
    return path


def json_values(events: Iterable[Event]) -> list[bytes]:
    return [json.dumps(event, separators=(",", ":")).encode() for event in events]


def malformed_values(events: Sequence[Event]) -> tuple[list[Event], list[bytes]]:
    """Truncated documents, texts that are not JSON, and documents with a field of another type; and the fields that a
    reader keeps of each."""
    left: list[Event] = []
    values: list[bytes] = []
    for number, event in enumerate(events):
        whole = json_values([event])[0]
        match number % 3:
            case 0:
                left.append({})
                values.append(whole[: len(whole) // 2])
            case 1:
                left.append({})
                values.append(f"ERROR upstream timed out after {event['time'] % 1000} ms".encode())
            case _:
                left.append({**event, "id": None})
                values.append(json_values([{**event, "id": "unknown"}])[0])
    return left, values


def avro_values(events: Iterable[Event], registry_url: str, topic: str) -> list[bytes]:
    """Encode with Confluent's serializer, which registers the schema and writes its id before each value."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    with SchemaRegistryClient({"url": registry_url}) as client:
        serialize = AvroSerializer(client, AVRO_SCHEMA)
        context = SerializationContext(topic, MessageField.VALUE)
        return [serialize(dict(event), context) for event in events]


def protobuf_descriptors(fields: Sequence[Field] = FIELDS) -> bytes:
    """A descriptor set, as protoc writes it."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    package, _, name = PROTOBUF_MESSAGE.partition(".")
    message = files.file.add(name="event.proto", package=package, syntax="proto3").message_type.add(name=name)
    for number, field in enumerate(fields, 1):
        type_: Any = PROTOBUF_TYPES[field.kind]
        message.field.add(name=field.name, number=number, type=type_, label="LABEL_OPTIONAL")
    descriptors: bytes = files.SerializeToString()
    return descriptors


def protobuf_values(events: Iterable[Event], descriptors: bytes) -> list[bytes]:
    make = message_class(descriptors, PROTOBUF_MESSAGE)
    return [make(**event).SerializeToString() for event in events]
