"""The state of each assigned partition, for the consumer's metrics (H16)."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.consumer.fetch.cursor import Cursor
from penstock.eventtime.tracker import EventTimeStatus
from penstock.metrics.partition import PartitionMetrics


def partition_metrics(cursors: Iterable[Cursor], status: EventTimeStatus | None) -> list[PartitionMetrics]:
    """`status` is None without a watermark strategy."""
    by_partition = {} if status is None else status.partitions
    found = []
    for cursor in cursors:
        event = by_partition.get(cursor.tp)
        found.append(
            PartitionMetrics(
                topic=cursor.tp.topic,
                partition=cursor.tp.partition,
                current_offset=cursor.reader.position(cursor),
                latest_offset=cursor.readable,
                committed_offset=cursor.committed,
                watermark=None if event is None else event.watermark,
                idle=None if event is None else event.idle,
                held=None if event is None else event.held,
                thread_id=cursor.reader.thread_id,
            )
        )
    return found
