"""Opens the files of `penstock write`, each as a source of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from penstock.cli.write.input_file import InputFile
from penstock.cli.write.json_lines import JsonLines
from penstock.cli.write.layout import InputSettings
from penstock.cli.write.tables import TableRows
from penstock.cli.write.typed_lines import TypedLines


class Source(Protocol):
    """The records of one file: batches with Kafka's columns."""

    @property
    def needs_format(self) -> bool:
        """Whether values must be encoded: they are neither bytes nor text."""

    def batches(self) -> Iterator[pa.RecordBatch]: ...

    def share(self) -> float | None:
        """How much of the file was read, from 0 to 1; None if that is unknown."""


def open_source(file: InputFile, settings: InputSettings, *, typed: bool) -> Source:
    """Open a file, and read its first rows. `typed`: values are encoded, so lines of JSON become columns."""
    if file.format != "jsonl":
        return TableRows(file, settings)
    lines = JsonLines(file, file.open(), settings)
    return TypedLines(file, lines, settings) if typed else lines
