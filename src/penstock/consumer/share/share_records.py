"""What a share stream hands out: messages and batches that can be acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from penstock._kernel import Message
from penstock.consumer.share.share_chunk import ShareChunk
from penstock.consumer.stream.batch_view import BatchView
from penstock.errors import OptionError

Rows: TypeAlias = Iterable[int] | Iterable[bool] | slice | None
"""Rows of a batch: their numbers, a mask with one bool per row, or a slice. None: all rows."""


class ShareMessage:
    """One acquired record. It has the attributes of `Message`, and `delivery_count`."""

    __slots__ = ("_chunk", "_message", "delivery_count")

    def __init__(self, message: Message, chunk: ShareChunk, delivery_count: int) -> None:
        self._message = message
        self._chunk = chunk
        self.delivery_count = delivery_count
        """How often the group's members have got the record, this time included. Kafka counts acquisitions."""

    @property
    def topic(self) -> str:
        return self._message.topic

    @property
    def partition(self) -> int:
        return self._message.partition

    @property
    def offset(self) -> int:
        return self._message.offset

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since 1970; None if the record has none."""
        return self._message.timestamp

    @property
    def timestamp_type(self) -> int:
        """-1: none (magic 0), 0: create time, 1: log append time."""
        return self._message.timestamp_type

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        return self._message.headers

    @property
    def key(self) -> Any:
        """bytes or None, or the result of the key decoder."""
        return self._message.key

    @property
    def value(self) -> Any:
        """bytes or None, or the result of the value decoder."""
        return self._message.value

    def __repr__(self) -> str:
        return f"ShareMessage({self.topic}-{self.partition}, offset {self.offset}, delivery {self.delivery_count})"


class ShareBatch(BatchView):
    """Acquired records of one partition. `pyarrow.record_batch(batch)`, polars and others accept it as a record batch.

    Attributes that it does not define are those of its RecordBatch: `batch.slice(0, 10)` is a plain RecordBatch. Only
    the ShareBatch itself can be acknowledged.
    """

    __slots__ = ("_chunk", "_end", "_first", "_offsets", "delivery_count")

    def __init__(
        self,
        records: pa.RecordBatch,
        chunk: ShareChunk,
        first: int,
        end: int,
        offsets: pa.Array | None,
        delivery_count: int,
    ) -> None:
        """`offsets`: those of the rows; None if the rows have all offsets of [first, end)."""
        super().__init__(records)
        self._chunk = chunk
        self._first = first
        self._end = end
        self._offsets = offsets
        self.delivery_count = delivery_count
        """The highest delivery count of the rows. Column `deliveryCount` has that of each row."""

    @property
    def topic(self) -> str:
        return self._chunk.partition.tp.topic

    @property
    def partition(self) -> int:
        return self._chunk.partition.tp.partition

    def __repr__(self) -> str:
        return f"ShareBatch({self.num_rows} rows of {self.schema.names}, {self._chunk.partition.tp})"


def row_numbers(rows: object, count: int) -> Sequence[int]:
    """The numbers of the selected rows. Raises OptionError for what does not select rows of this batch."""
    if isinstance(rows, slice):
        return range(count)[rows]
    if isinstance(rows, str | bytes) or not hasattr(rows, "__iter__"):
        raise OptionError("rows", rows, "does not select rows", "Give row numbers, a mask, or a slice")
    listed: list[Any]
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        listed = rows.to_pylist()
    elif hasattr(rows, "tolist"):  # NumPy, pandas
        listed = rows.tolist()
    else:
        listed = list(rows)
    if listed and all(isinstance(each, bool) or each is None for each in listed):
        if len(listed) != count:
            raise OptionError("rows", None, f"is a mask of {len(listed)} rows, and the batch has {count}")
        return [at for at, selected in enumerate(listed) if selected]
    for each in listed:
        if not isinstance(each, int) or isinstance(each, bool) or not 0 <= each < count:
            raise OptionError("rows", each, f"is not a row of a batch with {count} rows", "Rows count from 0")
    return listed
