"""A real Apache Kafka, started from Python, for tests and demos.

    with EmbeddedKafka() as kafka:
        kafka.create_topic("words", partitions=4)
        spark.read.format("penstock").options(**kafka.client_options()).option("subscribe", "words").load()

Files, in the order of a start: `java` finds Java, `distribution` and `ivy` download Kafka's jars, `listeners` and
`certificates` configure the listener, `node` is one broker process with its `_supervisor` (which ends it after a crash
of this process), and `cluster` is 1 to 3 nodes.
"""

from __future__ import annotations

from penstock.testing.cluster import EmbeddedKafka
from penstock.testing.distribution import KAFKA_VERSION, Distribution, get_distribution

__all__ = ["KAFKA_VERSION", "Distribution", "EmbeddedKafka", "get_distribution"]
