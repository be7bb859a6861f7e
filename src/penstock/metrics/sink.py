"""The metrics of a query's sink (W10): their names, and their values from Spark's progress.

Spark counts the rows of a sink itself, and offers a Python sink no other metric. The driver's log has the rest: bytes,
requests, retries and offsets of each batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.metrics.metric import Metric, Sample, samples_of

RECORDS_OUT = Metric("numRecordsOut", "counter", "Rows that the sink has written, since the query was first observed")
RECORDS_OUT_PER_SECOND = Metric(
    "numRecordsOutPerSecond", "gauge", "Rows per second that the sink wrote in the last batch; 0 while idle"
)

SINK_METRICS = (RECORDS_OUT, RECORDS_OUT_PER_SECOND)


@dataclass(frozen=True, slots=True)
class SinkMetrics:
    """The sink of one query, as of its last progress."""

    records_out: int = 0
    """Rows since the query was first observed."""
    records_per_second: float = 0.0
    batch: int = -1
    """The last batch that is counted: Spark reports a batch more than once."""

    def after(self, batch: int, rows: int, duration_ms: float | None) -> SinkMetrics:
        """With one more progress. A negative number of rows means that Spark has not counted any."""
        if batch <= self.batch or rows < 0:
            return replace(self, records_per_second=0.0)
        return SinkMetrics(self.records_out + rows, rows / duration_ms * 1000 if duration_ms else 0.0, batch)

    def samples(self) -> Iterator[Sample]:
        yield from samples_of(((RECORDS_OUT, self.records_out), (RECORDS_OUT_PER_SECOND, self.records_per_second)))
