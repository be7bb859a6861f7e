"""Writes letters to their topic, with the producer and the kernel's encoder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock._kernel import Encoder
from penstock.dead_letters.letter import ROWS_AT_ONCE, DeadLetter
from penstock.errors import BrokerError, TopicRecreated, UnwritableRecord
from penstock.model.topic_partition import TopicPartition
from penstock.wire.client_config import ClientConfig
from penstock.wire.producer.producer import Producer
from penstock.wire.producer.producer_config import ProducerConfig
from penstock.wire.producer.transaction_client import TransactionClient

BATCH_BYTES = 500_000
"""Brokers accept batches of one megabyte by default."""

BUFFER_BYTES = 16 << 20
"""More than a task collects before it writes."""

TRANSACTION_SECONDS = 60.0
"""After this time the coordinator aborts an abandoned transaction. Brokers allow 15 minutes by default."""

EXACT_REFUSALS = 3
"""Letters that are refused before the guess of the topic's limit becomes coarse. Each refusal costs a new attempt."""

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def letter_settings(cluster: TransactionClient, transactional: bool) -> ProducerConfig:
    """The settings of a producer of letters. Compressed by the best codec that brokers know."""
    timeout = cluster.config.api_timeout
    return ProducerConfig(
        idempotent=transactional,
        compression="zstd" if cluster.knows_zstd() else "gzip",
        batch_size=BATCH_BYTES,
        linger=0.0,
        max_request_size=2 * BATCH_BYTES,
        buffer_size=BUFFER_BYTES,
        delivery_timeout=timeout,
        delivery_option="default.api.timeout.ms",
        transaction_timeout=TRANSACTION_SECONDS,
        max_in_flight=5,
    )


class SizeLimits:
    """What a topic accepts, learned from what it refuses. Letters above it go without value and headers, or key."""

    def __init__(self) -> None:
        self._whole = self._key = float("inf")
        self._refusals = 0

    def parts(self, letter: DeadLetter) -> tuple[bool, bool]:
        """Whether the letter is written whole, and whether with its key."""
        if letter.size < self._whole:
            return True, True
        return False, len(letter.key or b"") < self._key

    def refused(self, letter: DeadLetter, topic: str) -> None:
        """The topic did not accept the letter as it was written. Raises BrokerError if nothing more can be dropped."""
        self._refusals += 1
        share = 1 if self._refusals <= EXACT_REFUSALS else 2
        match self.parts(letter):
            case (True, _):
                self._whole = letter.size / share
            case (_, True):
                self._key = len(letter.key or b"") / share
            case _:
                raise BrokerError(
                    f"topic {topic!r} does not accept a batch with the headers of one letter. Raise its "
                    "max.message.bytes"
                )


def send_letters(
    producer: Producer,
    target: TopicPartition,
    letters: Sequence[DeadLetter],
    limits: SizeLimits,
    group: str | None = None,
) -> None:
    """Write letters to one partition with a producer that has begun, and wait until the broker has them.

    Raises UnwritableRecord if the topic does not accept one. Their timestamp is the current time, because retention
    goes by it.
    """
    settings = producer.settings
    encoder = Encoder(
        compression=settings.compression,
        batch_size=BATCH_BYTES,
        max_record_size=1 << 30,  # only the broker knows what is too large
        buffer_size=BUFFER_BYTES,
    )
    encoder.set_producer(*producer.identity, transactional=producer.transactional_id is not None)
    encoder.add_topic(target.topic, target.partition + 1)
    now = time.time_ns() // 1_000_000
    for at in range(0, len(letters), ROWS_AT_ONCE):
        rows = _rows(letters[at : at + ROWS_AT_ONCE], target.partition, limits, group)
        producer.send_all(encoder.append(rows, topic=target.topic, timestamp=now))
    producer.send_all(encoder.flush())
    producer.flush()


def settle_refusal(error: UnwritableRecord, letters: Sequence[DeadLetter], limits: SizeLimits, topic: str) -> None:
    """Note that a letter is too large. Raises BrokerError if the topic refuses it for another reason."""
    if not error.too_large:
        raise BrokerError(f"dead letters cannot be written: {error}. Set the clock of this machine right") from error
    limits.refused(letters[error.row], topic)


def _rows(letters: Sequence[DeadLetter], partition: int, limits: SizeLimits, group: str | None) -> pa.RecordBatch:
    parts = [limits.parts(letter) for letter in letters]
    pairs = list(zip(letters, parts, strict=True))
    keys = [letter.key if with_key else None for letter, (_, with_key) in pairs]
    values = [letter.value if whole else None for letter, (whole, _) in pairs]
    headers = [_headers(letter, group, whole, with_key) for letter, (whole, with_key) in pairs]
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(headers, HEADERS_TYPE),
            "partition": pa.array([partition] * len(letters), pa.int32()),
        }
    )


def _headers(letter: DeadLetter, group: str | None, whole: bool, with_key: bool) -> list[tuple[str, bytes | None]]:
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
    ours = [(f"penstock.{name}", str(value).encode("utf-8", "replace")) for name, value in fields.items()]
    return [*(letter.headers if whole else ()), *ours]


class TopicWriter:
    """Writes letters to a topic and waits until all in-sync replicas have them. A retry may write them twice.

    For one thread.
    """

    def __init__(self, config: ClientConfig, topic: str, group: str | None = None) -> None:
        self._config = config
        self._topic = topic
        self._group = group
        self._limits = SizeLimits()
        self._producer: Producer | None = None
        self._partitions = 0

    def connect(self) -> Producer:
        """Raises UnknownTopic if the topic does not exist."""
        if self._producer is None:
            settings = letter_settings(TransactionClient(self._config), transactional=False)
            producer = Producer(self._config, settings)
            self._partitions, _ = producer.partition_count(self._topic)
            self._producer = producer
        return self._producer

    def write(self, letters: list[DeadLetter]) -> None:
        try:
            self._write(letters)
        except TopicRecreated:
            self.close()
            self._write(letters)

    def _write(self, letters: list[DeadLetter]) -> None:
        producer = self.connect()
        by_partition: dict[int, list[DeadLetter]] = {}
        for letter in letters:
            by_partition.setdefault(letter.partition % self._partitions, []).append(letter)
        for partition, its_letters in by_partition.items():
            self._write_to(producer, TopicPartition(self._topic, partition), its_letters)

    def _write_to(self, producer: Producer, target: TopicPartition, letters: list[DeadLetter]) -> None:
        while letters:
            producer.begin()
            try:
                send_letters(producer, target, letters, self._limits, self._group)
                return
            except UnwritableRecord as error:
                settle_refusal(error, letters, self._limits, self._topic)
                # One batch is in flight at a time: all letters before the refused one are written.
                written = producer.written.get(target)
                letters = letters[0 if written is None else written.rows :]

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
