"""kafka-python is loaded as little as needed, and as much as anybody asks for."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_worker_loads_no_clients_and_no_admin_messages():
    loaded = run("import sys, penstock.spark.stream, penstock.reader.range_reader; print(*sys.modules)").split()
    assert "kafka.protocol.consumer" in loaded
    unwanted = ("kafka.admin", "kafka.consumer", "kafka.producer", "kafka.net", "kafka.protocol.admin")
    assert [name for name in loaded if name.startswith(unwanted)] == []


def test_a_program_finds_kafka_python_whole_whoever_came_first():
    names = "KafkaProducer, KafkaConsumer, KafkaAdminClient, TopicPartition"
    ours_first = f"import penstock.wire.cluster; from kafka import {names}; import kafka; print(kafka.__version__)"
    theirs_first = f"from kafka import {names}; import kafka, penstock.wire.cluster; print(kafka.__version__)"
    assert run(ours_first) == run(theirs_first) != ""


def test_its_version_and_its_star_are_there_too():
    said = run(
        "import penstock.wire.cluster, kafka\nv = kafka.__version__\nfrom kafka import *\nprint(v, KafkaConsumer)"
    )
    assert said.startswith("3.")
    assert "KafkaConsumer" in said


def test_a_name_that_is_not_there_is_an_attribute_error():
    said = run("import penstock.wire.cluster, kafka; print(hasattr(kafka, 'Nothing'), hasattr(kafka, 'KafkaProducer'))")
    assert said == "False True"


def test_two_threads_may_ask_at_once():
    code = (
        "import penstock.wire.cluster, kafka, threading; seen = []\n"
        "threads = [threading.Thread(target=lambda: seen.append(kafka.KafkaProducer.__name__)) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join(30) for t in threads]; print(seen)"
    )
    assert run(code) == str(["KafkaProducer"] * 8)
