"""The ceiling: a data source that only returns Arrow batches from memory.

It shows the throughput of Spark's Python data source if the source itself costs nothing. The batches are those that
Penstock made from the same topic: the same columns, the same bytes, and as many rows in each.

A module of its own and not part of the Spark program, so that a worker imports it once and keeps the batches in memory
from task to task.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from itertools import cycle

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition


@functools.cache
def templates(file: str) -> list[pa.RecordBatch]:
    """Read, not memory-mapped: the batches must be in the memory of this process."""
    with pa.OSFile(file, "rb") as source, pa.ipc.open_file(source) as reader:
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]


class Ceiling(DataSource):
    """Options: `file`, the batches; `shapes`, JSON with the rows of each batch of each partition."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return (
            "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
        )

    def reader(self, schema: object) -> DataSourceReader:
        return CeilingReader(self.options["file"], json.loads(self.options["shapes"]))


class CeilingReader(DataSourceReader):
    def __init__(self, file: str, shapes: list[list[int]]) -> None:
        self._file = file
        self._shapes = shapes

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(shape) for shape in self._shapes]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not partition.value:
            return  # an empty task, to measure an idle worker
        ready = templates(self._file)
        for rows, batch in zip(partition.value, cycle(ready)):
            # The largest batches were kept, so one is rarely too short. Then the largest of all replaces it.
            source = batch if batch.num_rows >= rows else ready[0]
            yield source if source.num_rows == rows else source.slice(0, rows)
