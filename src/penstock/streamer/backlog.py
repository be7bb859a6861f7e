"""The rows and dead letters that one thread holds until they are written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RowsRefused
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.streamer.dead_letters import DeadLetter
from penstock.streamer.extraction import Extraction
from penstock.streamer.sinks.sink import Limits, Rows


@dataclass(slots=True)
class Piece:
    """Records of one partition, and the rows extracted from them."""

    tp: TopicPartition
    records: pa.RecordBatch
    rows: pa.RecordBatch | list[Any]
    offset_column: str = "offset"

    @property
    def first(self) -> int:
        """The offset of the first record."""
        offset: int = self.records.column(self.offset_column)[0].as_py()
        return offset

    @property
    def count(self) -> int:
        return self.rows.num_rows if isinstance(self.rows, pa.RecordBatch) else len(self.rows)

    @property
    def size(self) -> int:
        size: int = self.records.nbytes
        # Rows that are columns of the records share their memory.
        if isinstance(self.rows, pa.RecordBatch) and not set(self.rows.schema) <= set(self.records.schema):
            size += self.rows.nbytes
        return size


LETTER_BYTES = 600
"""Measured memory of a letter beside its key, value and headers: its Python objects."""

OnRefused: TypeAlias = Callable[[Piece, RowsRefused], None]
"""Called with one message whose rows the sink refuses."""


class Backlog:
    """Pieces in their order of arrival, dead letters, and the position of each partition. For one thread."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.positions: Offsets = {}
        """The offset to commit for each partition once everything here is written."""
        self._pieces: list[Piece] = []
        self._rows = 0
        self._size = 0
        self._letters_size = 0
        self._since: float | None = None

    def __bool__(self) -> bool:
        return bool(self._pieces or self.letters)

    @property
    def records(self) -> int:
        return sum(piece.records.num_rows for piece in self._pieces)

    def add(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self._rows += piece.count
        self._size += piece.size

    def add_letters(self, letters: Iterable[DeadLetter]) -> None:
        for letter in letters:
            self.letters.append(letter)
            self._letters_size += letter.size + LETTER_BYTES

    def clear_letters(self) -> None:
        self.letters, self._letters_size = [], 0

    def reached(self, tp: TopicPartition, offset: int, now: float) -> None:
        """Every record of a partition below this offset is held here, or needs no writing."""
        # A lower offset too: the topic may have been recreated, or its log truncated.
        if offset != self.positions.get(tp):
            self.positions[tp] = offset
            if self._since is None:
                self._since = now

    @property
    def since(self) -> float | None:
        """When the oldest of what is held arrived (monotonic); None if nothing is held. Any thread."""
        return self._since

    def is_due(self, limits: Limits, now: float) -> bool:
        if self._since is None:
            return False
        size = self._size + self._letters_size
        return self._rows >= limits.rows or size >= limits.bytes or now - self._since >= limits.seconds

    def first_offsets(self) -> Offsets:
        """The first held offset of each partition with held records."""
        first: Offsets = {}
        for piece in self._pieces:
            first.setdefault(piece.tp, piece.first)
        return first

    def drop_below(self, floors: Offsets, extraction: Extraction, on_refused: OnRefused) -> int:
        """Drop the records below these offsets, and positions below them. Returns the number of records."""
        dropped, kept = 0, []
        for piece in self._pieces:
            floor = floors.get(piece.tp)
            if floor is None or piece.first >= floor:
                kept.append(piece)
                continue
            rest = from_offset(piece.records, piece.offset_column, floor)
            dropped += piece.records.num_rows - rest.num_rows
            if rest.num_rows:
                part = extracted_again(piece, rest, extraction, on_refused)
                kept += [] if part is None else [part]
        self._keep(kept)
        for tp, floor in floors.items():
            if self.positions.get(tp, floor) < floor:
                del self.positions[tp]
        return dropped

    def drop(self, partitions: Collection[TopicPartition]) -> int:
        """Drop what is held of these partitions. Returns the number of dropped records."""
        dropped = [piece for piece in self._pieces if piece.tp in partitions]
        self._keep([piece for piece in self._pieces if piece.tp not in partitions])
        kept = [x for x in self.letters if TopicPartition(x.topic, x.partition) not in partitions]
        self.letters, self._letters_size = [], 0
        self.add_letters(kept)
        for tp in partitions:
            self.positions.pop(tp, None)
        return sum(piece.records.num_rows for piece in dropped)

    def clear(self) -> Offsets:
        """Empty the backlog after everything is written. Returns the offsets to commit."""
        positions, self.positions = self.positions, {}
        self._keep([])
        self.letters, self._letters_size = [], 0
        self._since = None
        return positions

    def _keep(self, pieces: list[Piece]) -> None:
        self._pieces = pieces
        self._rows = sum(piece.count for piece in pieces)
        self._size = sum(piece.size for piece in pieces)

    def write(
        self, write: Callable[[Rows], None], extraction: Extraction, on_refused: OnRefused, *, keeps: bool = False
    ) -> int:
        """Write the rows to the sink. Returns their number. With `keeps`, rows that are not refused stay here.

        If the sink refuses rows, the pieces are bisected down to one message, none of whose rows are written. Any other
        error of `write` is raised, and the rows that are not written yet are kept for the retry.
        """
        written = 0
        kept: list[Piece] = []
        todo = [self._pieces] if self._pieces else []
        while todo:
            pieces = todo.pop()
            try:
                write(joined(pieces))
            except RowsRefused as error:
                if len(pieces) == 1 and pieces[0].records.num_rows == 1:
                    on_refused(pieces[0], error)
                else:
                    todo += reversed(halves(pieces, extraction, on_refused))
            except BaseException:
                self._keep([*kept, *(piece for part in [pieces, *reversed(todo)] for piece in part)])
                raise
            else:
                written += sum(piece.count for piece in pieces)
                if keeps:
                    kept += pieces
        self._keep(kept)
        return written

    def rows(self) -> Rows | None:
        """Everything that is held, as one table or list."""
        return joined(self._pieces) if self._pieces else None


def from_offset(records: pa.RecordBatch, offset_column: str, floor: int) -> pa.RecordBatch:
    """The records at or past an offset. Offsets of a partition rise."""
    below: int = pc.sum(pc.less(records.column(offset_column), floor)).as_py() or 0
    return records.slice(below)


def joined(pieces: list[Piece]) -> Rows:
    first = pieces[0].rows
    if isinstance(first, pa.RecordBatch):
        return pa.Table.from_batches([piece.rows for piece in pieces])
    return [row for piece in pieces for row in piece.rows]


def halves(pieces: list[Piece], extraction: Extraction, on_refused: OnRefused) -> list[list[Piece]]:
    if len(pieces) > 1:
        middle = len(pieces) // 2
        return [pieces[:middle], pieces[middle:]]
    (piece,) = pieces
    middle = piece.records.num_rows // 2
    found = []
    for records in (piece.records.slice(0, middle), piece.records.slice(middle)):
        part = extracted_again(piece, records, extraction, on_refused)
        if part is not None:
            found.append([part])
    return found


def extracted_again(
    piece: Piece, records: pa.RecordBatch, extraction: Extraction, on_refused: OnRefused
) -> Piece | None:
    """A part of a piece: only the extractor knows which rows came from which record."""
    extracted = extraction.extract(piece.tp, records)
    for at, error in extracted.failures:  # the extractor fails on the second call
        failed = Piece(piece.tp, records.slice(at, 1), [], piece.offset_column)
        on_refused(failed, RowsRefused(f"{type(error).__name__}: {error}"))
    return None if extracted.rows is None else Piece(piece.tp, records, extracted.rows, piece.offset_column)
