"""The rows and dead letters that one thread holds until they are written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

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

    def write(self, write: Callable[[Rows], None], extraction: Extraction, on_refused: OnRefused) -> int:
        """Write the rows to the sink. Returns their number.

        If the sink refuses rows, the pieces are bisected down to one message, none of whose rows are written. Any other
        error of `write` is raised, and the rows that are not written yet are kept for the retry.
        """
        written = 0
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
                self._keep([piece for part in [pieces, *reversed(todo)] for piece in part])
                raise
            else:
                written += sum(piece.count for piece in pieces)
        self._keep([])
        return written


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
        # Extract again: only the extractor knows which rows came from which record.
        extracted = extraction.extract(piece.tp, records)
        for at, error in extracted.failures:  # the extractor fails on the second call
            on_refused(Piece(piece.tp, records.slice(at, 1), []), RowsRefused(f"{type(error).__name__}: {error}"))
        if extracted.rows is not None:
            found.append([Piece(piece.tp, records, extracted.rows)])
    return found
