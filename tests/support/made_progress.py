"""Progress of a made-up streaming query that reads Kafka, aggregates, and has a value for everything."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from support.made_snapshots import HOSTILE

RUN = str(uuid.UUID(int=1))


def progress(batch: int = 7, *, ran: bool = True, offsets: dict[str, int] | None = None, **more: Any) -> Any:
    offsets = {"0": 100, "1": 50} if offsets is None else offsets
    latest = {"orders": {each: offset + int(each) for each, offset in offsets.items()}}
    report = {
        "watermark": 1_738_324_797_000,
        "watermarks": {"orders": {"0": 1_738_324_797_000}},
        "idlePartitions": {"orders": [0]},
        "heldPartitions": {"orders": [1]},
        "lateRecords": 3,
        "malformedRecords": 5,
        "droppedRecords": 2,
        "deadLetters": 3,
        "commitsSucceeded": 4,
        "commitsFailed": 1,
    }
    source = {
        "description": "a source",
        "startOffset": {"orders": dict.fromkeys(offsets, 0)},
        "endOffset": {"orders": offsets},
        "latestOffset": latest | {"#penstock": report},
        "numInputRows": 500,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
    }
    phases = {"triggerExecution": 700, "latestOffset": 20} | ({"addBatch": 600} if ran else {})
    operator = {
        "operatorName": "stateStoreSave",
        "numRowsTotal": 10,
        "numRowsUpdated": 2,
        "numRowsRemoved": 0,
        "allUpdatesTimeMs": 1,
        "allRemovalsTimeMs": 1,
        "commitTimeMs": 1,
        "memoryUsedBytes": 4096,
        "numRowsDroppedByWatermark": 6,
        "numShufflePartitions": 2,
        "numStateStoreInstances": 2,
        "customMetrics": {},
    }
    document = {
        "id": str(uuid.UUID(int=2)),
        "runId": RUN,
        "name": "orders",
        "timestamp": "2025-01-31T12:00:00.000Z",
        "batchId": batch,
        "batchDuration": 700,
        "durationMs": phases,
        "eventTime": {"watermark": "2025-01-31T11:00:00.000Z"},
        "stateOperators": [operator],
        "sources": [source],
        "sink": {"description": "noop", "numOutputRows": 500},
        "numInputRows": 500,
        "inputRowsPerSecond": 400.0,
        "processedRowsPerSecond": 700.0,
    }
    return StreamingQueryProgress.fromJson(document | more)


def run_query(listener: StreamingQueryListener, error: str | None = None) -> str:
    """Report a whole run, with a hostile name. Returns its id."""
    given = progress(name=HOSTILE)
    listener.onQueryStarted(QueryStartedEvent(given.id, given.runId, HOSTILE, "2025-01-31T11:59:00.000Z", []))
    listener.onQueryProgress(QueryProgressEvent(given))
    listener.onQueryTerminated(QueryTerminatedEvent(given.id, given.runId, error, None))
    return str(given.runId)
