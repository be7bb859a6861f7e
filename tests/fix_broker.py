"""Fixtures: a real broker for the session, and topics of one's own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from penstock.embedded import EmbeddedKafka

# Topics come from the `topic` fixture; a client that makes one by asking for it is a bug that must show.
# Compaction that begins soon, because tests wait for it; no retention, because they write old timestamps.
SETTINGS = {"auto.create.topics.enable": False, "log.cleaner.backoff.ms": 100, "log.retention.ms": -1}


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedKafka]:
    """One node, PLAINTEXT, shared by all tests of a worker: use topics and groups with names of their own. It may be
    paused, and is never restarted."""
    # Nobody could take over from it: a pause of some seconds, by a test or by a busy machine, must not cost it its
    # leaderships for a moment after that.
    settings = SETTINGS | {"broker.session.timeout.ms": 120_000}
    with EmbeddedKafka(settings=settings) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[EmbeddedKafka]:
    """Three nodes in racks r1, r2, r3, where clients that name a rack are sent to its replica. A test that takes a node
    down brings it back. Who was down leads nothing of what was there before, until `elect_preferred`: Kafka would do
    that by itself every five minutes, in the middle of whatever test."""
    settings = SETTINGS | {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "auto.leader.rebalance.enable": False,
    }
    with EmbeddedKafka(3, racks=("r1", "r2", "r3"), settings=settings, heap_mb=256) as cluster:
        yield cluster


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> Callable[..., str]:
    """`topic(partitions=3, cleanup_policy="compact")` makes a new topic on `kafka` and returns its name."""

    def make(partitions: int = 1, **configs: object) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        kafka.create_topic(name, partitions, configs={key.replace("_", "."): value for key, value in configs.items()})
        return name

    return make
