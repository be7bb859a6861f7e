"""A batch with event time: `Stream.batches` yields it if the connector has a watermark strategy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from penstock.consumer.stream.batch_view import BatchView
from penstock.eventtime.times import EventTimes

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventBatch(BatchView):
    """Records of one partition, and the event-time watermarks after them.

    It supports Arrow's PyCapsule interface: `pyarrow.record_batch(batch)`, polars and others accept it as a record
    batch. Attributes that it does not define are those of its RecordBatch: `batch.slice(0, 10)` is a plain RecordBatch.
    """

    __slots__ = ("_partition_watermark", "_times", "_watermark", "late")

    def __init__(
        self,
        records: pa.RecordBatch,
        times: EventTimes,
        watermark: int | None,
        partition_watermark: int | None,
        late: int = 0,
    ) -> None:
        """Watermarks are milliseconds since the epoch."""
        super().__init__(records)
        self._times = times
        self._watermark = watermark
        self._partition_watermark = partition_watermark
        self.late = late
        """How many of the records are late: not after the watermark that was reached before them (E5)."""

    @property
    def watermark(self) -> datetime | None:
        """The connector's combined event-time watermark after this batch; None while it is unknown."""
        return as_datetime(self._watermark)

    @property
    def partition_watermark(self) -> datetime | None:
        """The event-time watermark of this batch's partition."""
        return as_datetime(self._partition_watermark)

    @property
    def event_times(self) -> pa.TimestampArray:
        """The event time of each record; null for a record without one."""
        return self._times.milliseconds().cast(pa.timestamp("ms", tz="UTC"))

    def __repr__(self) -> str:
        return f"EventBatch({self.num_rows} rows of {self.schema.names}, watermark={self.watermark})"


def as_datetime(milliseconds: int | None) -> datetime | None:
    """A time outside of Python's years becomes the first or last datetime: records may carry any time."""
    if milliseconds is None:
        return None
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return (datetime.min if milliseconds < 0 else datetime.max).replace(tzinfo=UTC)
