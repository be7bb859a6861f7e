"""Records as CSV, JSON lines or Parquet, in a file, and as lines of CSV."""

from __future__ import annotations

import argparse
import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from penstock.cli.output import json_text, printable
from penstock.cli.records import RecordView
from penstock.cli.typed_records import TypedRecordView
from penstock.model.columns import arrow_schema

ENDINGS = (".csv", ".jsonl", ".parquet")

STANDARD_OUTPUT = Path("-")


def output_file(text: str) -> Path:
    """The argument of --output."""
    path = Path(text)
    if path == STANDARD_OUTPUT:
        return path
    if path.suffix.lower() not in ENDINGS:
        raise argparse.ArgumentTypeError(f"{text!r} ends with none of {', '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {path.parent} does not exist")
    return path


def write_records(path: Path, batches: Iterator[pa.RecordBatch], view: RecordView | TypedRecordView) -> int:
    """Write a file, and return its number of records. It appears under its name when it is complete: a failed read
    leaves the old one."""
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            yield batch

    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.suffix.lower() == ".parquet":
            _write_parquet(partial, counted(), view)
        else:
            with partial.open("w", encoding="utf-8", newline="") as file:
                write = _write_csv if path.suffix.lower() == ".csv" else _write_lines
                write(file, counted(), view)
        partial.replace(path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
    return rows


def _write_parquet(path: Path, batches: Iterator[pa.RecordBatch], view: RecordView | TypedRecordView) -> None:
    """The columns as they are read: keys and values as bytes, or typed."""
    import pyarrow.parquet

    schema = view.plan.layout.schema if isinstance(view, TypedRecordView) else arrow_schema(view.columns)
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_lines(file: IO[str], batches: Iterator[pa.RecordBatch], view: RecordView | TypedRecordView) -> None:
    for batch in batches:
        file.writelines(f"{view.json_line(record)}\n" for record in view.records(batch))
        file.flush()


def _write_csv(file: IO[str], batches: Iterator[pa.RecordBatch], view: RecordView | TypedRecordView) -> None:
    """What is not a text or a number is JSON; null is an empty cell."""
    names = _names(view)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    for batch in batches:
        writer.writerows([_cell(record[name]) for name in names] for record in view.records(batch))


def csv_lines(records: Iterator[dict[str, Any]], view: RecordView | TypedRecordView) -> Iterator[str]:
    """The header, and a line for each record, as in a CSV file. But characters that are not printable are escaped, line
    ends among them, as in all output of the command line."""
    names = _names(view)
    yield _csv_line(names)
    for record in records:
        cells = (_cell(record[name]) for name in names)
        yield _csv_line([printable(cell) if isinstance(cell, str) else cell for cell in cells])


def _csv_line(cells: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def _names(view: RecordView | TypedRecordView) -> Sequence[str]:
    return view.plan.layout.names if isinstance(view, TypedRecordView) else view.columns


def _cell(value: Any) -> Any:
    return json_text(value) if isinstance(value, dict | list | bool) else value
