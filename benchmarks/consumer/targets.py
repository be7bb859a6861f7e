"""The targets of the consumer figures."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.consumer.joining import CONSUMER, COOPERATIVE
from benchmarks.consumer.latency import P50, P99
from benchmarks.consumer.protocols import CLASSIC
from benchmarks.consumer.readers import (
    AIOKAFKA,
    BATCHES,
    CONFLUENT,
    CONFLUENT_TUNED,
    JAVA,
    JAVA_WARM,
    JOIN,
    KAFKA_PYTHON,
    LATENCY,
    MESSAGES,
    PENSTOCK,
    PROCESSOR,
    PROTOCOLS,
    SHARE,
)
from benchmarks.consumer.share import DEFAULTS, TUNED
from benchmarks.consumer.throughput import CODEC
from benchmarks.figure import Figure
from benchmarks.measurement import Measurement
from benchmarks.target import Target, compare

_MINE = (PENSTOCK, "")

BEFORE = 0.13
"""CPU of Penstock by that of confluent-kafka, recorded before the latency of single messages was worked on: 0.12, with
rounds from 0.12 to 0.14."""

READING = (
    Target("a group, Arrow batches: Penstock / Java's ConsumerPerformance", BATCHES, _MINE, (JAVA, ""), at_least=3.0),
    Target("the same / a warm JVM", BATCHES, _MINE, (JAVA_WARM, ""), at_least=3.0),
    Target(
        "a group, Arrow batches: Penstock / confluent-kafka's consume(), tuned",
        BATCHES, _MINE, (CONFLUENT_TUNED, ""), at_least=6.0,
    ),
    Target("the same / its defaults", BATCHES, _MINE, (CONFLUENT, ""), at_least=6.0),
    Target(
        "a group, message by message: Penstock / confluent-kafka's poll(), tuned",
        MESSAGES, _MINE, (CONFLUENT_TUNED, ""), at_least=2.0,
    ),
    Target("the same / its defaults", MESSAGES, _MINE, (CONFLUENT, ""), at_least=2.0),
    Target("a group, message by message: Penstock / kafka-python", MESSAGES, _MINE, (KAFKA_PYTHON, ""), at_least=5.0),
    Target("a group, message by message: Penstock / aiokafka", MESSAGES, _MINE, (AIOKAFKA, ""), at_least=5.0),
    Target(
        "CPU seconds per GB, Arrow batches / confluent-kafka's consume(), tuned",
        PROCESSOR, _MINE, (CONFLUENT_TUNED, ""), at_most=0.25,
    ),
    Target(
        "the same, no worse than before the work on latency",
        PROCESSOR, _MINE, (CONFLUENT_TUNED, ""), at_most=BEFORE,
    ),
    Target(
        "a group, Arrow batches, 4 streams: group.protocol=consumer / classic",
        PROTOCOLS, (PENSTOCK, CONSUMER), (PENSTOCK, CLASSIC), at_least=0.97,
    ),
    Target(
        "share group, 4 streams, batches acknowledged: Penstock / Java's KafkaShareConsumer, warm, defaults",
        SHARE, (PENSTOCK, DEFAULTS), (JAVA_WARM, DEFAULTS), at_least=2.0,
    ),
    Target(
        "the same / both with max.poll.records=2000",
        SHARE, (PENSTOCK, TUNED), (JAVA_WARM, TUNED), at_least=2.0,
    ),
)  # fmt: skip

WAITING = (
    Target(
        "producer to iterator, 1,000 messages/s, p50: Penstock / confluent-kafka",
        LATENCY, (PENSTOCK, P50), (CONFLUENT, P50), at_most=1.1,
    ),
    Target(
        "producer to iterator, 1,000 messages/s, p99: Penstock / confluent-kafka",
        LATENCY, (PENSTOCK, P99), (CONFLUENT, P99), at_most=1.2,
    ),
)  # fmt: skip


def figures(measurements: Iterable[Measurement]) -> list[Figure]:
    measured = list(measurements)
    return compare(READING, measured, CODEC) + compare(WAITING, measured, "none") + _stops(measured)


def _stops(measured: list[Measurement]) -> list[Figure]:
    """A join may not stop the partitions that stay with their member."""
    return [
        Figure(f"a member joins a group of 8, {one.case}: partitions that stay wait", "none", one.value, "0 ms",
               one.value == 0, " ms")
        for one in measured
        if one.figure == JOIN and one.case in (CONSUMER, COOPERATIVE)
    ]  # fmt: skip
