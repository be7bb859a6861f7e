"""Builds typed columns from the batches of one partition, in the thread that reads them.

Steps for a batch: decode key and value -> drop the records that a user's class skipped -> handle malformed records by
`mode` -> observe event times -> drop the rows that do not meet `where` -> build the columns. A usual batch needs only
the first and the last step. If the columns of a batch would take too much memory, the kernel decodes it in several
parts.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from penstock.errors import MalformedRecord
from penstock.eventtime.field import EventTimeField
from penstock.formats.decoding import ColumnDecoder, CustomDecoder, open_decoder
from penstock.formats.layout import CORRUPT, ERROR_COLUMNS, prune
from penstock.formats.plan import TypedPlan
from penstock.formats.spec import ColumnSpec
from penstock.masking import get_logger
from penstock.model.watermark_columns import UNKNOWN, WATERMARK_COLUMNS, WatermarkColumns, Watermarks

if TYPE_CHECKING:
    from penstock.eventtime.span import EventTimeSpan
    from penstock.predicate.row_filter import RowFilter

log = get_logger(__name__)

Decoders: TypeAlias = Mapping[str, ColumnDecoder]
"""By column of Kafka."""

FEW = 4
"""While at most one in so many rows meets `where`, its fields are decoded first, the others only of rows that pass.

Measured with JSON of five fields and of seven. If 1 row in 1,000 passes, this takes 0.8 of the time of decoding all at
once; up to 1 in 3 about the same time; and if 1 in 2 passes, a seventh more."""

_warned: set[tuple[str, str]] = set()
"""The topics and columns of which this process has warned."""

PASSED = "#passed"
"""The column of a batch whose rows are marked instead of dropped: whether a row meets `where`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A key or value that could not be decoded."""

    row: int
    column: str
    """`key` or `value`."""
    reason: str
    counted: bool = False
    """Whether its record is in the count of malformed ones already."""


class Letters(Protocol):
    """Takes malformed records, in mode DEADLETTER."""

    def add(self, records: pa.RecordBatch, faults: Sequence[tuple[int, str, str]]) -> None:
        """Take malformed rows, each with its column and the reason."""


class TypedPiece(NamedTuple):
    """Typed rows of a batch."""

    rows: pa.RecordBatch
    next_offset: int | None
    """Offset of the first record after this piece. None: it is the last one, or offsets were not fetched."""


class TypedColumns:
    """Builds the columns of a plan from the fetched ones. For one thread."""

    def __init__(
        self,
        plan: TypedPlan,
        topic: str,
        partition: int,
        letters: Letters | None = None,
        *,
        span: EventTimeSpan | None = None,
        watermarks: Watermarks = UNKNOWN,
        marks_rows: bool = False,
    ) -> None:
        """`span` observes the event times of all rows, also of those that do not meet `where`. `marks_rows`: such rows
        are not dropped, but marked in a last column PASSED."""
        self._plan = plan
        self._marks_rows = marks_rows
        self.filter: RowFilter | None = None
        """Applies `where` and counts rows; None without one."""
        if plan.where is not None:
            from penstock.predicate.row_filter import RowFilter  # loads pyarrow.compute: other tasks need it not

            self.filter = RowFilter(plan.where, topic, partition)
        self._span = span
        self._watermarks = WatermarkColumns(watermarks)
        self._schema = plan.layout.schema
        self._place = (topic, partition)
        self._letters = letters
        self._decoders = self._open(plan.specs)
        self._steps = None if marks_rows or plan.steps is None else [self._open(specs) for specs in plan.steps]
        """The decoders of the fields that the predicate needs, and those of the rows that pass."""
        self.malformed = 0
        """Number of malformed records."""
        self.dropped = 0
        """Number of malformed records that were dropped."""
        self.skipped = 0
        """Number of records that a user's own class skipped (F3)."""
        self.ended_at: int | None = None
        """Offset of the record that has ended the stream (F4)."""

    def close(self) -> None:
        """Close the user's own classes. Called once no more records are decoded."""
        for decoder in self._decoders.values():
            if isinstance(decoder, CustomDecoder):
                decoder.close()

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """Records so far: malformed, dropped, skipped; those that `where` was applied to, and those that met it."""
        read, passed = (0, 0) if self.filter is None else (self.filter.read, self.filter.passed)
        return self.malformed, self.dropped, self.skipped, read, passed

    def batches(self, raw: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for records in raw:
            for piece in self.pieces(records):
                if piece.rows.num_rows:
                    yield piece.rows
            if self.ended_at is not None:
                return

    def pieces(self, records: pa.RecordBatch) -> Iterator[TypedPiece]:
        """The typed rows of a batch: usually one piece, maybe without rows. Pieces are built lazily."""
        self.ended_at = None
        if self._steps is not None and self.filter is not None and self.filter.passed * FEW <= self.filter.read:
            yield from self._pieces_in_steps(records, *self._steps)
            return
        for part in self._decoded(_Part(records), list(self._decoders.items())):
            passed = self._passed(part)
            if passed is not None and not self._marks_rows:
                part.filter(passed, self._plan.layout.sources, part.typed)
            rows = self._laid_out(part)
            if self.filter is not None and self._marks_rows:
                made = pa.repeat(pa.scalar(True), rows.num_rows) if passed is None else passed
                rows = rows.append_column(PASSED, made)
            yield TypedPiece(rows, part.next_offset)

    def _pieces_in_steps(self, records: pa.RecordBatch, first: Decoders, later: Decoders) -> Iterator[TypedPiece]:
        """Decode the fields of the predicate, and the others only of the rows that pass."""
        for part in self._decoded(_Part(records), list(first.items())):
            passed = self._passed(part)
            if passed is not None:
                part.filter(passed, self._plan.layout.sources, part.typed.keys() - later.keys())
            if not part.records.num_rows:
                empty = [pa.array([], field.type) for field in self._schema]
                yield TypedPiece(pa.RecordBatch.from_arrays(empty, schema=self._schema), part.next_offset)
                continue
            for rest in self._decoded(part, list(later.items())):
                counted = {fault.row for fault in rest.faults if fault.counted}
                self.malformed += len({fault.row for fault in rest.faults} - counted)
                yield TypedPiece(self._laid_out(rest), rest.next_offset)

    def _passed(self, part: _Part) -> pa.BooleanArray | None:
        """Which rows of a decoded part meet `where`; None if all do. Before that, malformed rows are handled, and event
        times of all rows are observed."""
        if part.faults:
            self._handle_malformed(part)
        if self._span is not None and (where := self._plan.event_time) is not None:
            if isinstance(where, EventTimeField):
                self._span.observe(where.times(part.column))
            else:
                self._span.add(*where.times(part.column))
        return None if self.filter is None else self.filter.mask(part.records.num_rows, part.column)

    def _open(self, specs: Mapping[str, ColumnSpec]) -> Decoders:
        drops_malformed = self._plan.mode in ("DROPMALFORMED", "DEADLETTER")
        registry = self._plan.registry
        return {
            column: open_decoder(column, spec, registry, drops_malformed=drops_malformed)
            for column, spec in sorted(specs.items())
        }

    def _decoded(self, part: _Part, decoders: Sequence[tuple[str, ColumnDecoder]]) -> Iterator[_Part]:
        """Run the decoders over a part. Yields smaller parts if a decoder did not decode all rows at once."""
        if not decoders:
            yield part
            return
        (column, decoder), *others = decoders
        rest: _Part | None = part
        while rest is not None:
            part, rest = self._decode(rest, column, decoder)
            yield from self._decoded(part, others)

    def _decode(self, part: _Part, column: str, decoder: ColumnDecoder) -> tuple[_Part, _Part | None]:
        """Decode one column. Returns the decoded part, and the rest of the records if there is one."""
        decoded = decoder.decode(part.records)
        if decoded.faults and decoded.failure is not None and self._plan.mode == "FAILFAST":
            row = decoded.faults[0][0]
            raise decoded.failure(row, *self._place, part.records.column("offset")[row].as_py())
        if decoded.end is not None:
            self.ended_at = part.records.column("offset")[decoded.end].as_py()
        rest = None
        if decoded.rows is not None:
            ended = 0 if decoded.end is None else part.records.num_rows - decoded.end
            self.skipped += part.records.num_rows - len(decoded.rows) - ended
            part.keep(decoded.rows)
        elif len(decoded.array) < part.records.num_rows:
            rest = part.cut(len(decoded.array))
        part.add(column, decoded.array, decoded.faults, decoded.rows)
        return part, rest

    def _handle_malformed(self, part: _Part) -> None:
        faults = part.sorted_faults()
        self.malformed += len({fault.row for fault in faults})
        self._warn_if_all(faults, part.records)
        match self._plan.mode:
            case "PERMISSIVE":
                part.faults = [replace(fault, counted=True) for fault in faults]
                return
            case "FAILFAST":
                raise self._malformed(part.records, faults[0])
            case "DEADLETTER":
                assert self._letters is not None
                self._letters.add(part.records, [(fault.row, fault.column, fault.reason) for fault in faults])
            case "DROPMALFORMED":
                pass
        self.dropped += len({fault.row for fault in faults})
        part.drop(fault.row for fault in faults)

    def _warn_if_all(self, faults: Sequence[Fault], records: pa.RecordBatch) -> None:
        """Warn once if a whole batch is malformed: then the format or its schema is wrong, not a record. The result
        would be columns of nulls, or no rows."""
        if self._plan.mode not in ("PERMISSIVE", "DROPMALFORMED"):
            return  # the others report malformed records themselves
        topic, partition = self._place
        for column in self._decoders:
            mine = [fault for fault in faults if fault.column == column]
            nulls = records.column(column).null_count if column in records.schema.names else 0
            rows = records.num_rows - nulls
            if mine and len({fault.row for fault in mine}) == rows and (topic, column) not in _warned:
                _warned.add((topic, column))
                log.warning(
                    "every %s in a batch of %d records of %s-%d is malformed: %s. Check %sFormat and its schema, or "
                    "set mode to FAILFAST",
                    *(column, rows, topic, partition, mine[0].reason, column),
                )

    def _malformed(self, records: pa.RecordBatch, fault: Fault) -> MalformedRecord:
        offset = records.column("offset")[fault.row].as_py()
        data = records.column(fault.column)[fault.row].as_py() if fault.column in records.schema.names else None
        return MalformedRecord(*self._place, offset, fault.column, fault.reason, data)

    def _laid_out(self, part: _Part) -> pa.RecordBatch:
        flat: dict[str, list[pa.Array]] = {}
        arrays = []
        for column in self._plan.layout.columns:
            if column.source in ERROR_COLUMNS:
                arrays.append(part.errors(column.source))
                continue
            if column.source in WATERMARK_COLUMNS:
                arrays.append(self._watermarks.column(column.source, part.records.num_rows))
                continue
            made = part.column(column.source)
            if column.field is not None:
                # Not `field`, which ignores the nulls of the struct itself.
                children = flat.get(column.source) or flat.setdefault(column.source, made.flatten())
                made = children[made.type.get_field_index(column.field)]
            arrays.append(prune(made, column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Part:
    """The remaining records of a batch, and their typed columns."""

    def __init__(self, records: pa.RecordBatch) -> None:
        self.records = records
        self.typed: dict[str, pa.Array] = {}
        self.faults: list[Fault] = []
        self.next_offset: int | None = None
        """See TypedPiece."""

    def cut(self, rows: int) -> _Part:
        """Keep the first rows, and return a part with the others."""
        rest = _Part(self.records.slice(rows))
        rest.typed = {column: array.slice(rows) for column, array in self.typed.items()}
        rest.faults = [replace(each, row=each.row - rows) for each in self.faults if each.row >= rows]
        rest.next_offset = self.next_offset
        if "offset" in self.records.schema.names:
            self.next_offset = self.records.column("offset")[rows].as_py()
        self.records = self.records.slice(0, rows)
        self.typed = {column: array.slice(0, rows) for column, array in self.typed.items()}
        self.faults = [each for each in self.faults if each.row < rows]
        return rest

    def column(self, source: str) -> pa.Array:
        """A column of Kafka's, decoded if the plan says so."""
        made = self.typed.get(source)
        return self.records.column(source) if made is None else made

    def add(self, column: str, array: pa.Array, faults: Sequence[tuple[int, str]], rows: pa.Array | None) -> None:
        """Add a typed column. Its faults name rows of the decoder's input, of which `rows` were kept."""
        self.typed[column] = array
        if faults:
            now = None if rows is None else {row: at for at, row in enumerate(rows.to_pylist())}
            self.faults += [
                Fault(row if now is None else now[row], column, reason)
                for row, reason in faults
                if now is None or row in now
            ]

    def keep(self, rows: pa.Array) -> None:
        """Keep only these rows."""
        now = {row: at for at, row in enumerate(rows.to_pylist())} if self.faults else {}
        self.records = self.records.take(rows)
        self.typed = {column: array.take(rows) for column, array in self.typed.items()}
        self.faults = [replace(each, row=now[each.row]) for each in self.faults if each.row in now]

    def drop(self, rows: Iterable[int]) -> None:
        """Drop these rows and their faults."""
        kept = bytearray(b"\1") * self.records.num_rows
        for row in rows:
            kept[row] = 0
        mask = pa.Array.from_buffers(pa.uint8(), len(kept), [None, pa.py_buffer(kept)]).cast(pa.bool_())
        self.records = self.records.filter(mask)
        self.typed = {column: array.filter(mask) for column, array in self.typed.items()}
        self.faults = []

    def filter(self, passed: pa.BooleanArray, sources: Collection[str], done: Collection[str]) -> None:
        """Keep the rows that passed, and of Kafka's columns only those that the result comes from and that are not done
        with."""
        if self.faults:  # the columns of errors show bytes of key and value
            import pyarrow.compute as pc  # 55 ms of CPU time, which planning and most tasks save

            self.keep(pc.indices_nonzero(passed))
            return
        names = self.records.schema.names
        needed = [name for name in names if name in sources and name not in done]
        self.records = self.records.select(needed or names[:1]).filter(passed)
        self.typed = {column: array.filter(passed) for column, array in self.typed.items() if column in sources}

    def sorted_faults(self) -> list[Fault]:
        return sorted(self.faults, key=lambda fault: fault.row)

    def errors(self, source: str) -> pa.Array:
        """The column `_corrupt_record` or `_error`."""
        kind, rows = ERROR_COLUMNS[source], self.records.num_rows
        if not self.faults:
            return pa.nulls(rows, kind)
        cells: dict[int, Any] = {}
        for fault in self.faults:
            if source == CORRUPT:
                # Faults of the value come after those of the key: if both are malformed, the value is shown.
                cells[fault.row] = self.records.column(fault.column)[fault.row].as_py()
            else:
                before = f"{cells[fault.row]}; " if fault.row in cells else ""
                cells[fault.row] = f"{before}{fault.column}: {fault.reason}"
        # Rows are indices into the few distinct cells; index 0 is null. This avoids a loop over all rows.
        places = array("i", bytes(4 * rows))
        for place, row in enumerate(cells, 1):
            places[row] = place
        pointers = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(places)])
        return pa.array([None, *cells.values()], kind).take(pointers)
