"""Reports of made-up streaming queries."""

from __future__ import annotations

from penstock.watch.query_report import (
    BatchReport,
    OperatorReport,
    PartitionReport,
    PhaseReport,
    QueryReport,
    SourceReport,
)


def partition(number=0, topic="t", *, lag=7, source=0):
    return PartitionReport(
        source, topic, number, 100, 100 + lag, 90, lag, 1_700_000_000_000, number % 2 == 1, number % 3 == 2
    )


def report(run="run-1", name="orders", *, partitions=2, batches=3, topic="t", **more):
    """Running, with a value in each field."""
    given = {
        "started_at": 1_700_000_000.0,
        "progress_at": 1_700_000_100.5,
        "batch": batches,
        "rows": 500,
        "rows_written": 1500,
        "input_rate": 500.0,
        "processing_rate": 750.5,
        "lag": 7 * partitions,
        "spark_watermark": 1_700_000_000_000,
        "phases": (PhaseReport("triggerExecution", 700), PhaseReport("addBatch", 600), PhaseReport("walCommit", 40)),
        "sources": (SourceReport(7, 500.0, 5e6, 1_700_000_000_000, 3.5, 1, 0, 5, 3, 2, 0, 12, 1),),
        "operators": (OperatorReport("stateStoreSave", 1000, 65_536, 10, 4),),
        "batches": tuple(BatchReport(at, 1_700_000_000.0 + at, 100 + at, 700) for at in range(batches)),
        "partitions": tuple(partition(each, topic) for each in range(partitions)),
        "partition_count": partitions,
    }
    return QueryReport("query-1", run, name, **(given | more))
