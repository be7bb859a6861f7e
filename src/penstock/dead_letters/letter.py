"""Dead letters: records that did not become a row, with their place and the reason; and how they are written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.errors import BrokerError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.produce import ALL, BatchTooLarge, Producer, Record
from penstock.wire.client_config import ClientConfig

BATCH_BYTES = 500_000
"""Brokers accept batches of one megabyte by default, and the headers come on top."""

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


def batched(letters: Sequence[DeadLetter], limit: int) -> Iterator[list[DeadLetter]]:
    """Letters in batches of at most `limit` bytes. A larger letter is a batch of its own."""
    batch: list[DeadLetter] = []
    size = 0
    for letter in letters:
        if batch and size + letter.size > limit:
            yield batch
            batch, size = [], 0
        batch.append(letter)
        size += letter.size
    if batch:
        yield batch


def append_letters(
    append: Callable[[Sequence[Record]], None], letters: Sequence[DeadLetter], topic: str, group: str | None = None
) -> None:
    """Write letters with `append`, which writes a batch or raises BatchTooLarge, in batches that the topic accepts.

    Their timestamp is the current time, because retention goes by it.
    """
    now = time.time_ns() // 1_000_000
    for batch in batched(letters, BATCH_BYTES):
        _append(append, batch, topic, group, now)


def _append(
    append: Callable[[Sequence[Record]], None],
    letters: Sequence[DeadLetter],
    topic: str,
    group: str | None,
    now: int,
) -> None:
    try:
        append([_record(letter, group, now) for letter in letters])
    except BatchTooLarge as error:
        if len(letters) > 1:
            middle = len(letters) // 2
            _append(append, letters[:middle], topic, group, now)
            _append(append, letters[middle:], topic, group, now)
            return
        for with_key in (True, False):
            with suppress(BatchTooLarge):
                append([_record(letters[0], group, now, whole=False, with_key=with_key)])
                return
        raise BrokerError(
            f"topic {topic!r} does not accept a batch with the headers of one letter. Raise its max.message.bytes"
        ) from error


def _record(letter: DeadLetter, group: str | None, now: int, whole: bool = True, with_key: bool = True) -> Record:
    fields: dict[str, Any] = {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp,
        **({} if group is None else {"group": group}),
        "stage": letter.stage,
        "error": letter.error,
        "reason": letter.reason,
    }
    if not whole:
        fields["dropped"] = len(letter.value or b"")
    if not with_key:
        fields["dropped.key"] = len(letter.key or b"")
    headers = list(letter.headers) if whole else []
    headers += [(f"penstock.{name}", str(value).encode("utf-8", "replace")) for name, value in fields.items()]
    return Record(letter.key if with_key else None, letter.value if whole else None, now, headers)


class TopicWriter:
    """Writes letters to a topic and waits until all in-sync replicas have them. A retry may write them twice.

    For one thread.
    """

    def __init__(self, config: ClientConfig, topic: str, group: str | None = None) -> None:
        self._config = config
        self._topic = topic
        self._group = group
        self._producer: Producer | None = None

    def connect(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(self._config, self._topic, ALL)
        return self._producer

    def write(self, letters: list[DeadLetter]) -> None:
        try:
            self._write(letters)
        except BrokerError:
            # The leader has moved, or the connection was idle for too long: retry once with fresh metadata.
            self.close()
            self._write(letters)

    def _write(self, letters: list[DeadLetter]) -> None:
        producer = self.connect()
        by_partition: dict[int, list[DeadLetter]] = {}
        for letter in letters:
            by_partition.setdefault(letter.partition % producer.partitions, []).append(letter)
        for partition, its_letters in by_partition.items():

            def append(records: Sequence[Record], partition: int = partition) -> None:
                producer.append(partition, records)

            append_letters(append, its_letters, self._topic, self._group)

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.__exit__(None, None, None)
