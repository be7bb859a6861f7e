"""Time that a stream takes to read a whole topic: AvailableNow, with a limit per trigger and without.

With the limit it is compared with Spark's JVM source, without it with Flink, whose source has no triggers.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WrongRead
from benchmarks.streaming.measurement import CATCH_UP
from benchmarks.streaming.sides import FLINK, JVM, PENSTOCK, FlinkJob, Stream
from benchmarks.topics import BATCH_SIZE, KEY_BYTES, Topic, load

ROWS = 6_000_000
QUICK_ROWS = 300_000
PARTITIONS = 4
TRIGGERS = 6
"""Number of triggers that the limit per trigger leads to."""

LIMITED = "1 M per trigger"
ALL_AT_ONCE = "all at once"


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    case: str


ENTRIES = (Entry(PENSTOCK, LIMITED), Entry(JVM, LIMITED), Entry(PENSTOCK, ALL_AT_ONCE), Entry(FLINK, ALL_AT_ONCE))


def measure(bench: BenchmarkRun) -> list[Measurement]:
    rows = bench.sized(ROWS, QUICK_ROWS)
    topic = load(
        bench.kafka,
        bench.rivals.distribution,
        "bench-catch-up",
        "none",
        rows,
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=bench.progress,
    )
    entries = [entry for entry in ENTRIES if entry.side in bench.sides]
    measured = {entry: Measurement(CATCH_UP, entry.case, entry.side, "s") for entry in entries}
    with ExitStack() as stack:
        running: dict[str, Stream | FlinkJob] = {}
        for entry in entries:
            if entry.side not in running:
                reader: Stream | FlinkJob = FlinkJob(bench) if entry.side == FLINK else Stream(entry.side, bench)
                running[entry.side] = reader
                stack.enter_context(reader)
            bench.progress(f"catching up: {entry.side}, {entry.case}: checking the records it reads")
            _check(entry, topic, _catch_up(running[entry.side], entry, topic, verify=True))
            bench.warm(f"catching up: {entry.side}, {entry.case}", partial(_seconds, running[entry.side], entry, topic))
        for turn in range(bench.rounds):
            for entry in entries:
                answer = _catch_up(running[entry.side], entry, topic, verify=False)
                seconds = answer.pop("seconds")
                measured[entry].rounds.append(seconds)
                measured[entry].extra.append(answer)
                bench.progress.note(
                    f"catching up: {entry.side}, {entry.case}, run {turn + 1} of {bench.rounds}: {seconds:.2f} s"
                )
    bench.kafka.delete_topic(topic.name)
    return list(measured.values())


def _catch_up(reader: Stream | FlinkJob, entry: Entry, topic: Topic, *, verify: bool) -> dict[str, Any]:
    if isinstance(reader, FlinkJob):
        return reader.catch_up(topic.name, verify=verify)
    options = {"subscribe": topic.name}
    if entry.case == LIMITED:
        options["maxOffsetsPerTrigger"] = str(topic.rows // TRIGGERS)
    answer = reader.catch_up(options, verify=verify)
    if answer["rows"] != topic.rows:
        raise WrongRead(f"{reader.name} read {answer['rows']} of {topic.rows} records of {topic.name}")
    return answer


def _seconds(reader: Stream | FlinkJob, entry: Entry, topic: Topic) -> float:
    seconds: float = _catch_up(reader, entry, topic, verify=False)["seconds"]
    return seconds


def _check(entry: Entry, topic: Topic, answer: dict[str, Any]) -> None:
    size = topic.bytes - (KEY_BYTES * topic.rows if entry.side == FLINK else 0)  # Flink reads only the values
    if (answer["rows"], answer["bytes"]) != (topic.rows, size):
        raise WrongRead(
            f"{entry.side} read {answer['rows']} records, {answer['bytes']} bytes; the topic has {topic.rows}, {size}"
        )
    if entry.case == LIMITED and answer["triggers"] < TRIGGERS:
        raise WrongRead(f"{entry.side} took {answer['triggers']} triggers; its limit leads to {TRIGGERS}")
