"""What a streaming query reports to the page: a frozen value, its JSON, and the strict way back. No I/O.

Reports come from other processes over HTTP. `parse_report` accepts exactly what `encode_report` makes: every size is
bounded, and unknown fields are refused.
"""

from __future__ import annotations

import functools
import json
import math
import types
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from penstock.errors import PenstockError

MAX_BYTES = 1 << 20
"""Of a report. A thousand partitions of topics with usual names take 200 KB."""

MAX_NAME, MAX_ERROR = 250, 8000
"""Characters. Kafka's topics have at most 249."""

MAX_PARTITIONS, MAX_BATCHES, MAX_PARTS = 1000, 120, 32
"""Of a query. Parts are sources, phases of a trigger, and state operators. A thousand partitions take 2 ms of Spark's
listener thread, 7 ms of the sender's, and 4 ms of the page's."""

LARGEST = 2**63

Name: TypeAlias = Annotated[str, MAX_NAME]


class BadReport(PenstockError):
    """A report that is not understood, or too large."""


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """A part of a trigger's time, by Spark's name for it."""

    name: Name
    milliseconds: int


@dataclass(frozen=True, slots=True)
class BatchReport:
    number: int
    at: float | None
    """When its trigger began, in seconds since 1970."""
    rows: int
    milliseconds: int


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """An operator that keeps state."""

    name: Name
    rows: int
    """In its state."""
    memory: int
    """Bytes."""
    updated: int
    dropped: int
    """Rows that came after Spark's watermark, since the query was first observed."""


@dataclass(frozen=True, slots=True)
class PartitionReport:
    source: int
    topic: Name
    partition: int
    current_offset: int | None
    latest_offset: int | None
    committed_offset: int | None
    lag: int | None
    watermark: int | None
    """Milliseconds since 1970, as all watermarks here."""
    idle: bool | None
    held: bool | None


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A source that reads Kafka. Unknown values are None."""

    lag: int | None
    records_per_second: float | None
    bytes_per_second: float | None
    watermark: int | None
    event_time_lag: float | None
    late: int | None
    lost_ranges: int | None
    malformed: int | None
    dropped: int | None
    dead_letters: int | None
    skipped: int | None
    commits_succeeded: int | None
    commits_failed: int | None


@dataclass(frozen=True, slots=True)
class QueryReport:
    """One run of a query, as of its last progress."""

    id: Name
    run_id: Name
    name: Name | None = None
    state: Literal["running", "finished", "failed"] = "running"
    error: Annotated[str, MAX_ERROR] | None = None
    started_at: float | None = None
    ended_at: float | None = None
    progress_at: float | None = None
    """When the last trigger began. Times are in seconds since 1970."""
    batch: int | None = None
    rows: int | None = None
    """Rows that the last trigger has read."""
    rows_written: int | None = None
    """Rows that the sink has written since the query was first observed."""
    input_rate: float | None = None
    processing_rate: float | None = None
    lag: int | None = None
    spark_watermark: int | None = None
    """The watermark of `withWatermark`, which Spark keeps itself."""
    phases: Annotated[tuple[PhaseReport, ...], MAX_PARTS] = ()
    sources: Annotated[tuple[SourceReport, ...], MAX_PARTS] = ()
    operators: Annotated[tuple[OperatorReport, ...], MAX_PARTS] = ()
    batches: Annotated[tuple[BatchReport, ...], MAX_BATCHES] = ()
    """The oldest first."""
    partitions: Annotated[tuple[PartitionReport, ...], MAX_PARTITIONS] = ()
    """Those that are furthest behind, if there are too many."""
    partition_count: int = 0


def cut(text: str, limit: int = MAX_NAME) -> str:
    """Text of at most so many characters, with an ellipsis where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def document(value: Any) -> Any:
    """A report, or a part of it, as JSON has it."""
    if isinstance(value, tuple):
        return [document(each) for each in value]
    if is_dataclass(value):
        return {each.name: document(getattr(value, each.name)) for each in fields(value)}
    return value


def encode_report(report: QueryReport) -> bytes:
    """JSON in ASCII, within `MAX_BYTES`: partitions of names that are long when escaped are left out."""
    while True:
        encoded = json.dumps(document(report), separators=(",", ":"), allow_nan=False).encode("ascii")
        if len(encoded) <= MAX_BYTES or not report.partitions:
            return encoded
        report = replace(report, partitions=report.partitions[: len(report.partitions) // 2])


def parse_report(body: bytes) -> QueryReport:
    """Raises BadReport."""
    if len(body) > MAX_BYTES:
        raise BadReport(f"the report has more than {MAX_BYTES} bytes")
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise BadReport("the report is not JSON") from None
    report: QueryReport = _reader(QueryReport)(given, "the report")
    if not report.id or not report.run_id:
        raise BadReport("the report has no id of a query and its run")
    return report


# --- reading, by the types of the fields ------------------------------------------------------------------------------

Reader: TypeAlias = Callable[[Any, str], Any]
"""Turns a value of JSON into a value of the report. The text says where it stands, for an error."""


@functools.cache
def _reader(kind: Any) -> Reader:
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        inner, limit = arguments
        return functools.partial(_text, limit=limit) if inner is str else _tuple_reader(get_args(inner)[0], limit)
    if origin in (types.UnionType, Union):
        return _optional_reader(next(each for each in arguments if each is not types.NoneType))
    if origin is Literal:
        return functools.partial(_choice, allowed=arguments)
    return _dataclass_reader(kind)


def _dataclass_reader(kind: Any) -> Reader:
    hints = get_type_hints(kind, include_extras=True)
    readers = tuple((each.name, _reader(hints[each.name])) for each in fields(kind))

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, dict) or len(value) != len(readers):
            raise BadReport(f"{where} is not an object with exactly {len(readers)} fields")
        try:
            return kind(*[reader(value[name], name) for name, reader in readers])
        except KeyError as missing:
            raise BadReport(f"{where} has no field {missing}") from None

    return read


def _tuple_reader(kind: Any, limit: int) -> Reader:
    reader = _reader(kind)

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, list) or len(value) > limit:
            raise BadReport(f"{where} is not a list of at most {limit}")
        return tuple([reader(each, where) for each in value])

    return read


def _optional_reader(kind: Any) -> Reader:
    reader = _reader(kind)
    return lambda value, where: None if value is None else reader(value, where)


def _int(value: Any, where: str) -> int:
    if type(value) is not int or abs(value) >= LARGEST:
        raise BadReport(f"{where} is not a whole number of 64 bits")
    return value


def _float(value: Any, where: str) -> float:
    if type(value) not in (int, float) or abs(value) >= LARGEST or not math.isfinite(value):
        raise BadReport(f"{where} is not a number")
    return float(value)


def _bool(value: Any, where: str) -> bool:
    if type(value) is not bool:
        raise BadReport(f"{where} is not true or false")
    return value


def _text(value: Any, where: str, *, limit: int) -> str:
    if type(value) is not str or len(value) > limit:
        raise BadReport(f"{where} is not text of at most {limit} characters")
    return value


def _choice(value: Any, where: str, *, allowed: tuple[str, ...]) -> str:
    if type(value) is not str or value not in allowed:
        raise BadReport(f"{where} is none of {', '.join(allowed)}")
    return value


_PRIMITIVES: dict[Any, Reader] = {int: _int, float: _float, bool: _bool}
