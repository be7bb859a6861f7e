"""Who takes part in the consumer figures, and the words in which they are spoken to."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

from benchmarks.arena import Arena
from benchmarks.environments import Rival
from benchmarks.processes import Contestant, ContestantFailed, JavaConsumer, JavaTool, Process
from benchmarks.speed import HERE

BATCHES = "consumer-batches"
MESSAGES = "consumer-messages"
PROCESSOR = "consumer-cpu"
"""Taken along by the two above."""
LATENCY = "consumer-latency"
FIGURES = (BATCHES, MESSAGES, LATENCY)
"""What `--only` knows."""

PENSTOCK = "penstock"
JAVA = "java"
JAVA_WARM = "java-warm"
CONFLUENT = "confluent"
CONFLUENT_TUNED = "confluent-tuned"
KAFKA_PYTHON = "kafka-python"
AIOKAFKA = "aiokafka"
READERS = (PENSTOCK, JAVA, JAVA_WARM, CONFLUENT_TUNED, CONFLUENT, KAFKA_PYTHON, AIOKAFKA)

ORDER_SECONDS = 150.0
"""For an order to a reader: the slowest here takes 30 s, and 60 on a busy machine."""

_DEADLINE_SECONDS = 120.0
"""After which a reader is to give up by itself."""

_PULSE_SECONDS = 30.0

Reader = Contestant | JavaTool


def start(name: str, arena: Arena) -> Reader:
    """A process that answers orders; confluent-kafka's is the same, tuned and not."""
    kafka, rivals = arena.rivals.distribution, arena.rivals
    match name:
        case "penstock":
            return Contestant(name, [sys.executable, HERE / "group_penstock.py"])
        case "java":
            return JavaTool(name, kafka)
        case "java-warm":
            return JavaConsumer(name, [kafka.java, "-Xmx1g", "-cp", kafka.classpath(), HERE / "Consume.java"])
        case "confluent" | "confluent-tuned":
            return _python_client(name, rivals.confluent, "group_confluent.py")
        case "kafka-python":
            return _python_client(name, rivals.kafka_python, "group_kafka_python.py")
        case "aiokafka":
            return _python_client(name, rivals.aiokafka, "group_aiokafka.py")
        case _:
            raise ValueError(name)


def _python_client(name: str, rival: Rival | None, program: str) -> Contestant:
    assert rival is not None
    return Contestant(name, [rival.python, HERE / program])


def ask(reader: Reader, arena: Arena, what: str, topic: str, **details: Any) -> dict[str, Any]:
    """Have it join a new group and read. Without `reset` from the earliest record on."""
    order = {
        "do": what,
        "bootstrap": arena.kafka.bootstrap_servers,
        "topic": topic,
        "group": f"bench-{uuid.uuid4()}",
        "reset": "earliest",
        "tuned": reader.name == CONFLUENT_TUNED,
        "deadline": _DEADLINE_SECONDS,
        **details,
    }
    return reader.ask(order, ORDER_SECONDS)


class Pulse(Process):
    """A producer that sends records at a steady rate for as long as it lives."""

    def __init__(self, arena: Arena, topic: str, partitions: int, per_second: int) -> None:
        kafka = arena.rivals.distribution
        command: list[str | Path] = [kafka.java, "-Xmx256m", "-cp", kafka.classpath(), HERE / "Pulse.java"]
        super().__init__("pulse", [*command, arena.kafka.bootstrap_servers, topic, str(partitions), str(per_second)])
        if self.hear(_PULSE_SECONDS) != "sending":
            raise ContestantFailed("pulse ended")
