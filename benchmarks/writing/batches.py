"""Seconds of a Spark batch write: Penstock, Spark's own sink, and the same job without a sink.

All sides are started and warmed up before the first timed run, and the timed runs alternate. Each run writes a new
topic. After the warm-up a reader of committed records counts the rows and bytes of the topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WARM_UPS
from benchmarks.streaming.sides import JVM, PENSTOCK
from benchmarks.writing.figures import (
    AT_LEAST_ONCE,
    BATCH,
    COMPRESSED,
    DISCARD,
    EXACTLY_ONCE,
    FROM_JSON,
    JVM_TUNED,
    NOOP,
    PARTITIONS,
    SAME_SPARK,
    TUNED,
    penstock_options,
)
from benchmarks.writing.output_topics import check, output_topic
from benchmarks.writing.rows import JSON_ROW, ROW, SIZE, TYPED_ROW
from benchmarks.writing.spark_side import Job, SparkWriter

ROWS = 4_000_000
QUICK_ROWS = 200_000
FEW_ROWS = 1_000
JSON_ROWS = 2_000_000
QUICK_JSON_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    case: str
    job: Job
    texts: Sequence[str] = ROW
    """The rows that it should write, with values as texts."""

    @property
    def label(self) -> str:
        return f"{self.side}, {self.case}"

    @property
    def writes(self) -> bool:
        """Whether it writes to Kafka."""
        return self.job.format in ("kafka", "penstock")


def measure(bench: BenchmarkRun) -> list[Measurement]:
    rows = bench.sized(ROWS, QUICK_ROWS)
    noop, discard = Job("noop", ROW, rows, {}), Job("discard", ROW, rows, {})
    entries = [
        Entry(JVM, NOOP, noop),
        Entry(JVM, AT_LEAST_ONCE, Job("kafka", ROW, rows, COMPRESSED)),
        Entry(JVM, TUNED, Job("kafka", ROW, rows, JVM_TUNED)),
    ]
    for side in (SAME_SPARK, PENSTOCK):
        entries += [Entry(side, NOOP, noop), Entry(side, DISCARD, discard)]
        entries.append(Entry(side, AT_LEAST_ONCE, Job("penstock", ROW, rows, penstock_options(AT_LEAST_ONCE))))
    entries.append(Entry(PENSTOCK, EXACTLY_ONCE, Job("penstock", ROW, rows, penstock_options(EXACTLY_ONCE))))
    return _measure(bench, BATCH, entries)


def measure_json(bench: BenchmarkRun) -> list[Measurement]:
    rows = bench.sized(JSON_ROWS, QUICK_JSON_ROWS)
    typed = Job("penstock", TYPED_ROW, rows, {**penstock_options(AT_LEAST_ONCE), "valueFormat": "json"})
    entries = [
        Entry(JVM, AT_LEAST_ONCE, Job("kafka", JSON_ROW, rows, COMPRESSED), JSON_ROW),
        Entry(JVM, TUNED, Job("kafka", JSON_ROW, rows, JVM_TUNED), JSON_ROW),
    ]
    for side in (SAME_SPARK, PENSTOCK):
        entries.append(Entry(side, AT_LEAST_ONCE, typed, JSON_ROW))
        entries.append(Entry(side, DISCARD, Job("discard", TYPED_ROW, rows, {}), JSON_ROW))
    return _measure(bench, FROM_JSON, entries)


def _measure(bench: BenchmarkRun, figure: str, possible: Sequence[Entry]) -> list[Measurement]:
    entries = [entry for entry in possible if entry.side in bench.sides]
    measured = {entry.label: Measurement(figure, entry.case, entry.side, "s") for entry in entries}
    with ExitStack() as stack:
        writers: dict[str, SparkWriter] = {}
        for entry in entries:
            if entry.side not in writers:
                bench.progress(f"{figure}: starting {entry.side}")
                writers[entry.side] = stack.enter_context(SparkWriter(entry.side, bench))
            for warm_up in range(WARM_UPS):
                bench.progress(f"{figure}: warming {entry.label}, {warm_up + 1} of {WARM_UPS}")
                _write(bench, writers[entry.side], entry, verify=warm_up == 0)
        for turn in range(bench.rounds):
            # The order alternates, so that a trend affects all sides equally.
            for entry in entries if turn % 2 == 0 else reversed(entries):
                seconds = _write(bench, writers[entry.side], entry, verify=False)
                measured[entry.label].rounds.append(seconds)
                bench.progress.note(
                    f"{figure}: {entry.label}, run {turn + 1} of {bench.rounds}: {seconds:.2f} s, "
                    f"{entry.job.rows / seconds / 1e6:.2f} M rows/s"
                )
    return list(measured.values())


def _write(bench: BenchmarkRun, writer: SparkWriter, entry: Entry, *, verify: bool) -> float:
    # Spark ends Python workers that are idle for a minute, and the other sides may take that long.
    few = replace(entry.job, rows=FEW_ROWS)
    if not entry.writes:
        writer.write(few, None)
        return writer.write(entry.job, None)
    with output_topic(bench, PARTITIONS) as topic:
        if not verify:
            writer.write(few, topic)
        seconds = writer.write(entry.job, topic)
        if verify:
            rows, size = writer.sums(Job("noop", entry.texts, entry.job.rows, {}), SIZE)
            check(bench, entry.label, topic, rows, size)
    return seconds
