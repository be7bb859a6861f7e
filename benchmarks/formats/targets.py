"""The targets of the format figures."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.figure import Figure
from benchmarks.formats.figures import (
    ALL_FIELDS,
    COLUMNS,
    DESERIALIZER,
    FLAT,
    FROM_AVRO,
    FROM_JSON,
    FROM_MALFORMED,
    FROM_PROTOBUF,
    JVM,
    NONE_BAD,
    ONE_BAD,
    ONE_FIELD,
    PENSTOCK,
    PICKLED,
    POISON,
    PROJECTION,
    SELECT,
    SPARK_FILTER,
    UDF,
    WHERE,
    WHOLE,
)
from benchmarks.formats.topics import CODEC
from benchmarks.measurement import Measurement
from benchmarks.target import Target, compare

_MINE, _JVM, _UDF = (PENSTOCK, ""), (JVM, ""), (UDF, "")

TARGETS = (
    Target("JSON to a typed struct: Penstock / JVM source + from_json", FROM_JSON, _MINE, _JVM, at_least=7.0),
    Target("the same to columns of their own (flatten)", FROM_JSON, (PENSTOCK, FLAT), _JVM, at_least=7.0),
    Target(
        "JSON with all of Kafka's columns beside it", FROM_JSON, (PENSTOCK, WHOLE), (JVM, WHOLE), at_least=7.0,
    ),
    Target("JSON, 1% malformed: Penstock / JVM source + from_json", FROM_MALFORMED, _MINE, _JVM, at_least=6.0),
    Target(
        "JSON, one record in a million malformed / none", POISON, (PENSTOCK, ONE_BAD), (PENSTOCK, NONE_BAD),
        at_least=0.95,
    ),
    Target("Avro with a registry: Penstock / JVM source + from_avro", FROM_AVRO, _MINE, _JVM, at_least=4.0),
    Target("Protobuf: Penstock / raw read + Arrow UDF, Google's protobuf", FROM_PROTOBUF, _MINE, _UDF, at_least=5.0),
    Target(
        "JSON: one field of twenty / all of them", PROJECTION, (PENSTOCK, ONE_FIELD), (PENSTOCK, ALL_FIELDS),
        at_least=2.0,
    ),
    Target("Python deserializer per record: Penstock / raw read + UDF", DESERIALIZER, _MINE, _UDF, at_least=1.0),
    Target("the same / UDF without Arrow", DESERIALIZER, _MINE, (UDF, PICKLED), at_least=1.0),
    Target(
        'JSON, select("value.*") with columns=value: Penstock / JVM source + from_json',
        SELECT, (PENSTOCK, COLUMNS), _JVM, at_least=8.0,
    ),
    Target("the same without columns", SELECT, _MINE, _JVM, at_least=5.5),
    Target(
        "JSON, a filter that passes 1 record of 1,000: Penstock with where / JVM source + from_json + filter",
        WHERE, _MINE, (JVM, SPARK_FILTER), at_least=12.0,
    ),
    Target(
        "the same: Penstock with where / Penstock + Spark's filter", WHERE, _MINE, (PENSTOCK, SPARK_FILTER),
        at_least=2.0,
    ),
)  # fmt: skip


def figures(measurements: Iterable[Measurement]) -> list[Figure]:
    return compare(TARGETS, measurements, CODEC)
