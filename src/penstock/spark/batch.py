"""The batch reader: plans on the driver, reads on the executors. Spark pickles it, with its options and ranges."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.config.in_force import options_text, versions
from penstock.config.source import SourceOptions
from penstock.dead_letters.scope import LetterScope
from penstock.formats.plan import TypedPlan
from penstock.formats.row_cost import log_row_cost
from penstock.masking import get_logger
from penstock.model.narrowing import EVERYTHING
from penstock.model.offset_range import OffsetRange
from penstock.model.task_report import ReportAddress
from penstock.model.watermark_columns import UNKNOWN, Watermarks
from penstock.spark.driver_log import log_to_driver
from penstock.spark.early_end import expect_early_end
from penstock.spark.prompt_ack import UnpickledInTask
from penstock.spark.tracebacks import without_traceback
from penstock.spark.worker_heap import freeze_heap

log = get_logger(__name__)


class RangePartition(InputPartition):
    """The work of one task: a range of offsets. In a stream also the address for its report, and the event-time
    watermarks when it was planned."""

    def __init__(
        self, value: OffsetRange, reports: ReportAddress | None = None, watermarks: Watermarks = UNKNOWN
    ) -> None:
        super().__init__(value)
        self.reports = reports
        self.watermarks = watermarks

    def __reduce__(self) -> tuple[Callable[..., RangePartition], tuple[object, ...]]:
        """As plain values: Spark pickles each partition by itself, with cloudpickle, which looks up every class in it.
        A range takes half of the bytes: 121 instead of 241."""
        value: OffsetRange = self.value
        topic_id = None if value.topic_id is None else value.topic_id.bytes
        leader = (value.host, value.port, value.leader_epoch)
        watermarks = None if self.watermarks == UNKNOWN else self.watermarks
        return _range_partition, (
            *(value.topic, value.partition, value.start, value.stop, topic_id, *leader),
            *(self.reports, watermarks),
        )


def _range_partition(
    topic: str,
    partition: int,
    start: int,
    stop: int,
    topic_id: bytes | None,
    host: str,
    port: int,
    leader_epoch: int,
    reports: ReportAddress | None,
    watermarks: Watermarks | None,
) -> RangePartition:
    """A RangePartition from its pickled values."""
    known_id = None if topic_id is None else uuid.UUID(bytes=topic_id)
    value = OffsetRange(topic, partition, start, stop, known_id, host, port, leader_epoch)
    return RangePartition(value, reports, UNKNOWN if watermarks is None else watermarks)


class BatchReader(UnpickledInTask, DataSourceReader):
    """Reads Kafka as a batch."""

    def __init__(self, options: SourceOptions, columns: list[str] | TypedPlan) -> None:
        self._options = options
        self._columns = columns
        self.narrowing = EVERYTHING
        self._scope = LetterScope("batch", uuid.uuid4().hex)
        """All attempts at a task share it. Another DataFrame over the same records writes its own letters."""

    @without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """Called once, on the driver."""
        from penstock.planner.batch import plan_batch

        log_to_driver(self._options.log_level)
        log.info("a batch read starts: %s; options: %s", versions(), options_text(self._options.shown))
        log_row_cost(self._columns)
        may_end = isinstance(self._columns, TypedPlan) and self._columns.may_end
        narrowing = self.narrowing
        if may_end:  # a task that starts after the record that ends a partition would miss it
            narrowing = replace(narrowing, min_offset=0, min_timestamp=None)
        ranges = plan_batch(self._options, narrowing, whole_partitions=may_end)
        freeze_heap()
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Called on an executor, once per partition."""
        return read_partition(partition, self._columns, self._options, self._scope)


def read_partition(
    partition: InputPartition, columns: list[str] | TypedPlan, options: SourceOptions, scope: LetterScope | None
) -> Iterator[Any]:
    """Read a task's range as Arrow batches."""
    if partition.value is None:  # Spark's placeholder for an empty plan
        return iter(())
    from penstock.reader.task import read_range

    expect_early_end()
    assert isinstance(partition, RangePartition)
    batches = read_range(
        partition.value, columns, options, scope=scope, reports=partition.reports, watermarks=partition.watermarks
    )
    freeze_heap()
    return batches
