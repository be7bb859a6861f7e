"""Rows per second of a share group: Arrow batches from four streams, acknowledged batch by batch.

Beside Java's KafkaShareConsumer in one warm JVM: four consumers in four threads. Both accept a batch, or the records of
a poll, by asking for the next one. Both have their default settings, and in the second case both acquire up to 2,000
records at a time, which is the brokers' limit of locks per partition.
"""

from __future__ import annotations

import sys
import uuid
from contextlib import ExitStack
from typing import Any

from benchmarks.consumer.readers import JAVA_WARM, PENSTOCK, REQUEST_SECONDS, SHARE
from benchmarks.consumer.throughput import CODEC, PARTITIONS, check_counts
from benchmarks.measurement import Measurement
from benchmarks.processes import ReaderProcess
from benchmarks.run import BenchmarkRun
from benchmarks.speed import PROGRAMS, WARM_UPS
from benchmarks.topics import BATCH_SIZE, load
from penstock.config.source import parse_options
from penstock.wire.api.share_group_admin import ShareGroupAdmin

ROWS = 2_000_000
QUICK_ROWS = 200_000
SIDES = (PENSTOCK, JAVA_WARM)
DEFAULTS, TUNED = "max.poll.records=500", "max.poll.records=2000"
CASES = {DEFAULTS: 500, TUNED: 2000}
_DEADLINE_SECONDS = 120.0


class JavaShareConsumer(ReaderProcess):
    """KafkaShareConsumer in one warm JVM (programs/ShareConsume.java)."""

    def ask(self, request: dict[str, Any], seconds: float = REQUEST_SECONDS) -> dict[str, Any]:
        self.write_line(" ".join(str(request[name]) for name in ("bootstrap", "topic", "group", "rows", "max_poll")))
        return self.answer(seconds)


def measure(bench: BenchmarkRun) -> list[Measurement]:
    sides = [side for side in SIDES if side in bench.sides]
    if not sides:
        return []
    rows = bench.sized(ROWS, QUICK_ROWS)
    topic = load(
        bench.kafka,
        bench.rivals.distribution,
        "bench-share",
        CODEC,
        rows,
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=bench.progress,
    )
    measured = {(case, side): Measurement(SHARE, case, side, "M rows/s") for case in CASES for side in sides}
    with ExitStack() as stack:
        readers = {side: stack.enter_context(_start(side, bench)) for side in sides}

        def read(case: str, side: str) -> dict[str, Any]:
            request = {
                "bootstrap": bench.kafka.bootstrap_servers,
                "topic": topic.name,
                "group": _new_group(bench),
                "rows": rows,
                "max_poll": CASES[case],
                "deadline": _DEADLINE_SECONDS,
            }
            answer = readers[side].ask(request, REQUEST_SECONDS)
            check_counts(f"{side}, {case}", answer, topic, rows)
            return answer

        for case in CASES:
            for side in sides:
                for warm_up in range(WARM_UPS):
                    bench.progress(f"{SHARE}: warming {side}, {case}, {warm_up + 1} of {WARM_UPS}")
                    read(case, side)
        for turn in range(bench.rounds):
            for case in CASES:
                for side in sides if turn % 2 == 0 else reversed(sides):
                    bench.progress(f"{SHARE}: {side}, {case}, round {turn + 1} of {bench.rounds}")
                    answer = read(case, side)
                    speed = answer["rows"] / answer["seconds"] / 1e6
                    measured[case, side].rounds.append(speed)
                    measured[case, side].extra.append({key: round(value, 4) for key, value in answer.items()})
                    bench.progress.note(
                        f"{SHARE}: {side}, {case}, round {turn + 1} of {bench.rounds}: {speed:.2f} M rows/s"
                    )
    bench.kafka.delete_topic(topic.name)
    return list(measured.values())


def _start(side: str, bench: BenchmarkRun) -> ReaderProcess:
    if side == PENSTOCK:
        return ReaderProcess(side, [sys.executable, PROGRAMS / "share_penstock.py"])
    kafka = bench.rivals.distribution
    program = PROGRAMS / "ShareConsume.java"
    return JavaShareConsumer(side, [kafka.java, "-Xmx1g", "-cp", kafka.classpath(), program])


def _new_group(bench: BenchmarkRun) -> str:
    """A group that starts at the beginning: by default a share group starts at the end."""
    group = f"bench-{uuid.uuid4()}"
    options = bench.kafka.client_options() | {"subscribe": group}
    admin = ShareGroupAdmin(parse_options(options).client)
    admin.configure(group, {"share.auto.offset.reset": "earliest"}, validate_only=False)
    return group
