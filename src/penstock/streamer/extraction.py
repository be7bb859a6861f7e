"""How records become rows: as they are, by a user's function one by one, or by one that takes whole Arrow batches."""

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
"""Records that go through an extractor at a time. Between two slices a thread looks at the clock and at rebalances."""

FOREVER = float("inf")

MESSAGE_COLUMNS = [name for name in COLUMNS if name not in ("topic", "partition")]


class Failure(NamedTuple):
    at: int
    """Which of the records."""
    error: Exception


@dataclass(slots=True)
class Extracted:
    rows: pa.RecordBatch | list[Any] | None
    """None: there are none."""
    skipped: int = 0
    """Records that the extractor made nothing of, by its own will."""
    failures: list[Failure] = field(default_factory=list)
    through: int | None = None
    """How many of the records it has gone through, if the time was over before the last."""


class Extraction(Protocol):
    """May be called again for the same records: when a sink refuses rows, what they came from is looked for by halves.

    Each thread has its own.
    """

    @property
    def slice(self) -> int | None:
        """How many records at a time; None: as many as there are."""

    def extract(self, tp: TopicPartition, records: pa.RecordBatch, seconds: float = FOREVER) -> Extracted:
        """At least the first record; after so long it may leave the rest for another call."""


class AsTheyAre:
    """No extractor: the columns asked for go straight to the sink."""

    slice = None

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)

    def extract(self, tp: TopicPartition, records: pa.RecordBatch, seconds: float = FOREVER) -> Extracted:
        return Extracted(records.select(self._columns))


class OneByOne:
    """A function from a message to a row, or (`many`) to several; None is no row. A row is a dict or a tuple.

    With a schema rows become Arrow, and a row that does not fit it is a failure of its message.
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
            # One of them does not fit. Which one is found by trying each: Arrow does not say.
            fitting: list[Any] = []
            for at, rows in made:
                try:
                    to_arrow(rows, self._schema)
                except Exception as error:
                    failures.append(Failure(at, error))
                else:
                    fitting += rows
            return to_arrow(fitting, self._schema) if fitting else None


class BatchWise:
    """A function from an Arrow batch to an Arrow batch (of any length), or None for no rows.

    Where it raises, it is called again with halves, until it is known which messages it fails on.
    """

    slice = SLICE

    def __init__(
        self, function: Callable[[pa.RecordBatch], Any], *, columns: Sequence[str], schema: pa.Schema | None
    ) -> None:
        self._function = function
        self._columns = list(columns)
        self._schema = schema
        self._is_given = schema is not None

    def extract(self, tp: TopicPartition, records: pa.RecordBatch, seconds: float = FOREVER) -> Extracted:
        extracted = Extracted(None)
        made: list[pa.RecordBatch] = []
        input_ = records.select(self._columns)
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
            raise OptionError("extractor", None, reason, 'Or does it take messages? Then leave extracts="batch" out')
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
            "Give the one that is meant: Streamer(..., schema=...)",
        )


def to_arrow(rows: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Dicts and tuples as Arrow. Of a dict what the schema does not name is left out."""
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
