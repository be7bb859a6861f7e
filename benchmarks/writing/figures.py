"""The names of the write figures, of their sides and of their cases."""

from __future__ import annotations

from benchmarks.consumer.readers import CONFLUENT_TUNED, JAVA
from benchmarks.streaming.sides import JVM, PENSTOCK

BATCH = "write-batch"
FROM_JSON = "write-json"
STREAM = "write-stream"
MICRO_BATCH = "write-micro-batch"
PLAIN = "write-plain"
MEMORY = "write-memory"
FIGURES = (BATCH, FROM_JSON, STREAM, MICRO_BATCH, PLAIN, MEMORY)

SAME_SPARK = "penstock-same-spark"
"""Penstock on the PySpark version of Spark's JVM sink."""
CONFLUENT_MANY = "confluent-produce-batch"
SIDES = (PENSTOCK, SAME_SPARK, JVM, CONFLUENT_TUNED, CONFLUENT_MANY, JAVA)

AT_LEAST_ONCE = "at least once"
EXACTLY_ONCE = "exactly once"
TUNED = "tuned"
"""Spark's sink with larger batches."""
NOOP = "noop sink"
DISCARD = "discarding writer"

KEYS = "keys and values"
CONVERTED = "keys and values, from the table"
"""The same rounds of confluent-kafka, with the time in which the columns become Python objects."""
VALUES = "values only"

PEAK = "peak over idle"
GROWTH = "growth"

CODEC = "lz4"
PARTITIONS = 4

COMPRESSED = {"kafka.compression.type": CODEC}
"""Penstock's settings; everything else is its default. `acks=all` is the default of all sides."""

JVM_TUNED = {
    **COMPRESSED,
    "kafka.batch.size": str(256 << 10),
    "kafka.linger.ms": "100",
    "kafka.buffer.memory": str(64 << 20),
}

GUARANTEES = {AT_LEAST_ONCE: "at-least-once", EXACTLY_ONCE: "exactly-once"}


def penstock_options(case: str) -> dict[str, str]:
    return {**COMPRESSED, "deliveryGuarantee": GUARANTEES[case]}
