"""Batches on Sail, an engine for PySpark's API without a JVM."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
from pathlib import Path

import pytest
from benchmarks.environments import EnvironmentMissing, sail

from fixtures.jvm_source import link_penstock
from fixtures.produce import Rec
from fixtures.snippets import SAIL_PAGE, blocks

pytestmark = [pytest.mark.broker, pytest.mark.timeout(1200)]

PROGRAM = Path(__file__).parents[1] / "support" / "sail_program.py"
TYPED = {"valueFormat": "json", "valueSchema": "id BIGINT, name STRING, tags ARRAY<STRING>"}


@pytest.fixture(scope="module")
def on_sail(tmp_path_factory):
    """`on_sail(program, text)` runs a program in the environment of Sail. Returns what it prints."""
    try:
        python = sail(lambda text: None).python
    except EnvironmentMissing as missing:
        pytest.skip(f"Sail is not available: {missing}")
    linked = link_penstock(tmp_path_factory.mktemp("penstock-beside"))
    installed = Path(str(importlib.metadata.distribution("penstock").locate_file("")))
    (found,) = installed.glob("penstock-*.dist-info")  # has the entry point
    (linked / found.name).symlink_to(found)

    def run(program, text=""):
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(linked)}
        ran = subprocess.run(
            [str(python), str(program)], input=text, capture_output=True, text=True, timeout=300, env=environment
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
        return ran.stdout

    return run


@pytest.fixture
def orders(topic, produce):
    name = topic(partitions=2)
    values = [json.dumps({"id": i, "name": f"n{i}", "tags": ["a", None]}) for i in range(20)]
    produce(name, [Rec(value.encode(), b"k%d" % i, partition=i % 2) for i, value in enumerate(values)])
    return name


def answers(on_sail, *steps):
    """Rows or errors of the steps of sail_program.py."""
    return json.loads(on_sail(PROGRAM, json.dumps(steps)))


def test_the_page_about_sail_runs(on_sail, documented, tmp_path):
    program = tmp_path / "page.py"
    program.write_text(
        "\n".join(block.filled_in(documented.bootstrap_servers, tmp_path) for block in blocks(SAIL_PAGE, "python"))
    )
    printed = on_sail(program)
    assert "=200, sum(length(value))=5800" in printed
    assert "only showing top 5 rows" in printed


def test_batches_on_sail(on_sail, kafka, topic, orders):
    source = kafka.client_options() | {"subscribe": orders}
    copy = topic(partitions=2)
    sink = kafka.client_options() | {"topic": copy}
    key_and_value = ["CAST(id AS STRING) AS key", "CONCAT('v', id) AS value"]
    raw, typed, fields, where, columns, narrowed, own, wrong, write, back, once = answers(
        on_sail,
        {"read": source, "select": ["count(*)", "sum(length(value))", "count(distinct topic)"]},
        {"read": source | TYPED, "where": "value.id >= 18", "select": ["value.id", "value.name", "value.tags"]},
        {"read": source | TYPED | {"flatten": "true"}, "where": "id = 3", "select": ["id", "kafka_partition"]},
        {"read": source | {"where": "value:id IN (4, 5)"}, "select": ["CAST(key AS STRING)"]},
        {"read": source | TYPED | {"columns": "value.id, offset"}, "where": "offset = 9", "select": ["value.id"]},
        {"read": source, "where": "partition = 1 AND offset < 3", "select": ["offset"]},
        {"read": source, "schema": "offset BIGINT, key BINARY", "select": ["count(offset)"]},
        {"read": source | {"subscribes": "x"}, "select": ["*"]},
        {"write": sink, "rows": 10, "select": key_and_value},
        {"read": source | {"subscribe": copy}, "select": ["CAST(key AS STRING)", "CAST(value AS STRING)"]},
        {"write": sink | {"deliveryGuarantee": "exactly-once"}, "rows": 10, "select": key_and_value},
    )
    assert raw["rows"] == [
        [20, sum(len(json.dumps({"id": i, "name": f"n{i}", "tags": ["a", None]})) for i in range(20)), 1]
    ]
    assert sorted(typed["rows"]) == [[18, "n18", ["a", None]], [19, "n19", ["a", None]]]
    assert fields["rows"] == [[3, 1]]
    assert sorted(where["rows"]) == [["k4"], ["k5"]]
    assert sorted(columns["rows"]) == [[18], [19]]
    assert sorted(narrowed["rows"]) == [[0], [1], [2]]
    assert own["rows"] == [[20]]
    assert "option subscribes: is unknown. Did you mean subscribe?" in wrong["error"]
    assert write == {"rows": None}
    assert sorted(back["rows"]) == sorted([str(i), f"v{i}"] for i in range(10))
    assert "deliveryGuarantee = 'exactly-once': needs Spark" in once["error"]
