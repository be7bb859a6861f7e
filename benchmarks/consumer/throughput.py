"""Rows per second and CPU time: batches of any size, and message by message.

All readers of a figure are started and warmed up before the first timed run, and the timed runs alternate. Each run
joins a new group. Every run counts records and bytes: a reader with a wrong count stops the benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.consumer.readers import (
    AIOKAFKA,
    BATCHES,
    CONFLUENT,
    CONFLUENT_TUNED,
    JAVA,
    JAVA_WARM,
    KAFKA_PYTHON,
    MESSAGES,
    PENSTOCK,
    PROCESSOR,
    Reader,
    ask,
    start,
)
from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WARM_UPS, WrongRead
from benchmarks.topics import BATCH_SIZE, Topic, load

CODEC = "lz4"
ROWS = 6_000_000
QUICK_ROWS = 200_000
PARTITIONS = 4
KEY_BYTES = 8
"""Key size of every record that Load.java writes. Java's tool counts it, the other readers do not."""

ONE_BY_ONE = "message by message"


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    share: int = 1
    """It reads one record in `share`. Not for CPU figures: records that were fetched but not read would count."""
    warm_ups: int = WARM_UPS


ENTRIES = {
    BATCHES: (
        Entry(PENSTOCK),
        Entry(JAVA, warm_ups=1),  # every run is a new JVM
        Entry(JAVA_WARM),
        Entry(CONFLUENT_TUNED, warm_ups=1),
        Entry(CONFLUENT, share=6, warm_ups=1),
    ),
    MESSAGES: (
        Entry(PENSTOCK),
        Entry(CONFLUENT_TUNED, warm_ups=1),
        Entry(CONFLUENT, share=6, warm_ups=1),
        Entry(KAFKA_PYTHON, share=12, warm_ups=1),
        Entry(AIOKAFKA, share=12, warm_ups=1),
    ),
}


def measure(bench: BenchmarkRun, figures: Sequence[str]) -> list[Measurement]:
    """Measure the selected ones of the two figures, over one topic."""
    chosen = {
        figure: [entry for entry in entries if entry.side in bench.sides]
        for figure, entries in ENTRIES.items()
        if figure in figures
    }
    if not any(chosen.values()):
        return []
    topic = batches_topic(bench)
    measured = [one for figure, entries in chosen.items() for one in _measure(bench, figure, entries, topic)]
    bench.kafka.delete_topic(topic.name)
    return measured


def batches_topic(bench: BenchmarkRun) -> Topic:
    return load(
        bench.kafka,
        bench.rivals.distribution,
        "bench-consumer",
        CODEC,
        bench.sized(ROWS, QUICK_ROWS),
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=bench.progress,
    )


def _measure(bench: BenchmarkRun, figure: str, entries: Sequence[Entry], topic: Topic) -> list[Measurement]:
    speeds = {entry: Measurement(figure, "", entry.side, "M rows/s") for entry in entries}
    case = ONE_BY_ONE if figure == MESSAGES else ""
    costs = {entry: Measurement(PROCESSOR, case, entry.side, "CPU s/GB") for entry in entries}
    with ExitStack() as stack:
        readers: dict[Entry, Reader] = {}
        for entry in entries:
            readers[entry] = start(entry.side, bench, stack)
            for warm_up in range(entry.warm_ups):
                bench.progress(f"{figure}: warming {entry.side}, {warm_up + 1} of {entry.warm_ups}")
                _read(readers[entry], bench, figure, entry, topic)
        for turn in range(bench.rounds):
            for entry, reader in readers.items():
                bench.progress(f"{figure}: {entry.side}, run {turn + 1} of {bench.rounds}")
                answer = _read(reader, bench, figure, entry, topic)
                speed = answer["rows"] / answer["seconds"] / 1e6
                speeds[entry].rounds.append(speed)
                speeds[entry].extra.append({key: round(value, 4) for key, value in answer.items()})
                text = f"{figure}: {entry.side}, run {turn + 1} of {bench.rounds}: {speed:.2f} M rows/s"
                if entry.share == 1 and "processor_seconds" in answer:
                    cost = answer["processor_seconds"] / topic.bytes * 1e9
                    costs[entry].rounds.append(cost)
                    text += f", {cost:.2f} CPU seconds per GB"
                bench.progress.note(text)
    return [*speeds.values(), *(cost for cost in costs.values() if cost.rounds)]


def _read(reader: Reader, bench: BenchmarkRun, figure: str, entry: Entry, topic: Topic) -> dict[str, Any]:
    rows = topic.rows // entry.share
    what = "batches" if figure == BATCHES else "messages"
    answer = ask(reader, bench, what, topic.name, rows=rows)
    check_counts(entry.side, answer, topic, rows)
    return answer


def check_counts(who: str, answer: dict[str, Any], topic: Topic, rows: int) -> None:
    """That a reader has read so many records, and the bytes of the topic if those are all."""
    if answer["rows"] != rows:
        raise WrongRead(f"{who} read {answer['rows']} of {rows} records of {topic.name}")
    if rows == topic.rows:
        # Java's tool rounds to four digits of a MB.
        seen = answer["value_bytes"] + KEY_BYTES * rows if "value_bytes" in answer else answer["bytes"]
        if abs(seen - topic.bytes) > (0 if "value_bytes" in answer else 100):
            raise WrongRead(f"{who} read {seen} of {topic.bytes} bytes of {topic.name}")
