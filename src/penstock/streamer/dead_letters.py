"""What became of no row: letters that say where it was and why, and the topic that they go to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.errors import BrokerError, OptionError
from penstock.topics import TopicPartition
from penstock.wire.config import ClientConfig
from penstock.wire.producer import ALL, BatchTooLarge, Producer, Record

BATCH_BYTES = 500_000
"""Brokers take batches of a megabyte unless told otherwise, and headers come on top."""

REASON_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that failed, as it was in Kafka, and why."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """Milliseconds since 1970."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    stage: str
    """`extractor` or `sink`."""
    error: str
    """The name of the error's class."""
    reason: str

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + sum(len(n) + len(v or b"") for n, v in self.headers)


def letters_of(tp: TopicPartition, records: pa.RecordBatch, stage: str, error: Exception) -> Iterator[DeadLetter]:
    """Letters about records that failed for one reason. The records have all columns."""
    # No datetime for the timestamp: Kafka's may be further off than Python's reach.
    times = records.column("timestamp").cast(pa.int64()).to_pylist()
    for at, (offset, key, value, headers) in enumerate(
        zip(*(records.column(name).to_pylist() for name in ("offset", "key", "value", "headers")), strict=True)
    ):
        yield DeadLetter(
            tp.topic,
            tp.partition,
            offset,
            None if times[at] is None else times[at] // 1000,
            key,
            value,
            [(header["key"], header["value"]) for header in headers or ()],
            stage,
            type(error).__name__,
            str(error)[:REASON_CHARACTERS],
        )


class LetterWriter(Protocol):
    """One thread's way to where letters go."""

    def write(self, letters: list[DeadLetter]) -> None:
        """Take these letters for good, or raise. What is raised is tried again."""

    def close(self) -> None: ...


class DeadLetters(Protocol):
    def open(self, config: ClientConfig, group: str) -> LetterWriter: ...


class DeadLetterTopic:
    """Writes letters to a topic, which has to exist, and waits until all replicas in sync have them.

    A letter is the record as it was, key, value and headers, with these headers after its own: `penstock.topic`,
    `.partition`, `.offset`, `.timestamp` (ms), `.group`, `.stage` (`extractor` or `sink`), `.error` (a class) and
    `.reason`. Its timestamp is that of the failure, because topics forget by it. A value that is too large for the
    topic is left out, and `penstock.dropped` says how many bytes it had.

    `config`: Kafka's settings of another cluster; without it, the Streamer's own.
    """

    def __init__(self, topic: str, *, config: Mapping[str, object] | None = None) -> None:
        if not isinstance(topic, str) or not topic:
            raise OptionError("dead_letter", topic, "must be the name of a topic")
        self.topic = topic
        self._config = config

    def __repr__(self) -> str:
        return f"DeadLetterTopic({self.topic!r})"

    def open(self, config: ClientConfig, group: str) -> LetterWriter:
        if self._config is not None:
            from penstock.consumer.config import parse_config

            config = parse_config({"group.id": group, **self._config}).client
        writer = _TopicWriter(config, self.topic, group)
        writer.connect()  # a topic that is not there is found now
        return writer


class _TopicWriter:
    def __init__(self, config: ClientConfig, topic: str, group: str) -> None:
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
            # A leader that has moved, or a connection that lay idle for too long: once more, with what is true now.
            self.close()
            self._write(letters)

    def _write(self, letters: list[DeadLetter]) -> None:
        producer = self.connect()
        by_partition: dict[int, list[DeadLetter]] = {}
        for letter in letters:
            by_partition.setdefault(letter.partition % producer.partitions, []).append(letter)
        now = time.time_ns() // 1_000_000
        for partition, mine in by_partition.items():
            for batch in batched(mine, BATCH_BYTES):
                self._append(producer, partition, batch, now)

    def _append(self, producer: Producer, partition: int, letters: Sequence[DeadLetter], now: int) -> None:
        try:
            producer.append(partition, [self._record(letter, now) for letter in letters])
        except BatchTooLarge as error:
            if len(letters) > 1:
                middle = len(letters) // 2
                self._append(producer, partition, letters[:middle], now)
                self._append(producer, partition, letters[middle:], now)
                return
            try:
                producer.append(partition, [self._record(letters[0], now, whole=False)])
            except BatchTooLarge:
                raise BrokerError(f"topic {self._topic!r} takes no batch that holds a letter's headers") from error

    def _record(self, letter: DeadLetter, now: int, whole: bool = True) -> Record:
        said: dict[str, Any] = {
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "timestamp": letter.timestamp,
            "group": self._group,
            "stage": letter.stage,
            "error": letter.error,
            "reason": letter.reason,
        }
        if not whole:
            said["dropped"] = len(letter.value or b"")
        headers = list(letter.headers) if whole else []
        headers += [(f"penstock.{name}", str(what).encode("utf-8", "replace")) for name, what in said.items()]
        return Record(letter.key, letter.value if whole else None, now, headers)

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.__exit__(None, None, None)


class CalledWithLetters:
    """Hands letters to a function, in a list."""

    def __init__(self, function: Callable[[list[DeadLetter]], object]) -> None:
        self._function = function

    def open(self, config: ClientConfig, group: str) -> LetterWriter:
        return self

    def write(self, letters: list[DeadLetter]) -> None:
        self._function(letters)

    def close(self) -> None:
        pass


def batched(letters: Sequence[DeadLetter], limit: int) -> Iterator[list[DeadLetter]]:
    """Letters in batches of so many bytes, or of one letter that is larger."""
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
