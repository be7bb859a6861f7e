"""A real Apache Kafka, started from Python: for tests, demos and trying things out.

    with EmbeddedKafka() as kafka:
        kafka.create_topic("words", partitions=4)
        spark.read.format("penstock").options(**kafka.client_options()).option("subscribe", "words").load()

Files, in the order of a start: `java` (is there one), `distribution` (Kafka's jars), `listeners` and
`certificates` (who may connect), `node` (one process) with its `_keeper` (no orphan after a crash), `cluster`
(1 to 3 of them).
"""

from __future__ import annotations

from penstock.testing.cluster import EmbeddedKafka
from penstock.testing.distribution import KAFKA_VERSION, Distribution, get_distribution

__all__ = ["KAFKA_VERSION", "Distribution", "EmbeddedKafka", "get_distribution"]
