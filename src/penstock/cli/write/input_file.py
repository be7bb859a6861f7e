"""The files that `penstock write` reads: their formats, and errors that name the place."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from penstock.errors import OptionError, PenstockError

STDIN = "-"
FORMATS = ("jsonl", "csv", "parquet")
EXTENSIONS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
"""Extensions by which Arrow recognises compressed files."""


class BadInput(PenstockError):
    """A part of an input file cannot be written."""

    def __init__(self, file: InputFile, place: str, reason: str) -> None:
        super().__init__(f"{file}{f', {place}' if place else ''}: {reason}")

    def after(self, rows: int) -> PenstockError:
        """The same error, with the number of records that are written already."""
        return PenstockError(f"{self}. {rows:,} records before it are written")


@dataclass(frozen=True, slots=True)
class InputFile:
    path: str
    """`-` is standard input."""
    format: str

    def __str__(self) -> str:
        return "standard input" if self.path == STDIN else self.path

    @property
    def size(self) -> int | None:
        """The size on disk; None if it is unknown: of a pipe."""
        try:
            return None if self.path == STDIN else Path(self.path).stat().st_size or None
        except OSError:
            return None

    @property
    def delimiter(self) -> str:
        """The separator of CSV columns."""
        return "\t" if ".tsv" in self.path.lower() else ","

    def open(self) -> BinaryIO:
        """The content, decompressed. A bad path has failed in `input_files`."""
        if self.path == STDIN:
            return sys.stdin.buffer
        stream: BinaryIO = pa.input_stream(self.path, compression="detect")
        return stream

    def share(self, stream: BinaryIO) -> float | None:
        """How much of the file was read; None if that is unknown: of a pipe, or a compressed file."""
        size = self.size
        if size is None or self.path.lower().endswith(COMPRESSED):
            return None
        return 1.0 if stream.closed else stream.tell() / size


def input_files(paths: list[str], given: str | None) -> list[InputFile]:
    """The files with their formats: the given one, or that of the extension. Raises OptionError for the first bad one,
    so that nothing is written before a path that does not exist."""
    return [_input_file(path, given) for path in paths or [STDIN]]


def _input_file(path: str, given: str | None) -> InputFile:
    if path == STDIN:
        if given == "parquet":
            raise OptionError("--input-format", given, "cannot be read from a pipe", "Give the name of the file")
        return InputFile(path, given or "jsonl")
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise OptionError("FILE", path, f"cannot be read: {error.strerror}") from None
    name = path.lower()
    for extension in COMPRESSED:
        name = name.removesuffix(extension)
    form = given or EXTENSIONS.get(os.path.splitext(name)[1])  # noqa: PTH122 (of a name, not of a path)
    if form is None:
        hint = f"Set --input-format to {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        raise OptionError("FILE", path, "has an extension that does not say its format", hint)
    return InputFile(path, form)
