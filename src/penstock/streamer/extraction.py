"""How records become rows: unchanged, by a user's function of one message, or by a function of an Arrow batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from penstock._kernel import COLUMNS, Batch, Messages
from penstock.errors import OptionError
from penstock.model.topic_partition import TopicPartition

SLICE = 8192
"""Records per call of `extract`. Between two slices a thread checks flush limits and rebalances."""

FOREVER = float("inf")

MESSAGE_COLUMNS = [name for name in COLUMNS if name not in ("topic", "partition")]


class Failure(NamedTuple):
    at: int
    """The position of the record in its batch."""
    error: Exception


@dataclass(slots=True)
class Extracted:
    rows: pa.RecordBatch | list[Any] | None
    """None: no rows."""
    skipped: int = 0
    """Records for which the extractor returned no row."""
    failures: list[Failure] = field(default_factory=list)
    through: int | None = None
    """The number of records done, if the time ended before the last one. None: all."""


class Extraction(Protocol):
    """The step from records to rows. Each thread has its own.

    `extract` may be called again for the same records: when a sink refuses rows, the Streamer bisects the records to
    find the message that they came from.
    """

    @property
    def slice(self) -> int | None:
        """The largest number of records per call; None: no limit."""

    def extract(self, tp: TopicPartition, records: pa.RecordBatch, seconds: float = FOREVER) -> Extracted:
        """Extract at least the first record. After `seconds` the rest may be left for another call."""


@dataclass(frozen=True, slots=True)
class ChosenColumns:
    """The columns that the user has chosen, among those that are read."""

    names: Sequence[str] | None = None
    """None: all, less the next ones."""
    without: Sequence[str] = ()
    """Columns that only say where a record is, or that are not chosen. Typed columns are not known by name before they
    are read."""

    def of(self, records: pa.RecordBatch) -> pa.RecordBatch:
        if self.names is not None:
            return records.select(list(self.names))
        if not self.without:
            return records
        return records.select([name for name in records.schema.names if name not in self.without])


class NoExtraction:
    """Without an extractor the chosen columns go to the sink unchanged."""

    slice = None

    def __init__(self, columns: ChosenColumns) -> None:
        self._columns = columns

    def extract(self, tp: TopicPartition, records: pa.RecordBatch, seconds: float = FOREVER) -> Extracted:
        return Extracted(self._columns.of(records))


class MessageExtraction:
    """Calls a function with each message. It returns a row, or with `many` an iterable of rows; None is no row.

    A row is a dict or a tuple.

    With a schema rows become Arrow, and a row that does not fit the schema is a failure of its message.
    """

    slice = SLICE

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        many: bool,
        schema: pa.Schema | None,
        key_decoder: Callable[[bytes], Any] | None = None,
        value_decoder: Callable[[bytes], Any] | None = None,
    ) -> None:
        self._function = function
        self._many = many
        self._schema = schema
        self._decoders = (key_decoder, value_decoder)

    def extract(self, tp: TopicPartition, records: pa.RecordBatch, seconds: float = FOREVER) -> Extracted:
        if not records.num_rows:
            return Extracted(None)
        extracted = Extracted(None)
        made: list[tuple[int, list[Any]]] = []
        function, many = self._function, self._many
        until = time.monotonic() + seconds
        for at, message in enumerate(self._messages(tp, records)):
            if at and time.monotonic() >= until:
                extracted.through = at
                break
            try:
                result = function(message)
                rows = [] if result is None else [row for row in result if row is not None] if many else [result]
            except Exception as error:
                extracted.failures.append(Failure(at, error))
                continue
            if rows:
                made.append((at, rows))
            else:
                extracted.skipped += 1
        extracted.rows = self._arrow(made, extracted.failures)
        extracted.failures.sort(key=lambda failure: failure.at)
        return extracted

    def _messages(self, tp: TopicPartition, records: pa.RecordBatch) -> Iterable[Any]:
        end = records.column("offset")[-1].as_py() + 1
        return Messages(Batch.from_arrow(records.select(MESSAGE_COLUMNS)), *tp, end, *self._decoders)

    def _arrow(self, made: list[tuple[int, list[Any]]], failures: list[Failure]) -> pa.RecordBatch | list[Any] | None:
        if not made:
            return None
        every = [row for _, rows in made for row in rows]
        if self._schema is None:
            return every
        try:
            return to_arrow(every, self._schema)
        except Exception:
            # Arrow does not say which row does not fit: convert the rows of each message alone to find it.
            fitting: list[Any] = []
            for at, rows in made:
                try:
                    to_arrow(rows, self._schema)
                except Exception as error:
                    failures.append(Failure(at, error))
                else:
                    fitting += rows
            return to_arrow(fitting, self._schema) if fitting else None


class BatchExtraction:
    """Calls a function with an Arrow batch. It returns an Arrow batch of any length, or None for no rows.

    If it raises, it is called again with each half, down to the messages on which it fails.
    """

    slice = SLICE

    def __init__(
        self, function: Callable[[pa.RecordBatch], Any], *, columns: ChosenColumns, schema: pa.Schema | None
    ) -> None:
        self._function = function
        self._columns = columns
        self._schema = schema
        self._is_given = schema is not None

    def extract(self, tp: TopicPartition, records: pa.RecordBatch, seconds: float = FOREVER) -> Extracted:
        extracted = Extracted(None)
        made: list[pa.RecordBatch] = []
        input_ = self._columns.of(records)
        ranges = [(0, records.num_rows)] if records.num_rows else []
        while ranges:
            at, count = ranges.pop()
            try:
                rows = self._checked(self._function(input_.slice(at, count)))
            except OptionError:
                raise
            except Exception as error:
                if count == 1:
                    extracted.failures.append(Failure(at, error))
                else:
                    half = count // 2
                    ranges += [(at + half, count - half), (at, half)]
                continue
            if rows is None:
                extracted.skipped += count
            elif rows.num_rows:
                made.append(rows)
        if made:
            extracted.rows = made[0] if len(made) == 1 else pa.concat_batches(made)
        return extracted

    def _checked(self, rows: Any) -> pa.RecordBatch | None:
        if rows is None:
            return None
        if isinstance(rows, pa.Table):
            rows = pa.concat_batches(rows.to_batches()) if rows.num_rows else None
            return None if rows is None else self._checked(rows)
        if not isinstance(rows, pa.RecordBatch):
            reason = f"returned {type(rows).__name__}, not a pyarrow.RecordBatch"
            raise OptionError("extractor", None, reason, 'If it takes messages, leave out extracts="batch"')
        if self._schema is None:
            self._schema = rows.schema
        if rows.schema.equals(self._schema):
            return rows
        if self._is_given:
            return rows.select(self._schema.names).cast(self._schema)
        raise OptionError(
            "extractor",
            None,
            f"returned batches of two schemas:\n{self._schema.to_string()}\nand\n{rows.schema.to_string()}",
            "Set the schema of the rows: Streamer(..., schema=...)",
        )


def to_arrow(rows: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Convert dicts and tuples to Arrow. Keys of a dict that the schema does not name are dropped."""
    names = schema.names
    values = [tuple(map(row.get, names)) if isinstance(row, dict) else row for row in rows]
    for row in values:
        if not isinstance(row, tuple | list) or len(row) != len(names):
            shown = f"{len(row)} values" if isinstance(row, tuple | list) else f"of type {type(row).__name__}"
            raise TypeError(f"a row must be a dict or a tuple of {len(names)} values, and this is {shown}")
    columns = zip(*values, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
