"""Dead letters: records that did not become a row, with their place and the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from penstock.model.topic_partition import TopicPartition

ROWS_AT_ONCE = 500
"""Rows that become Python objects together: a chunk with only bad records must not double in memory."""

MALFORMED = "MalformedRecord"

REASON_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that failed, as it is in Kafka, and the reason."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """Milliseconds since 1970."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    stage: str
    """What failed: `extractor` or `sink` of a Streamer; or decoding of `key`, `value` or `key,value`."""
    error: str
    """Class name of the error."""
    reason: str

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + sum(len(n) + len(v or b"") for n, v in self.headers)


class Cause(NamedTuple):
    """Why a record did not become a row: three fields of its letter."""

    stage: str
    error: str
    reason: str


def letters_of(tp: TopicPartition, records: pa.RecordBatch, causes: Iterable[Cause]) -> Iterator[DeadLetter]:
    """Letters about records with all columns, one cause for each record."""
    # Not as datetime: Kafka's timestamps may be outside of Python's range.
    times = records.column("timestamp").cast(pa.int64()).to_pylist()
    columns = [records.column(name).to_pylist() for name in ("offset", "key", "value", "headers")]
    for timestamp, (stage, error, reason), offset, key, value, headers in zip(times, causes, *columns, strict=True):
        yield DeadLetter(
            tp.topic,
            tp.partition,
            offset,
            None if timestamp is None else timestamp // 1000,
            key,
            value,
            [(header["key"], header["value"]) for header in headers or ()],
            stage,
            error,
            reason[:REASON_CHARACTERS],
        )


def fault_letters(
    tp: TopicPartition, records: pa.RecordBatch, faults: Iterable[tuple[int, str, str]]
) -> Iterator[DeadLetter]:
    """Letters about rows that could not be decoded, one per row, in order. A fault is (row, column, reason)."""
    reasons: dict[int, dict[str, str]] = {}
    for row, column, reason in faults:
        reasons.setdefault(row, {}).setdefault(column, reason)
    rows = sorted(reasons)
    for at in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[at : at + ROWS_AT_ONCE]
        yield from letters_of(tp, records.take(pa.array(some)), [_cause(reasons[row]) for row in some])


def _cause(reasons: Mapping[str, str]) -> Cause:
    """The cause of one record whose key or value, or both, could not be decoded."""
    if len(reasons) == 1:
        ((stage, reason),) = reasons.items()
        return Cause(stage, MALFORMED, reason)
    return Cause(
        ",".join(sorted(reasons)), MALFORMED, "; ".join(f"{name}: {why}" for name, why in sorted(reasons.items()))
    )
