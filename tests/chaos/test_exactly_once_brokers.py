"""Exactly once while brokers of a cluster of three die and hang, one after the other.

All topics have three replicas, Kafka's own included, and writes need two of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.load import Load
from chaos.pipeline import Pipeline, Supervised, report
from fixtures.cluster import await_nodes
from penstock.testing import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.broker]

SOAK_PAUSE_SECONDS = float(os.environ.get("PENSTOCK_SOAK_PAUSE_SECONDS", "60"))
SOAK_ROUNDS = int(os.environ.get("PENSTOCK_SOAK_ROUNDS", "2"))
MINUTES_5 = 300


@pytest.fixture
def three() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(3, heap_mb=256) as kafka:
        yield kafka


class Break:
    """Breaks brokers while a query runs."""

    def __init__(self, kafka: EmbeddedKafka, query: Supervised, load: Load) -> None:
        self._kafka = kafka
        self._query = query
        self._load = load

    def kill(self, node: int) -> None:
        self._kafka.kill_node(node)
        self._query.await_batches(2, MINUTES_5)
        self._kafka.restart_node(node)
        self._mended(f"node {node} killed")

    def pause(self, node: int, seconds: float) -> None:
        self._kafka.pause_node(node)
        time.sleep(seconds)
        self._kafka.resume_node(node)
        self._mended(f"node {node} paused for {seconds:g} s")

    def _mended(self, what: str) -> None:
        await_nodes(self._kafka, MINUTES_5)
        self._query.await_batches(3, MINUTES_5)
        report(f"{what}: {self._load.written} records, {self._query.restarts} restarts")


def make(kafka: EmbeddedKafka, folder: Path, windowed: bool = False) -> Pipeline:
    return Pipeline(kafka, folder, windowed=windowed, topics={"min.insync.replicas": 2})


FAILURES = ["TransactionLost", "BrokerUnavailable"]


@pytest.mark.timeout(1200)
def test_W6_brokers_that_die_and_hang_cost_no_row(three, tmp_path):
    pipeline = make(three, tmp_path)
    with pipeline.load() as load, Supervised(pipeline, FAILURES) as query:
        query.await_batches(2)
        trouble = Break(three, query, load)
        trouble.kill(1)
        trouble.pause(2, 10)
        trouble.kill(3)
        produced = load.stop()
    pipeline.check(produced)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("windowed", [False, True], ids=["rows", "windows"])
def test_W6_brokers_that_die_and_hang_for_a_minute_cost_no_row(three, tmp_path, windowed):
    pipeline = make(three, tmp_path, windowed)
    with pipeline.load() as load, Supervised(pipeline, FAILURES) as query:
        query.await_batches(2)
        trouble = Break(three, query, load)
        for _ in range(SOAK_ROUNDS):
            for node in three.node_ids:
                trouble.kill(node)
                trouble.pause(node, SOAK_PAUSE_SECONDS)
        produced = load.stop()
    pipeline.check(produced)
