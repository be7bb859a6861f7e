"""One iteration over the batches of a share stream: which columns it has, typed or Kafka's own."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.consumer.share.share_chunk import Piece
from penstock.consumer.share.share_partition import SharePartition
from penstock.consumer.stream.typed import TypedBatches, TypedFormats
from penstock.errors import OptionError
from penstock.model.columns import checked_columns

DELIVERY_COUNT = "deliveryCount"
"""The column that only share streams have."""


class ShareBatches:
    """For one thread. `typed`: the formats of the connector; None for Kafka's own columns. `plain` filters those."""

    def __init__(
        self, columns: Sequence[str] | None, where: str | None, *, typed: TypedFormats | None, plain: TypedFormats
    ) -> None:
        if isinstance(columns, str) or (columns is not None and not columns):
            raise OptionError("columns", columns, "must be a list with at least one column", 'Example: ["value"]')
        given = None if columns is None else [name for name in columns if name != DELIVERY_COUNT]
        self._count_at = -1 if columns is None else _place(columns)
        """Where the column of delivery counts goes; -1: at the end. None: it is not selected."""
        self._typed: TypedBatches | None = None
        self._offset, self._drops_offset = "offset", False
        if typed is not None or where is not None:
            formats = typed or plain
            known = formats.source.layout.columns
            names = [column.name for column in known] if given is None else given
            # Flattened values may have a field of this name, and the offset has another name then.
            self._offset = next(column.name for column in known if column.source == "offset")
            self._drops_offset = self._offset not in names
            self._typed = formats.batches([*names, self._offset] if self._drops_offset else names, where)
            self.columns: tuple[str, ...] = self._typed.columns
        else:
            names = checked_columns(given, include_headers=True) if given != [] else []
            self._drops_offset = "offset" not in names
            self.columns = (*names, "offset") if self._drops_offset else tuple(names)

    @property
    def has_ended(self) -> bool:
        """Whether the user's deserializer has ended the stream (F4)."""
        return self._typed is not None and self._typed.ended_at is not None

    def convert(self, partition: SharePartition, piece: Piece) -> tuple[pa.RecordBatch, pa.Array, int | None]:
        """The rows of a piece, maybe none, and their offsets. The last value says where the rest begins, if only the
        first part was converted. Raises MalformedRecord, and errors of the schema registry."""
        if self._typed is None:
            return piece.records, piece.records.column(self._offset), None
        rows = self._typed.convert(partition, piece.native)
        if self._typed.ended_at is not None:
            return rows, rows.column(self._offset), self._typed.ended_at + 1
        return rows, rows.column(self._offset), self._typed.next_offset

    def finished(self, rows: pa.RecordBatch, counts: Sequence[int] | None, count: int) -> pa.RecordBatch:
        """The rows with the selected columns. `counts`: the delivery count of each row, if they differ."""
        if self._drops_offset:
            rows = rows.select(range(rows.num_columns - 1))
        if self._count_at is None:
            return rows
        column = (
            pa.repeat(pa.scalar(count, pa.int32()), rows.num_rows) if counts is None else pa.array(counts, pa.int32())
        )
        at = rows.num_columns if self._count_at < 0 else self._count_at
        arrays, names = list(rows.columns), list(rows.schema.names)
        return pa.record_batch([*arrays[:at], column, *arrays[at:]], names=[*names[:at], DELIVERY_COUNT, *names[at:]])

    def close(self) -> None:
        if self._typed is not None:
            self._typed.close()


def _place(columns: Sequence[str]) -> int | None:
    if columns.count(DELIVERY_COUNT) > 1:
        raise OptionError("columns", list(columns), "names a column twice")
    return columns.index(DELIVERY_COUNT) if DELIVERY_COUNT in columns else None
