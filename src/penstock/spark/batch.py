"""The batch reader: plans on the driver, reads on the executors. What crosses over is pickled: options and ranges."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from penstock.options import SourceOptions
from penstock.ranges import EVERYTHING, OffsetRange
from penstock.spark.filters import narrowing_of
from penstock.spark.schema import columns_of


class RangePartition(InputPartition):
    """A task's share: one range of offsets."""

    def __init__(self, value: OffsetRange) -> None:
        super().__init__(value)


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._columns = columns_of(schema)
        self._narrowing = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        """Called once, on the driver."""
        from penstock.plan import plan_batch

        return [RangePartition(r) for r in plan_batch(self._options, self._narrowing)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Called on an executor, once per partition."""
        return read_range(partition, self._columns, self._options)


def read_range(partition: InputPartition, columns: Sequence[str], options: SourceOptions) -> Iterator[Any]:
    """Read a task's range as Arrow batches."""
    if partition.value is None:  # Spark's stand-in for an empty plan
        return iter(())
    from penstock.fetch.reader import RangeReader

    reader = RangeReader(
        partition.value,
        columns,
        options.client,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout=options.poll_timeout,
    )
    _freeze_heap()
    return reader.ahead()


class FilteringBatchReader(BatchReader):
    """The same with filters pushed down. A class of its own, because Spark refuses a reader that has pushFilters
    while spark.sql.python.filterPushdown.enabled is false."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._narrowing = narrowing_of(filters)
        return filters  # Spark checks every row again: a range holds whole offsets, not conditions


_heap_frozen = False


def _freeze_heap() -> None:
    """Take what is loaded out of the garbage collector's sight, once per worker.

    PySpark's daemon collects after every task, and PySpark and kafka-python's schemas are 54,000 objects to walk: 16 ms
    a task, a sixth of the worker's time in a read of 3 M rows. Modules are never garbage.
    """
    global _heap_frozen
    if not _heap_frozen:
        gc.collect()
        gc.freeze()
        _heap_frozen = True
