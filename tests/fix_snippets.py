"""Fixtures: the pages of the docs taken apart into what can be run, and a broker that has what they speak of.

Python blocks of a page run in order in one namespace, with the documented address replaced by the broker's and the
documented folder by a new one. A comment before a block says where it runs otherwise: `<!-- run: pytest -->` as a test
file, `<!-- run: SSL -->` (or SASL_SSL) against a broker with that listener, `<!-- run: SIGTERM -->` as a program that
prints something, is sent that signal, and ends well; `<!-- run: registry -->` with a schema registry; and
`<!-- run: module -->` is not run but put into the documented folder, by the name in its first line. Of bash blocks,
every line that begins with `penstock` is run.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fix_produce import DELIVERY_SECONDS, Rec, rdkafka, send
from fix_serializers import avro_messages

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "README.md"]
CONSUMER_PAGE = ROOT / "docs" / "consumer.md"
"""The one that needs no Spark: its tests are with those of the consumer."""

ADDRESS = "localhost:9092"
FOLDER = "/tmp/clicks"
REGISTRY = "http://localhost:8081"
NOON = 1_738_324_800_000  # 2025-01-31T12:00Z


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    directive: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"

    def filled_in(self, address: str, folder: Path) -> str:
        return self.text.replace(ADDRESS, address).replace(FOLDER, str(folder))

    def write(self, folder: Path) -> None:
        """A module that others import."""
        name = self.text.partition("\n")[0].removeprefix("# ")
        (folder / name).write_text(self.text)

    def execute(self, code: str, namespace: dict[str, Any]) -> None:
        # Blank lines in front, so that a traceback shows the page's own line.
        exec(compile("\n" * self.line + code, str(self.page), "exec"), namespace)


FENCE = re.compile(
    r"(?:^<!-- run: (?P<run>\w+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def blocks(page: Path, language: str | None = None) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(page, text.count("\n", 0, found.start("text")), found["language"], found["run"] or "", found["text"])
        for found in FENCE.finditer(text)
        if language is None or found["language"] == language
    ]


def commands(page: Path) -> list[str]:
    lines = [line for block in blocks(page, "bash") for line in block.text.splitlines()]
    return [line for line in lines if line.startswith("penstock ")]


def filled(cluster: Any, name: str) -> None:
    """A topic as the docs have it: four partitions of fifty clicks, from noon on, a record in each every minute,
    not quite at the same time."""
    cluster.create_topic(name, 4, configs={"retention.ms": -1})
    records = [
        Rec(
            b'{"user": "u%d", "page": "/p%d"}' % (i % 7, i % 3),
            b"u%d" % (i % 7),
            [("trace", b"%d" % i)],
            timestamp=NOON + i // 4 * 60_000 + i % 4 * 7_001,
            partition=i % 4,
        )
        for i in range(200)
    ]
    written(cluster, name, records)


def written(cluster: Any, name: str, records: list[Rec]) -> None:
    producer = Producer(rdkafka({"bootstrap.servers": cluster.bootstrap_servers}))
    send(producer, name, records)
    assert producer.flush(DELIVERY_SECONDS) == 0


VISITS = [b'{"user": "u%d", "page": "/p%d", "seconds": %d}' % (i % 7, i % 3, i) for i in range(97)]
BAD_VISITS = [b'{"user": "u1", "pa', b'{"user": "u2", "page": "/p1", "seconds": "many"}', b"hello"]
READINGS = [
    Rec(b'{"sensor": "s%d", "at": "2025-01-31T12:%02d:00Z", "celsius": %d}' % (p, minute, 20 + p), partition=p)
    for minute in range(40)
    for p in range(4)
]
TOPICS = ("clicks", "orders", "visits", "bad-visits", "bad-clicks", "readings")


@pytest.fixture(scope="module")
def documented(kafka: Any) -> Iterator[Any]:
    """The broker with the topics and the group that the docs speak of."""
    for name in ("clicks", "orders"):
        filled(kafka, name)
    kafka.create_topic("visits", 1)
    written(kafka, "visits", [Rec(value, partition=0) for value in VISITS[:40] + BAD_VISITS + VISITS[40:]])
    kafka.create_topic("readings", 4)
    written(kafka, "readings", READINGS)
    for name in ("bad-visits", "bad-clicks"):
        kafka.create_topic(name, 1)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("clicks", p, 30) for p in range(4)], asynchronous=False)
    consumer.close()
    yield kafka
    for name in TOPICS:
        kafka.delete_topic(name)


PAYMENT: dict[str, Any] = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}],
}


@pytest.fixture(scope="module")
def documented_registry(documented: Any, registry: Any) -> Iterator[Any]:
    """A schema registry, and a topic of payments that were written with two versions of their schema."""
    newer = PAYMENT | {"fields": [*PAYMENT["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
    messages = avro_messages(registry, "payments", json.dumps(PAYMENT), [{"id": n, "amount": n / 4} for n in range(50)])
    paid = [{"id": n, "amount": n / 4, "currency": "USD"} for n in range(50, 80)]
    messages += avro_messages(registry, "payments", json.dumps(newer), paid)
    documented.create_topic("payments", 1)
    written(documented, "payments", [Rec(message, partition=0) for message in messages])
    yield registry
    documented.delete_topic("payments")


def penstock(line: str, kafka: Any, folder: Path | None = None, **how: Any) -> subprocess.Popen[str]:
    """A documented command, running."""
    if folder is not None:
        line = line.replace(FOLDER, str(folder))
    words = shlex.split(line.replace(ADDRESS, kafka.bootstrap_servers), comments=True)
    return program("-m", "penstock.cli", *words[1:], **how)


def example(name: str, kafka: Any, *arguments: str, **how: Any) -> subprocess.Popen[str]:
    """A program of examples/ on the documented topic, running."""
    return program(str(ROOT / "examples" / name), kafka.bootstrap_servers, "clicks", *arguments, **how)


def program(*arguments: str, **how: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1"}, **how,
    )  # fmt: skip


def run_until_signal(code: str, number: signal.Signals, folder: Path) -> None:
    """A program that prints something, is sent a signal, and has to end well."""
    file = folder / "snippet.py"
    file.write_text(code)
    with program(str(file)) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert said
    assert err == ""


def run_as_test(code: str, folder: Path) -> None:
    file = folder / "test_snippet.py"
    file.write_text(code)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", str(file)],
        capture_output=True, text=True, timeout=240, cwd=folder, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
