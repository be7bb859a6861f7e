"""examples/kafka_to_postgres.py and kafka_to_lake.py as a user runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from fixtures.consumer import eventually
from fixtures.produce import Rec

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka_to_postgres.py"
LAKE_EXAMPLE = EXAMPLE.with_name("kafka_to_lake.py")


@pytest.fixture
def order(kafka, topic, produce, postgres):
    """Events of four partitions, one of them no JSON; returns the topic, the table, and how to run the example."""
    name = topic(4)
    events = [
        Rec(b'{"user": "u%d"}' % (n % 7), b"u", timestamp=1_738_324_800_000 + n, partition=n % 4) for n in range(200)
    ]
    events[42] = Rec(b"{", partition=2)
    produce(name, events)
    table = name.replace("-", "_")
    words = [sys.executable, str(EXAMPLE), kafka.bootstrap_servers, name, postgres.uri, "--table", table]
    return name, table, words


def run(words):
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


def test_events_are_in_the_table_once_however_often_it_runs(order, produce, postgres, kafka):
    name, table, words = order
    out, err = run(words)
    assert f"200 events of {name} read, 1 of them failed" in out
    assert f"{name}-2, offset 10, was skipped" in err
    assert "Traceback" not in err
    produce(name, [Rec(b'{"user": "new"}')])
    assert f"1 events of {name} read, 0 of them failed" in run(words)[0]
    back = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"{name}-to-{table}"})
    back.commit(offsets=[TopicPartition(name, partition, 0) for partition in range(4)], asynchronous=False)
    back.close()
    assert f"201 events of {name} read" in run(words)[0]
    found = postgres.execute(f"SELECT count(*), count(DISTINCT event->>'user'), min(at)::text FROM {table}")
    assert found == [(200, 8, "2025-01-31 12:00:00+00")]


def test_it_follows_until_ctrl_c(order, postgres):
    _, table, words = order
    with subprocess.Popen(
        [*words, "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert "until Ctrl-C" in process.stdout.readline()
        eventually(lambda: postgres.execute(f"SELECT count(*) FROM {table}") == [(199,)], "all are there")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "200 events" in out
    assert "Traceback" not in err


def test_a_lake_has_each_record_once_however_often_it_runs(kafka, topic, produce, lake, tmp_path):
    one, two = topic(2), topic(1)
    produce(one, [Rec(b"%d" % n, partition=n % 2, timestamp=1_738_324_800_000 + n) for n in range(100)])
    produce(two, [Rec(b"x%d" % n, timestamp=1_738_324_800_000) for n in range(10)])
    words = [sys.executable, str(LAKE_EXAMPLE), kafka.bootstrap_servers, f"{one},{two}", f"{lake.kind}:{tmp_path}/lake"]
    assert "110 rows of 110 records written" in run(words)[0]
    produce(two, [Rec(b"new", timestamp=1_738_324_800_000)])
    assert "1 rows of 1 records written" in run(words)[0]
    assert "0 rows of 0 records written" in run(words)[0]
