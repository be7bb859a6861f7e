"""The readers of the consumer figures, and the requests they answer."""

from __future__ import annotations

import sys
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.environments import Rival
from benchmarks.processes import JavaConsumer, JavaTool, Process, ReaderFailed, ReaderProcess
from benchmarks.run import BenchmarkRun
from benchmarks.speed import PROGRAMS

BATCHES = "consumer-batches"
MESSAGES = "consumer-messages"
PROCESSOR = "consumer-cpu"
"""Measured together with the two above."""
LATENCY = "consumer-latency"
PROTOCOLS = "consumer-protocols"
JOIN = "consumer-join"
SHARE = "consumer-share"
BESIDE_OTHERS = (BATCHES, MESSAGES, LATENCY)
FIGURES = (*BESIDE_OTHERS, PROTOCOLS, JOIN, SHARE)
"""The figures that `--only` accepts."""

PENSTOCK = "penstock"
JAVA = "java"
JAVA_WARM = "java-warm"
CONFLUENT = "confluent"
CONFLUENT_TUNED = "confluent-tuned"
KAFKA_PYTHON = "kafka-python"
AIOKAFKA = "aiokafka"
READERS = (PENSTOCK, JAVA, JAVA_WARM, CONFLUENT_TUNED, CONFLUENT, KAFKA_PYTHON, AIOKAFKA)

REQUEST_SECONDS = 150.0
"""Timeout of a request: the slowest takes 30 s, and 60 s on a busy machine."""

_DEADLINE_SECONDS = 120.0
"""After this time a reader gives up by itself."""

_PULSE_SECONDS = 30.0

Reader = ReaderProcess | JavaTool


def start(name: str, bench: BenchmarkRun, stack: ExitStack) -> Reader:
    """Start a process that answers requests until the stack is closed."""
    reader = _reader(name, bench)
    stack.enter_context(reader)
    return reader


def _reader(name: str, bench: BenchmarkRun) -> Reader:
    """confluent-kafka runs the same program with and without tuning."""
    kafka, rivals = bench.rivals.distribution, bench.rivals
    match name:
        case "penstock":
            return ReaderProcess(name, [sys.executable, PROGRAMS / "group_penstock.py"])
        case "java":
            return JavaTool(name, kafka)
        case "java-warm":
            return JavaConsumer(name, [kafka.java, "-Xmx1g", "-cp", kafka.classpath(), PROGRAMS / "Consume.java"])
        case "confluent" | "confluent-tuned":
            return _python_client(name, rivals.confluent, "group_confluent.py")
        case "kafka-python":
            return _python_client(name, rivals.kafka_python, "group_kafka_python.py")
        case "aiokafka":
            return _python_client(name, rivals.aiokafka, "group_aiokafka.py")
        case _:
            raise ValueError(name)


def start_joining() -> ReaderProcess:
    """A process with a whole group, which another member joins."""
    return ReaderProcess("group", [sys.executable, PROGRAMS / "group_join.py"])


def _python_client(name: str, rival: Rival | None, program: str) -> ReaderProcess:
    assert rival is not None
    return ReaderProcess(name, [rival.python, PROGRAMS / program])


def ask(reader: Reader, bench: BenchmarkRun, what: str, topic: str, **details: Any) -> dict[str, Any]:
    """Let the reader join a new group and read, from the earliest offset unless `reset` is given."""
    request = {
        "do": what,
        "bootstrap": bench.kafka.bootstrap_servers,
        "topic": topic,
        "group": f"bench-{uuid.uuid4()}",
        "reset": "earliest",
        "tuned": reader.name == CONFLUENT_TUNED,
        "deadline": _DEADLINE_SECONDS,
        **details,
    }
    return reader.ask(request, REQUEST_SECONDS)


class SteadyProducer(Process):
    """A producer that sends records at a constant rate until it is closed."""

    def __init__(self, bench: BenchmarkRun, topic: str, partitions: int, per_second: int) -> None:
        kafka = bench.rivals.distribution
        command: list[str | Path] = [kafka.java, "-Xmx256m", "-cp", kafka.classpath(), PROGRAMS / "SteadyProducer.java"]
        super().__init__(
            "steady producer", [*command, bench.kafka.bootstrap_servers, topic, str(partitions), str(per_second)]
        )
        if self.read_line(_PULSE_SECONDS) != "sending":
            raise ReaderFailed("the steady producer ended")
