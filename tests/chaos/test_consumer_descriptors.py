"""A consumer runs out of file descriptors: it continues when there are some again (H13, H17)."""

from __future__ import annotations

import gc
import logging
from collections import Counter

import pytest
from confluent_kafka import Producer

from fixtures.cluster import cluster_of
from fixtures.consumer import ends, eventually
from fixtures.descriptors import no_descriptors
from fixtures.produce import DELIVERY_SECONDS, Rec, rdkafka, send
from penstock.wire.transport.connection import Connection

PARTITIONS = 4


def cut_connections() -> int:
    """Close all connections of this process. Returns their number."""
    found = [each for each in gc.get_objects() if type(each) is Connection and hasattr(each, "_socket")]
    for connection in found:
        connection.abort()
    return len(found)


@pytest.mark.parametrize("by", ["messages", "batches"])
def test_H13_a_consumer_without_descriptors_logs_it_and_continues_when_it_has_some(kafka, consumers, topic, caplog, by):
    name = topic(partitions=PARTITIONS)
    producer = Producer(rdkafka(kafka.client_options(prefix="")))

    def write(count: int) -> None:
        send(producer, name, [Rec(b"v", partition=i % PARTITIONS) for i in range(count)])
        assert producer.flush(DELIVERY_SECONDS) == 0

    def read(count: int) -> None:
        eventually(lambda: consumers.records().total() >= count, lambda: f"{count}, not {consumers.records().total()}")

    write(400)
    reading = consumers.reading(name, 2, by)
    read(400)
    with caplog.at_level(logging.INFO, "penstock"), no_descriptors():
        assert cut_connections()
        write(400)
        eventually(lambda: "Too many open files" in warnings(caplog), lambda: f"the error by name; {caplog.text}")
    read(800)
    write(400)
    read(1200)
    assert Counter(consumers.records().values()) == {1: 1200}
    assert not reading.errors
    cluster, places = cluster_of(kafka), [*ends(name, dict.fromkeys(range(PARTITIONS), 0))]
    eventually(
        lambda: cluster.committed(consumers.group, places) == ends(name, dict.fromkeys(range(PARTITIONS), 300)),
        lambda: f"the group has {cluster.committed(consumers.group, places)}",
    )


def warnings(caplog) -> str:
    return "\n".join(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
