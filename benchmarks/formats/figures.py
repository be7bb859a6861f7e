"""The readers of each format figure. All sides of a figure return the same columns: only the typed value, unless the
case says otherwise."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.formats.encodings import AVRO_SCHEMA, PROTOBUF_MESSAGE
from benchmarks.formats.events import FIELDS, FROM_PRICE, ONE_OF_THEM, WIDE_FIELDS, Event, Field, ddl, is_expensive
from benchmarks.formats.topics import AVRO, JSON, MALFORMED, POISONED, PROTOBUF, WIDE, Topics

FROM_JSON = "formats-json"
FROM_MALFORMED = "formats-json-malformed"
POISON = "formats-poison"
FROM_AVRO = "formats-avro"
FROM_PROTOBUF = "formats-protobuf"
PROJECTION = "formats-projection"
DESERIALIZER = "formats-deserializer"
SELECT = "formats-select"
WHERE = "formats-where"
STRING = "formats-string"
FIGURES = (
    *(FROM_JSON, FROM_MALFORMED, POISON, FROM_AVRO, FROM_PROTOBUF, PROJECTION, DESERIALIZER),
    *(SELECT, WHERE, STRING),
)

PENSTOCK = "penstock"
JVM = "jvm"
UDF = "udf"
"""Penstock's raw read followed by a Python UDF."""
SIDES = (PENSTOCK, JVM, UDF)

FLAT = "flat"
WHOLE = "all of Kafka's columns"
NONE_BAD = "none malformed"
ONE_BAD = "one in a million malformed"
ALL_FIELDS = "all of twenty fields"
ONE_FIELD = "one of twenty fields"

COLUMNS = "columns"
"""Option `columns` selects what the query needs."""
SPARK_FILTER = "Spark's filter"
"""The filter of the query runs in Spark, after the source."""
BINARY = "binary"
CAST = "binary, cast to string in Spark"
AS_STRING = "string"

PICKLED = "pickled"
"""A Python UDF as before Spark 4.2, which passes values by Arrow by default."""

DESERIALIZER_SHARE = 6
"""A Python function per record reads one record in six: the whole topic would take a minute per round."""

OWN = {"valueFormat": "user_code:Events"}

VALUE = Field("value", "STRING")

POISON_ROUNDS = 4
"""Additional rounds, because a difference of a twentieth is judged, and both sides are fast."""

EXPENSIVE = f"value.price >= {FROM_PRICE}"

_TYPE = f"STRUCT<{', '.join(f'{each.name}: {each.kind}' for each in FIELDS)}>"


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    topic: str
    case: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    """The argument of `.schema()`."""
    decoder: Mapping[str, Any] | None = None
    """The decoding step after the source; see spark_typed.py."""
    fields: tuple[Field, ...] = FIELDS
    flat: bool = False
    matches: Callable[[Event], bool] | None = None
    """Which records a filter passes."""
    raw: bool = False
    """Whether the result is the value without its fields."""
    filter: str | None = None
    """Spark's filter, after the source and the decoder."""
    select: tuple[str, ...] = ()
    """Spark's selection, after the filter."""
    share: int = 1
    whole: bool = False
    """Whether the result keeps Kafka's own columns, too."""


def entries(figure: str, topics: Topics) -> list[Entry]:
    value = f"value {_TYPE}"
    json_options = {"valueFormat": "json", "valueSchema": ddl(FIELDS)}
    # from_json takes strings, so users write this cast.
    from_json = {"sql": f"from_json(cast(value as string), '{ddl(FIELDS)}')"}
    match figure:
        case "formats-json":
            return [
                Entry(PENSTOCK, JSON, options=json_options, schema=value),
                Entry(JVM, JSON, decoder=from_json),
                Entry(PENSTOCK, JSON, FLAT, json_options | {"flatten": "true"}, schema=ddl(FIELDS), flat=True),
                Entry(PENSTOCK, JSON, WHOLE, json_options, whole=True),
                Entry(JVM, JSON, WHOLE, decoder=from_json, whole=True),
            ]
        case "formats-json-malformed":
            return [
                Entry(PENSTOCK, MALFORMED, options=json_options, schema=value),
                Entry(JVM, MALFORMED, decoder=from_json),
            ]
        case "formats-poison":
            return [
                Entry(PENSTOCK, JSON, NONE_BAD, json_options, schema=value),
                Entry(PENSTOCK, POISONED, ONE_BAD, json_options, schema=value),
            ]
        case "formats-avro":
            options = {"valueFormat": "avro", "schemaRegistry.url": topics.registry_url}
            return [
                Entry(PENSTOCK, AVRO, options=options, schema=value),
                Entry(JVM, AVRO, decoder={"sql": f"from_avro(substring(value, 6), '{AVRO_SCHEMA}')"}),
            ]
        case "formats-protobuf":
            descriptors = topics.descriptors
            options = {"valueFormat": "protobuf", "valueSchema": str(descriptors), "valueMessage": PROTOBUF_MESSAGE}
            decoder = {
                "udf": "protobuf",
                "type": _TYPE,
                "descriptors": base64.b64encode(descriptors.read_bytes()).decode(),
                "message": PROTOBUF_MESSAGE,
            }
            return [Entry(PENSTOCK, PROTOBUF, options=options, schema=value), Entry(UDF, PROTOBUF, decoder=decoder)]
        case "formats-projection":
            return [
                Entry(
                    PENSTOCK, WIDE, case, {"valueFormat": "json", "flatten": "true"},
                    schema=ddl(fields), fields=fields, flat=True,
                )
                for case, fields in ((ONE_FIELD, (ONE_OF_THEM,)), (ALL_FIELDS, WIDE_FIELDS))
            ]  # fmt: skip
        case "formats-select":
            flat: dict[str, Any] = {"select": ("value.*",), "flat": True}
            return [
                Entry(PENSTOCK, JSON, options=json_options, **flat),
                Entry(PENSTOCK, JSON, COLUMNS, {**json_options, "columns": "value"}, **flat),
                Entry(JVM, JSON, decoder=from_json, **flat),
            ]
        case "formats-where":
            of_value = {**json_options, "columns": "value"}
            flat = {"select": ("value.*",), "flat": True, "matches": is_expensive}
            return [
                Entry(PENSTOCK, JSON, options={**of_value, "where": EXPENSIVE}, **flat),
                Entry(PENSTOCK, JSON, SPARK_FILTER, of_value, filter=EXPENSIVE, **flat),
                Entry(JVM, JSON, SPARK_FILTER, decoder=from_json, filter=EXPENSIVE, **flat),
            ]
        case "formats-string":
            text: dict[str, Any] = {"fields": (VALUE,), "flat": True, "raw": True}
            binary, string = {"columns": "value"}, {"columns": "value", "valueFormat": "string"}
            return [
                Entry(PENSTOCK, JSON, BINARY, binary, **text),
                Entry(PENSTOCK, JSON, CAST, binary, select=("cast(value AS STRING) AS value",), **text),
                Entry(PENSTOCK, JSON, AS_STRING, string, **text),
            ]
        case "formats-deserializer":
            return [
                Entry(PENSTOCK, JSON, options=OWN, schema=value, share=DESERIALIZER_SHARE),
                Entry(UDF, JSON, decoder={"udf": "json", "type": _TYPE, "arrow": None}, share=DESERIALIZER_SHARE),
                Entry(
                    UDF, JSON, PICKLED, decoder={"udf": "json", "type": _TYPE, "arrow": False}, share=DESERIALIZER_SHARE
                ),
            ]
        case _:
            raise ValueError(figure)
