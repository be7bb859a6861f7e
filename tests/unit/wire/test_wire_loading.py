"""A worker does not import kafka-python, and a user's own kafka-python is left alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

WORKER = "penstock.spark.stream, penstock.reader.range_reader, penstock.reader.task, penstock.dead_letters.task_letters"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("modules", [WORKER, "penstock.consumer.connector", "penstock.streamer.streamer"])
def test_workers_and_consumers_do_not_import_kafka_python(modules):
    loaded = run(f"import sys, {modules}; print(*sys.modules)").split()
    assert "penstock.wire.cluster" in loaded
    assert [name for name in loaded if name == "kafka" or name.startswith("kafka.")] == []


def test_the_modules_of_the_users_program_are_not_touched():
    code = (
        "import sys, types; mine = sys.modules['kafka'] = types.ModuleType('kafka')\n"
        f"import {WORKER}, penstock.consumer.connector\n"
        "print(sys.modules['kafka'] is mine, vars(mine).keys() - {'__name__', '__doc__', '__package__', '__loader__', "
        "'__spec__'})"
    )
    assert run(code) == "True set()"


def test_a_program_finds_kafka_python_whole_in_either_order():
    names = "KafkaProducer, KafkaConsumer, KafkaAdminClient, TopicPartition"
    ours_first = f"import penstock.wire.cluster; from kafka import {names}; import kafka; print(kafka.__version__)"
    theirs_first = f"from kafka import {names}; import kafka, penstock.wire.cluster; print(kafka.__version__)"
    assert run(ours_first) == run(theirs_first) != ""
