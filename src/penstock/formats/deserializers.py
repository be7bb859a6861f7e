"""Runs users' own deserializers, on one record or on one Arrow batch at a time.

If a deserializer fails on a record, that record is malformed. A result that breaks the contract (not an Arrow batch, a
missing column, rows that cannot be matched to records) is an error of the class, in every mode.
"""

from __future__ import annotations

import difflib
import traceback
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock._kernel import Batch, Messages
from penstock.errors import DeserializerFailed, PenstockError
from penstock.formats.rows import fraction_check, misfits, struct_array
from penstock.masking import get_logger
from penstock.model.columns import TYPES

log = get_logger(__name__)

MESSAGE_COLUMNS = [name for name in TYPES if name not in ("topic", "partition")]


@dataclass(frozen=True, slots=True)
class CustomDecoded:
    """What a deserializer made of a batch."""

    array: pa.StructArray
    rows: pa.Int64Array | None = None
    """For each row of the array, its row in the input; None: all rows of the input."""
    faults: list[tuple[int, str]] = field(default_factory=list)
    """Malformed rows of the input, with the reason, in order. In the array they are structs of nulls."""
    end: int | None = None
    """The row of the input that has ended the stream (F4). The array has neither that row nor later ones."""
    errors: dict[int, Exception] = field(default_factory=dict)
    """The errors raised, by rows of the input. A value that does not fit the schema is a fault without an error."""


class CustomFormat(ABC):
    """One instance of a user's class, for one thread."""

    def __init__(
        self,
        path: str,
        own: Any,
        type_: pa.StructType,
        columns: Sequence[str],
        options: dict[str, Any] | None = None,
    ) -> None:
        """`options`: what `open` of the class gets."""
        self.path = path
        self._options = options or {}
        self._close: weakref.finalize[..., Any] | None = None
        self.type = type_
        self.columns = tuple(columns)
        """Kafka's columns that it reads. A batch may have other columns too."""
        self._own = own
        self._is_end = getattr(own, "is_end_of_stream", None)

    @property
    def may_end(self) -> bool:
        """Whether a record can end the stream (F4)."""
        return self._is_end is not None

    def open(self) -> None:
        """Call the class's `open`, if it has one. Raises PenstockError if it fails."""
        opens, closes = getattr(self._own, "open", None), getattr(self._own, "close", None)
        if callable(opens):
            try:
                opens(dict(self._options))
            except Exception as error:
                raise PenstockError(
                    f"open(options) of {self.path} failed: {type(error).__name__}: {error}\n{_trace(error)}"
                ) from error
        if callable(closes):
            # Also without a call of `close`: a caller may abandon its iteration over a stream.
            self._close = weakref.finalize(self, _closed, self.path, closes)

    def close(self) -> None:
        """Call the class's `close`, once, if it was opened."""
        if self._close is not None:
            self._close()

    @abstractmethod
    def decode(self, batch: pa.RecordBatch) -> CustomDecoded:
        """Decode records of one partition, in the order of their offsets."""

    def failed(self, decoded: CustomDecoded, row: int, topic: str, partition: int, offset: int) -> DeserializerFailed:
        """The error for a malformed row in mode FAILFAST."""
        cause = decoded.errors.get(row)
        error = DeserializerFailed(topic, partition, offset, self.path, dict(decoded.faults)[row], _trace(cause))
        error.__cause__ = cause
        return error

    def _nulls(self, count: int) -> pa.StructArray:
        """Structs with null fields, for malformed records."""
        return struct_array([{}] * count, self.type, None)


class RecordWise(CustomFormat):
    """A class with `deserialize_record(record)`, which returns a dict, or None to skip the record."""

    def __init__(
        self,
        path: str,
        own: Any,
        type_: pa.StructType,
        columns: Sequence[str],
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(path, own, type_, columns, options)
        self._check = fraction_check(type_)

    def decode(self, batch: pa.RecordBatch) -> CustomDecoded:
        found: list[dict[str, Any]] = []
        kept: list[int] = []
        reasons: dict[int, str] = {}
        errors: dict[int, Exception] = {}
        end = None
        function, is_end = self._own.deserialize_record, self._is_end
        for at, record in enumerate(_messages(batch)):
            try:
                row = function(record)
                if is_end is not None and is_end(row):
                    end = at
                    break
            except Exception as error:
                errors[at] = error
                reasons[at] = _reason(error)
                row = {}
            if row is None:
                continue
            if not isinstance(row, dict):
                reasons[at] = f"deserialize_record returned {type(row).__name__}, not a dict or None"
                row = {}
            found.append(row)
            kept.append(at)
        array = self._array(found, kept, reasons)
        rows = None if len(kept) == batch.num_rows else pa.array(kept, pa.int64())
        return CustomDecoded(array, rows, sorted(reasons.items()), end, errors)

    def _array(self, rows: list[dict[str, Any]], kept: list[int], reasons: dict[int, str]) -> pa.StructArray:
        try:
            return struct_array(rows, self.type, self._check)
        except Exception:
            found = misfits(rows, self.type)
            if not found:
                raise
        for at, reason in found.items():
            reasons[kept[at]] = reason
            rows[at] = {}
        return struct_array(rows, self.type, None)


def _messages(batch: pa.RecordBatch) -> Any:
    """The records of a batch as objects with lazy attributes. A column that was not fetched is None."""
    if not batch.num_rows:
        return ()
    columns = []
    for name in MESSAGE_COLUMNS:
        if name in batch.schema.names:
            columns.append(batch.column(name))
        elif name == "timestampType":
            columns.append(pa.repeat(pa.scalar(-1, TYPES[name]), batch.num_rows))
        else:
            columns.append(pa.nulls(batch.num_rows, TYPES[name]))
    topic, partition = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
    end = batch.column("offset")[-1].as_py() + 1
    return Messages(Batch.from_arrow(pa.RecordBatch.from_arrays(columns, MESSAGE_COLUMNS)), topic, partition, end)


def _closed(path: str, close: Callable[[], object]) -> None:
    try:
        close()
    except Exception as error:  # all records are read: a failure here must not fail the task
        log.warning("close() of %s failed: %s: %s", path, type(error).__name__, error)


class WrongResult(Exception):
    """The class breaks its contract, whatever the records."""


class BatchWise(CustomFormat):
    """A class with `deserialize(batch)`, which returns a batch with the schema's columns.

    The result has one row for each record, or a column `offset` that names the records of its rows.
    """

    def decode(self, batch: pa.RecordBatch) -> CustomDecoded:
        pieces = _Pieces()
        ranges = [(0, batch.num_rows)] if batch.num_rows else []
        while ranges and pieces.end is None:
            start, stop = ranges.pop()
            part = batch.slice(start, stop - start)
            try:
                array, rows, end = self._decode(part)
            except WrongResult as error:
                raise self._wrong(part, str(error)) from error.__cause__
            except Exception as error:
                if stop - start == 1:
                    pieces.errors[start] = error
                    pieces.add(start, self._nulls(1), None)
                else:
                    middle = (start + stop) // 2
                    ranges += [(middle, stop), (start, middle)]
            else:
                pieces.add(start, array, rows)
                pieces.end = None if end is None else start + end
        return pieces.decoded(self.type, batch.num_rows)

    def _decode(self, part: pa.RecordBatch) -> tuple[pa.StructArray, pa.Int64Array | None, int | None]:
        result = self._own.deserialize(part.select(self.columns))
        if result is None:
            return self._nulls(0), pa.array([], pa.int64()), None
        if isinstance(result, pa.Table):
            result = result.combine_chunks()
            result = (result.to_batches() or [pa.RecordBatch.from_pylist([], result.schema)])[0]
        if not isinstance(result, pa.RecordBatch):
            raise WrongResult(f"deserialize returned {type(result).__name__}, not a pyarrow.RecordBatch")
        result.validate()
        rows = _rows_of(result, part, is_field="offset" in [each.name for each in self.type])
        array = self._cast(result)
        end = self._end(result)
        if end is None:
            return array, rows, None
        before = pa.array(range(end), pa.int64()) if rows is None else rows.slice(0, end)
        return array.slice(0, end), before, end if rows is None else rows[end].as_py()

    def _cast(self, result: pa.RecordBatch) -> pa.StructArray:
        columns = []
        for wanted in self.type:
            at = result.schema.get_field_index(wanted.name)
            if at < 0:
                near = difflib.get_close_matches(wanted.name, result.schema.names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(result.schema.names) or 'none'}"
                raise WrongResult(f"deserialize returned no column {wanted.name}, which schema() names: {hint}")
            column = result.column(at)
            if not column.type.equals(wanted.type):
                try:
                    column = column.cast(wanted.type)
                except pa.ArrowNotImplementedError as error:
                    raise WrongResult(
                        f"deserialize returned field {wanted.name} as {column.type}, and schema() says {wanted.type}"
                    ) from error
                except pa.ArrowInvalid as error:
                    raise ValueError(f"field {wanted.name}: {error}") from None
            columns.append(column)
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def _end(self, result: pa.RecordBatch) -> int | None:
        """The row of the result that ends the stream."""
        if self._is_end is None:
            return None
        ends = self._is_end(result)
        if ends is None:
            return None
        if isinstance(ends, pa.ChunkedArray):
            ends = ends.combine_chunks()
        if not isinstance(ends, pa.BooleanArray) or len(ends) != result.num_rows:
            shown = f"{ends.type} of {len(ends)} rows" if isinstance(ends, pa.Array) else type(ends).__name__
            wanted = f"a boolean pyarrow.Array of {result.num_rows} rows, as many as its batch has, or None"
            raise WrongResult(f"is_end_of_stream returned {shown}, not {wanted}")
        at = pc.index(ends, True).as_py()
        return None if at < 0 else int(at)

    def _wrong(self, part: pa.RecordBatch, reason: str) -> DeserializerFailed:
        names = part.schema.names
        topic, partition, offset = (part.column(name)[0].as_py() if name in names else None for name in PLACE)
        return DeserializerFailed(topic, partition, offset, self.path, f"{reason} (a batch of {part.num_rows} records)")


PLACE = ("topic", "partition", "offset")


def _rows_of(result: pa.RecordBatch, part: pa.RecordBatch, *, is_field: bool) -> pa.Int64Array | None:
    """The rows of the input that a result has, by their offsets; None: all."""
    at = result.schema.get_field_index("offset")
    if result.num_rows == part.num_rows and (at < 0 or is_field):
        return None
    counts = f"deserialize returned {result.num_rows} rows for {part.num_rows} records"
    if at < 0:
        hint = "to skip records, name offset in columns and return it as a column beside the others"
        raise WrongResult(f"{counts}: {hint}")
    offsets = result.column(at)
    if offsets.type != pa.int64() or "offset" not in part.schema.names:
        raise WrongResult(f"{counts}, and its column offset is {offsets.type}, not int64")
    rows = pc.index_in(offsets, value_set=part.column("offset")).cast(pa.int64())
    if rows.null_count:
        unknown = offsets.filter(pc.is_null(rows))[0]
        raise WrongResult(f"{counts}, one of them with offset {unknown}, which no record has")
    if len(rows) > 1 and not pc.all(pc.less(rows.slice(0, len(rows) - 1), rows.slice(1))).as_py():
        raise WrongResult(f"{counts}, and its column offset is not in ascending order, each once")
    return None if len(rows) == part.num_rows else rows


class _Pieces:
    """The results of consecutive ranges of rows."""

    def __init__(self) -> None:
        self._results: list[tuple[int, pa.StructArray, pa.Int64Array | None]] = []
        self.errors: dict[int, Exception] = {}
        self.end: int | None = None

    def add(self, start: int, array: pa.StructArray, rows: pa.Int64Array | None) -> None:
        self._results.append((start, array, rows))

    def decoded(self, type_: pa.StructType, count: int) -> CustomDecoded:
        arrays = [array for _, array, _ in self._results]
        array = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays) if arrays else pa.array([], type_)
        faults = [(row, _reason(error)) for row, error in sorted(self.errors.items())]
        return CustomDecoded(array, None if len(array) == count else self._rows(), faults, self.end, self.errors)

    def _rows(self) -> pa.Int64Array:
        return pa.concat_arrays(
            [
                pa.array(range(start, start + len(array)), pa.int64()) if rows is None else pc.add(rows, start)
                for start, array, rows in self._results
            ]
        )


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _trace(error: BaseException | None) -> str:
    return "" if error is None else "".join(traceback.format_exception(error))
