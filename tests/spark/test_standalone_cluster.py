"""Beyond one machine: master, two workers, driver and broker, each a process of its own."""

from pathlib import Path

import pytest

from chaos.sink import read_back
from fix_produce import Rec

pytestmark = [pytest.mark.spark, pytest.mark.broker]

PARTITIONS = 4


def numbered(start: int, end: int) -> list[Rec]:
    return [Rec(b"value %d" % i, timestamp=1_700_000_000_000 + i, partition=i % PARTITIONS) for i in range(start, end)]


def expected(topic: str, end: int) -> dict:
    return {(topic, i % PARTITIONS, i // PARTITIONS, b"value %d" % i): 1 for i in range(end)}


def test_a_batch_read_is_shared_by_both_workers_and_gives_exactly_the_input(
    standalone_cluster, kafka, topic, produce, tmp_path
):
    name = topic(partitions=PARTITIONS)
    produce(name, numbered(0, 2000))
    source = {"format": "penstock", "options": kafka.client_options() | {"subscribe": name}}
    steps = [{"do": "read", "path": str(tmp_path / "out"), **source}, {"do": "places", **source}]
    rows, places = standalone_cluster.driver(steps, tmp_path).answers()

    assert rows == 2000
    assert read_back(tmp_path / "out") == expected(name, 2000)
    used = {
        worker
        for directory, _, _ in places
        for worker in standalone_cluster.workers
        if worker in Path(directory).parents
    }
    assert used == set(standalone_cluster.workers)
    # Nothing was sent along: what a task imports is Spark's or installed, and the same wherever it runs.
    for directory, python_path, package in places:
        assert Path(package).is_relative_to(Path(__file__).parents[2] / "src") or "site-packages" in package
        assert not [entry for entry in python_path if entry and Path(entry).is_relative_to(Path(__file__).parents[1])]
        assert not [entry for entry in python_path if Path(directory) in Path(entry).parents]
