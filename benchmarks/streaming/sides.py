"""Who takes part in the stream figures, and the words in which they are spoken to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.arena import Arena
from benchmarks.processes import Contestant, ContestantFailed, Process
from benchmarks.speed import HERE, SPARK_CORES

PENSTOCK = "penstock"
JVM = "jvm"
FLINK = "flink"
SIDES = (PENSTOCK, JVM, FLINK)

ORDER_SECONDS = 120.0
"""For an order to a stream: the slowest here is a cold one that catches up on 6 M records, 20 s."""

REPLAY_SECONDS = 600.0
"""For a stream that counts 6 M records behind a watermark, in dozens of triggers."""

_COMPILE_SECONDS = 120.0


def spark_sides(arena: Arena) -> list[str]:
    return [side for side in arena.sides if side in (PENSTOCK, JVM)]


class Stream(Contestant):
    """Spark with one stream of all columns into the noop sink."""

    def __init__(self, side: str, arena: Arena, settings: Mapping[str, str] | None = None) -> None:
        self.side = side
        self._arena = arena
        program, cores, words = HERE / "spark_stream.py", str(SPARK_CORES), json.dumps(dict(settings or {}))
        if side == PENSTOCK:
            command: list[str | Path] = [sys.executable, program, "penstock", cores, words]
        else:
            rival = arena.rivals.jvm_source
            assert rival is not None
            command = [rival.python, program, "kafka", cores, words, *rival.jars]
        super().__init__(f"stream-{side}", command)

    def start(self, options: Mapping[str, str], trigger: str | None = None) -> None:
        """Start a query that reads on from the latest records; returns when it waits for more."""
        self._order("start", options={"startingOffsets": "latest", **options}, trigger=trigger)

    def settle(self) -> None:
        """Wait until it has read everything there is."""
        self._order("settle")

    def idle(self, seconds: float, warm_seconds: float) -> dict[str, Any]:
        return self._order("idle", seconds=seconds, warm_seconds=warm_seconds)

    def memory(self, *, collect: bool) -> dict[str, Any]:
        """Resident MB of all processes; with `collect`, of the driver's heap after a garbage collection too."""
        return self._order("memory", collect=collect)

    def stop(self) -> list[dict[str, Any]]:
        """End the query; its triggers that had rows, with Spark's own times in ms."""
        triggers: list[dict[str, Any]] = self._order("stop")["triggers"]
        return triggers

    def catch_up(self, options: Mapping[str, str], *, verify: bool) -> dict[str, Any]:
        return self._order("catch-up", options={"startingOffsets": "earliest", **options}, verify=verify)

    def replay(self, options: Mapping[str, str], window: str, delay: str) -> dict[str, Any]:
        """Count everything in windows, behind a watermark of Spark's own."""
        order = {"options": {"startingOffsets": "earliest", **options}, "window": window, "delay": delay}
        return self._order("replay", REPLAY_SECONDS, **order)

    def _order(self, what: str, patience: float = ORDER_SECONDS, **details: Any) -> dict[str, Any]:
        order = {"do": what, "bootstrap": self._arena.kafka.bootstrap_servers, **details}
        if what in ("start", "catch-up", "replay"):
            order["checkpoint"] = self._arena.checkpoint()
        return self.ask(order, patience)


class FlinkJob(Process):
    """Flink's KafkaSource in one warm JVM, a bounded job for every order."""

    def __init__(self, arena: Arena) -> None:
        self._bootstrap = arena.kafka.bootstrap_servers
        assert arena.rivals.flink is not None
        java, classes = arena.rivals.distribution.java, arena.scratch / "flink-classes"
        classpath = ":".join(map(str, [classes, *arena.rivals.flink]))
        # Compiled into a folder: tasks look their functions up by name, and find none that `java Flink.java` made.
        compile_command: list[str | Path] = [
            java,
            "-m",
            "jdk.compiler/com.sun.tools.javac.Main",
            "-d",
            classes,
            "-cp",
            classpath,
        ]
        subprocess.run([*compile_command, HERE / "Flink.java"], check=True, timeout=_COMPILE_SECONDS)
        super().__init__(FLINK, [java, "-Xmx2g", "-cp", classpath, "Flink", str(SPARK_CORES)])

    def catch_up(self, topic: str, *, verify: bool) -> dict[str, Any]:
        self.tell(f"{self._bootstrap} {topic}{' verify' if verify else ''}")
        while (line := self.hear(ORDER_SECONDS)) is not None:
            match line.split():
                case ["ran", execute, job, rows, size]:
                    return {
                        "seconds": float(job),
                        "execute_seconds": float(execute),
                        "rows": int(rows),
                        "bytes": int(size),
                    }
        raise ContestantFailed(f"{self.name} ended without an answer")


class Trickle(Process):
    """A producer that sends a few records when told to, all in one request."""

    def __init__(self, arena: Arena, partitions: int, topics: Sequence[str]) -> None:
        kafka = arena.rivals.distribution
        command: list[str | Path] = [kafka.java, "-Xmx256m", "-cp", kafka.classpath(), HERE / "Trickle.java"]
        super().__init__("trickle", [*command, arena.kafka.bootstrap_servers, str(partitions), *topics])

    def send(self, rows: int, times: tuple[int, int] | None = None) -> None:
        """`times`: the timestamp (ms) in the first partition, and how much later it is in each after it; else now."""
        self.tell(" ".join(map(str, (rows, *(times or ())))))
        if self.hear(ORDER_SECONDS) != "sent":
            raise ContestantFailed(f"{self.name} ended")
