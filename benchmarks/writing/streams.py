"""Streams from Kafka to Kafka: micro-batches of 20 rows, and a stream that catches up with 1 M rows per trigger."""

from __future__ import annotations

from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WARM_UPS, WrongRead
from benchmarks.streaming.sides import JVM, PENSTOCK, OnDemandProducer, Stream
from benchmarks.streaming.triggers import SHORT_WAIT, SHORT_WAIT_OPTIONS, Entry, Size, measure_triggers, trigger_time
from benchmarks.topics import BATCH_SIZE, load
from benchmarks.writing.figures import (
    AT_LEAST_ONCE,
    CODEC,
    COMPRESSED,
    EXACTLY_ONCE,
    MICRO_BATCH,
    PARTITIONS,
    STREAM,
    penstock_options,
)
from benchmarks.writing.output_topics import check, output_topic

ROWS = 4_000_000
QUICK_ROWS = 200_000
TRIGGERS = 4
"""Number of triggers that the limit per trigger leads to."""

FEW_PARTITIONS = 3
FEW_ROWS = 20


def measure(bench: BenchmarkRun) -> list[Measurement]:
    """Seconds in triggers of a stream that copies a topic. Starting and stopping the query is not counted."""
    if PENSTOCK not in bench.sides:
        return []
    source = load(
        bench.kafka,
        bench.rivals.distribution,
        "bench-write-source",
        CODEC,
        bench.sized(ROWS, QUICK_ROWS),
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=bench.progress,
    )
    measured = {case: Measurement(STREAM, case, PENSTOCK, "s") for case in (AT_LEAST_ONCE, EXACTLY_ONCE)}

    def copy(stream: Stream, case: str, *, verify: bool) -> dict[str, float]:
        options = {"subscribe": source.name, "maxOffsetsPerTrigger": str(source.rows // TRIGGERS)}
        with output_topic(bench, PARTITIONS) as topic:
            answer = stream.catch_up(options, verify=False, sink={"topic": topic, **penstock_options(case)})
            if answer["triggers"] < TRIGGERS:
                raise WrongRead(f"the stream took {answer['triggers']} triggers; its limit leads to {TRIGGERS}")
            if verify:
                check(bench, f"{STREAM}, {case}", topic, source.rows, source.bytes)
        return answer

    with Stream(PENSTOCK, bench) as stream:
        for case in measured:
            for warm_up in range(WARM_UPS):
                bench.progress(f"{STREAM}: warming {case}, {warm_up + 1} of {WARM_UPS}")
                copy(stream, case, verify=warm_up == 0)
        for turn in range(bench.rounds):
            for case, one in measured.items() if turn % 2 == 0 else reversed(measured.items()):
                answer = copy(stream, case, verify=False)
                one.rounds.append(answer["trigger_seconds"])
                one.extra.append(answer)
                bench.progress.note(
                    f"{STREAM}: {case}, run {turn + 1} of {bench.rounds}: {answer['trigger_seconds']:.2f} s in triggers"
                )
    bench.kafka.delete_topic(source.name)
    return list(measured.values())


def measure_micro_batch(bench: BenchmarkRun) -> list[Measurement]:
    """Spark's `triggerExecution` of a trigger with a few rows, from Kafka to Kafka."""
    source = "bench-write-few"
    bench.kafka.create_topic(source, FEW_PARTITIONS)
    size = Size(warm_up=bench.sized(30, 3), settling=bench.sized(10, 1), counted=bench.sized(30, 5))
    with (
        output_topic(bench, FEW_PARTITIONS) as topic,
        OnDemandProducer(bench, FEW_PARTITIONS, [source]) as producer,
    ):
        options = {"subscribe": source}
        possible = [
            Entry(PENSTOCK, options, case, {"topic": topic, **penstock_options(case)})
            for case in (AT_LEAST_ONCE, EXACTLY_ONCE)
        ]
        possible.append(Entry(JVM, options, AT_LEAST_ONCE, {"topic": topic, **COMPRESSED}))
        possible.append(Entry(JVM, options | SHORT_WAIT_OPTIONS, SHORT_WAIT, {"topic": topic, **COMPRESSED}))
        entries = [entry for entry in possible if entry.side in bench.sides]
        return measure_triggers(bench, {MICRO_BATCH: trigger_time}, entries, producer, FEW_ROWS, size)
