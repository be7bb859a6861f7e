"""JSON lines as batches of records, block by block.

The value of a row is its line, unchanged. Records are read as `penstock read --json` prints them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

from penstock.cli.write.input_file import BadInput, InputFile
from penstock.cli.write.layout import HEADERS, RECORD_FIELDS, TIMESTAMP, InputSettings, Layout
from penstock.errors import did_you_mean
from penstock.model.offset_spec import milliseconds_at

BLOCK = 1 << 20
LONGEST_LINE = 64 << 20

Lines: TypeAlias = list[tuple[int, bytes]]
"""Lines with their numbers, from 1."""


def line_blocks(stream: BinaryIO, file: InputFile) -> Iterator[Lines]:
    """The lines that are not blank, about BLOCK bytes at a time."""
    number, left = 1, b""
    while True:
        block = stream.read(BLOCK)
        lines = (left + block).split(b"\n")
        if number == 1:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        left = lines.pop() if block else b""
        if len(left) > LONGEST_LINE:
            raise BadInput(file, f"line {number + len(lines)}", f"is longer than {LONGEST_LINE >> 20} MiB")
        found = [(number + at, line) for at, each in enumerate(lines) if (line := each.strip())]
        number += len(lines)
        if found:
            yield found
        if not block:
            return


Headers: TypeAlias = list[tuple[str, bytes | None]]
Record: TypeAlias = tuple[bytes | None, bytes | None, Headers | None, int | None, int | None]
"""Key, value, headers, timestamp and partition."""


@dataclass(slots=True)
class Columns:
    """The columns of a batch, row by row."""

    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers | None] = field(default_factory=list)
    timestamps: list[int | None] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        timestamp: int | None,
        partition: int | None,
    ) -> None:
        self.keys.append(key)
        self.values.append(value)
        self.headers.append(headers)
        self.timestamps.append(timestamp)
        self.partitions.append(partition)

    def batch(self) -> pa.RecordBatch:
        columns = {"key": pa.array(self.keys, pa.binary()), "value": pa.array(self.values, pa.binary())}
        for name, given, type_ in (
            ("headers", self.headers, HEADERS),
            ("timestamp", self.timestamps, TIMESTAMP),
            ("partition", self.partitions, pa.int32()),
        ):
            if any(each is not None for each in given):
                columns[name] = pa.array(given, type_)
        return pa.record_batch(columns)


class JsonLines:
    """The records of one file of JSON lines."""

    needs_format = False

    def __init__(self, file: InputFile, stream: BinaryIO, settings: InputSettings) -> None:
        self._file = file
        self._settings = settings
        self.fields: frozenset[str] | None = None
        """The fields that values may have. None: any."""
        self._stream = stream
        self._blocks = line_blocks(stream, file)
        self._first: Lines = next(self._blocks, [])
        self.layout: Layout = settings.layout or "rows"
        if self._first:
            number, line = self._first[0]
            first = self._parsed(number, line)
            if isinstance(first, list):
                reason = "is a JSON array. Write one object per line, as `jq -c '.[]'` does"
                raise BadInput(file, f"line {number}", reason)
            self.layout = settings.layout_of(first if isinstance(first, dict) else ())

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch, _ in self.numbered_batches():
            yield batch

    def share(self) -> float | None:
        return self._file.share(self._stream)

    def numbered_batches(self) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """Each batch with the line numbers of its rows. The records before a bad line come before its error."""
        block: Lines | None = self._first
        self._first = []
        while block:
            columns, error = Columns(), None
            for number, line in block:
                error = self._add(columns, number, line)
                if error is not None:
                    break
            if columns.values:
                yield columns.batch(), [number for number, _ in block[: len(columns.values)]]
            if error is not None:
                raise error
            block = next(self._blocks, None)

    def _parsed(self, number: int, line: bytes) -> Any:
        try:
            return _DECODER.decode(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            if line == b"[" and number == 1:
                reason = "is the start of a JSON array. Write one object per line, as `jq -c '.[]'` does"
            else:
                reason = f"is not JSON: {error}"
            raise BadInput(self._file, f"line {number}", reason) from None

    def _add(self, columns: Columns, number: int, line: bytes) -> BadInput | None:
        """Add a line as a row, or return why it is not one."""
        try:
            row = self._parsed(number, line)
            record = self._record(row) if self.layout == "records" else self._row(line, row)
            if self.fields is not None:
                self._check_fields(row.get("value") if self.layout == "records" else row)
        except BadInput as error:
            return error
        except (ValueError, TypeError, OverflowError) as error:
            return BadInput(self._file, f"line {number}", str(error))
        columns.add(*record)
        return None

    def _check_fields(self, value: Any) -> None:
        assert self.fields is not None
        if isinstance(value, dict) and (unknown := sorted(value.keys() - self.fields)):
            hint = did_you_mean(unknown[0], self.fields)
            raise ValueError(f"has a field {unknown[0]!r}, which the schema does not have. {hint}".rstrip(". "))

    def _row(self, line: bytes, row: Any) -> Record:
        field_ = self._settings.key
        key = row.get(field_) if field_ is not None and isinstance(row, dict) else None
        return as_bytes("the key", key, "text"), line, None, None, None

    def _record(self, row: Any) -> Record:
        settings = self._settings
        if not isinstance(row, dict):
            raise ValueError("is not an object with Kafka's columns, as the first line is")
        if unknown := sorted(row.keys() - RECORD_FIELDS):
            raise ValueError(f"has a field {unknown[0]!r}, which records do not have. Use --layout rows to write lines")
        if "value" not in row:
            raise ValueError("has no field 'value'. Write null for a tombstone")
        return (
            as_bytes("the key", row.get("key"), settings.key_format),
            as_bytes("the value", row["value"], settings.value_format),
            headers(row.get("headers")),
            timestamp(row.get("timestamp")),
            partition(row.get("partition")) if settings.keep_partitions else None,
        )


def as_bytes(what: str, value: Any, form: str) -> bytes | None:
    """A key or a value as bytes: the reverse of `penstock.cli.records.shown`."""
    if value is None:
        return None
    if form == "json" or (form == "text" and not isinstance(value, str)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    if not isinstance(value, str):
        raise ValueError(f"{what} is not a text, as {form} requires")
    if form == "text":
        return value.encode("utf-8")
    try:
        return bytes.fromhex(value) if form == "hex" else base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise ValueError(f"{what} is not {form}") from None


def headers(given: Any) -> Headers | None:
    """Headers as `[["name", "value"]]`, as `[{"key": "name", "value": "value"}]`, or as one object."""
    pairs: list[Any]
    match given:
        case None:
            return None
        case dict():
            pairs = list(given.items())
        case list():
            pairs = [(each.get("key"), each.get("value")) if isinstance(each, dict) else each for each in given]
        case _:
            raise ValueError("headers are not a list of [name, value]")
    found = []
    for pair in pairs:
        match pair:
            case [str(name), value]:
                found.append((name, as_bytes(f"header {name!r}", value, "text")))
            case _:
                raise ValueError(f"a header is not [name, value]: {json.dumps(pair)[:100]}")
    return found


def timestamp(given: Any) -> int | None:
    """Milliseconds since 1970, as a number or as a text such as 2025-01-31T12:00Z. A time without a zone is UTC."""
    if given is None:
        return None
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) < 1 << 63:
        return given
    if isinstance(given, str):
        try:
            moment = datetime.fromisoformat(given)
        except ValueError:
            raise ValueError(f"timestamp {given!r} is not a time such as 2025-01-31T12:00Z") from None
        return milliseconds_at(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    raise ValueError("timestamp is neither milliseconds nor a time such as 2025-01-31T12:00Z")


def partition(given: Any) -> int | None:
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 31):
        return given
    raise ValueError(f"partition {json.dumps(given)[:50]} is not the number of a partition")


def _not_json(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_not_json)
"""Made once: `json.loads` with an argument makes one for each line."""
