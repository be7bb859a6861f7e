"""Tables of the write figures, from recorded runs."""

from __future__ import annotations

from tools.docs.benchmark_tables import SHORT_WAIT, Case, shown, side_by_side
from tools.docs.markdown import table
from tools.docs.results import Run, run_of

ONCE, EXACTLY, TUNED = "at least once", "exactly once", "tuned"
NOOP, DISCARD = "noop sink", "discarding writer"

SPARK_SIDES = {
    "jvm": "Spark's sink, PySpark 4.2.0",
    "penstock-same-spark": "Penstock, PySpark 4.2.0",
    "penstock": "Penstock, PySpark 4.3.0",
}
STREAM_SIDES = {"penstock": "Penstock", "jvm": "Spark's Kafka source and sink"}
BATCHES: dict[Case, str] = {
    ("write-batch", ONCE): "4 M rows, at least once",
    ("write-batch", TUNED): "4 M rows, at least once, larger batches",
    ("write-batch", EXACTLY): "4 M rows, exactly once",
    ("write-batch", DISCARD): "the same rows into a Python writer that discards them",
    ("write-batch", NOOP): "the same rows into the `noop` sink",
    ("write-json", ONCE): "2 M structs as JSON, at least once",
    ("write-json", TUNED): "2 M structs as JSON, at least once, larger batches",
    ("write-json", DISCARD): "the same structs into a Python writer that discards them",
}
STREAMS: dict[Case, str] = {
    ("write-micro-batch", ONCE): "micro-batch of 20 rows, at least once, p50, ms",
    ("write-micro-batch", SHORT_WAIT): f"the same with `kafka.{SHORT_WAIT}`",
    ("write-micro-batch", EXACTLY): "micro-batch of 20 rows, exactly once, p50, ms",
    ("write-stream", ONCE): "copy 4 M records, 1 M per trigger, at least once, s",
    ("write-stream", EXACTLY): "copy 4 M records, 1 M per trigger, exactly once, s",
}
PRODUCERS: dict[tuple[str, str], str] = {
    ("penstock", "keys and values"): "`penstock.write_batches`, keys and values",
    ("confluent-produce-batch", "keys and values"): "confluent-kafka, `produce_batch`, keys and values",
    ("confluent-tuned", "keys and values"): "confluent-kafka, `produce`, keys and values",
    ("confluent-tuned", "keys and values, from the table"): "the same, from the Arrow table",
    ("penstock", "values only"): "`penstock.write_batches`, values only",
    ("java", "values only"): "ProducerPerformance, warm, values only",
}
NOT_MEASURED = "*Not measured yet.*"


def batches() -> str:
    run = run_of("write")
    rows = side_by_side(run, BATCHES, SPARK_SIDES)
    if not rows:
        return NOT_MEASURED
    alone = [_sink_alone(run, side) for side in SPARK_SIDES]
    rows.append(("4 M rows, at least once, less `noop`: the sink alone", *map(shown, alone)))
    return _with_chart("Spark batch write: seconds of Penstock and of Spark's sink", "spark-write", rows)


def streams() -> str:
    rows = side_by_side(run_of("write"), STREAMS, STREAM_SIDES)
    return table(("", *STREAM_SIDES.values()), rows) if rows else NOT_MEASURED


def producers() -> str:
    run = run_of("write")
    rows = [(text, shown(run.value("write-plain", case, side))) for (side, case), text in PRODUCERS.items()]
    if not any(row[1] for row in rows):
        return NOT_MEASURED
    return table(("producer, one thread", "M rows/s"), rows)


def memory() -> str:
    run = run_of("write")
    rows = []
    for case in (ONCE, EXACTLY):
        over = run.value("write-memory", f"peak over idle, {case}", "penstock")
        if over is not None:
            idle = run.recorded("write-memory", f"peak over idle, {case}", "penstock", "idle_mb")
            growth = run.value("write-memory", f"growth, {case}", "penstock")
            rows.append((case, shown(idle), f"{over:.0f}", f"{growth:.1f}"))
    heads = ("Spark worker writing 2 GB", "idle, MB", "peak over idle, MB", "growth, MB")
    return table(heads, rows) if rows else NOT_MEASURED


def _sink_alone(run: Run, side: str) -> float | None:
    job, noop = (run.value("write-batch", case, side) for case in (ONCE, NOOP))
    return None if job is None or noop is None else job - noop


def _with_chart(alternative: str, name: str, rows: list[tuple[str, ...]]) -> str:
    return f"![{alternative}](figures/{name}.svg)\n\n" + table(("seconds", *SPARK_SIDES.values()), rows)
