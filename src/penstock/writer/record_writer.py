"""Writes Arrow batches with one producer: checks columns, finds topics, encodes in the kernel, and sends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock._kernel import EncodedBatch, Encoder
from penstock.config.sink import SinkOptions
from penstock.formats.encoding import Encoding
from penstock.model.topic_partition import TopicPartition
from penstock.wire.producer.identity import Identity
from penstock.wire.producer.producer import Producer
from penstock.wire.producer.written import ProducerMetrics, WrittenRange
from penstock.writer.columns import TOPIC, unwrapped, written_columns
from penstock.writer.note import Content
from penstock.writer.row_encoding import RowEncoder


class RecordWriter:
    """Writes rows to Kafka in their order (W9). For one thread. `flush` makes rows durable; a `with` block does not."""

    def __init__(
        self,
        options: SinkOptions,
        producer: Producer,
        encoding: Encoding | None = None,
        *,
        hashed: bool = False,
        seed: int = 0,
    ) -> None:
        """`encoding`: of typed rows, if the driver has resolved it; otherwise the first batch does. `hashed`: compute
        the hash of `content`. `seed`: the partition at which rows without a key begin."""
        settings = options.producer
        self._options = options
        self._producer = producer
        self._encoder = Encoder(
            compression=settings.compression,
            level=settings.level,
            batch_size=settings.batch_size,
            max_record_size=settings.max_request_size,
            buffer_size=settings.buffer_size,
            hashed=hashed,
            seed=seed,
        )
        self._identity: Identity | None = None
        """The identity of the encoder's batches."""
        self._fixed_encoding = None if encoding is None else RowEncoder(encoding, options.formats.mode)
        self._row_encoders: dict[tuple[pa.Schema, str | None], RowEncoder] = {}
        """By schema and topic: a topic may have its own subject in a registry."""
        self._topics: set[str] = set()
        self._schema: pa.Schema | None = None
        self._reads_topics = False
        """Whether the columns below include the topic."""
        self._columns: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.close()

    @property
    def producer(self) -> Producer:
        return self._producer

    @property
    def content(self) -> Content:
        """The rows so far."""
        return Content(self._encoder.rows, self._encoder.content_hash)

    @property
    def written(self) -> Mapping[TopicPartition, WrittenRange]:
        return self._producer.written

    @property
    def metrics(self) -> ProducerMetrics:
        return self._producer.metrics

    def begin(self) -> None:
        """Get an identity for the batches. With a transactional id: fence older producers, and begin a transaction."""
        self._producer.begin()
        self.use_identity()

    def use_identity(self) -> None:
        """Use the identity that the producer has now. A new one numbers its batches from 0 on.

        Do not simplify: before Kafka 4.0 all transactions of a producer have one identity, and the numbers must go on.
        The broker takes a repeated number for a retry: it answers with success and drops the batch.
        """
        if self._producer.identity != self._identity:
            self._identity = self._producer.identity
            self._encoder.set_producer(*self._identity, self._producer.transactional_id is not None)

    def write(self, batch: pa.RecordBatch, topic: str | None = None) -> None:
        """Encode rows, and send the record batches that are full. `topic` replaces the option for this call."""
        for part in _slices(batch):
            self._producer.send_all(self._encoded(part, topic or self._options.topic))

    def count(self, batch: pa.RecordBatch) -> None:
        """Add rows to `content` without writing them."""
        for part in _slices(batch):
            self._encoded(part, self._options.topic)

    def send_open(self) -> None:
        """Send the record batches that are not full, without waiting for answers."""
        self._producer.send_all(self._encoder.flush())

    def flush(self) -> None:
        """Send everything, and wait until the brokers have it. Raises if that fails."""
        self.send_open()
        self._producer.flush()

    @property
    def dropped(self) -> int:
        """Rows that could not be encoded and were not written."""
        return sum(each.dropped for each in self._all_row_encoders)

    @property
    def dead_letters(self) -> int:
        return sum(each.dead_letters for each in self._all_row_encoders)

    def _encoded(self, batch: pa.RecordBatch, topic: str | None) -> list[EncodedBatch]:
        letters = None
        if self._options.formats.typed:
            batch, letters = self._row_encoder(batch.schema, topic).encode(batch)
        full = self._append(self._prepared(batch, topic), topic)
        if letters is not None:
            full += self._append(letters, self._options.formats.dead_letter_topic)
        return full

    def _row_encoder(self, schema: pa.Schema, topic: str | None) -> RowEncoder:
        if self._fixed_encoding is not None:
            return self._fixed_encoding
        found = self._row_encoders.get((schema, topic))
        if found is None:
            from penstock.formats.encoding_resolve import resolve_encoding

            formats = self._options.formats
            found = RowEncoder(resolve_encoding(formats, schema, topic), formats.mode)
            self._row_encoders[schema, topic] = found
        return found

    @property
    def _all_row_encoders(self) -> list[RowEncoder]:
        fixed = [] if self._fixed_encoding is None else [self._fixed_encoding]
        return [*fixed, *self._row_encoders.values()]

    def _append(self, rows: pa.RecordBatch, topic: str | None) -> list[EncodedBatch]:
        for name in [topic] if topic is not None else _names_in(rows):
            self._find(name)
        return self._encoder.append(rows, topic=topic, timestamp=time.time_ns() // 1_000_000)

    def _prepared(self, batch: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
        """The columns that are written. Columns are checked once for each schema, with and without the column topic."""
        if batch.schema != self._schema or (topic is None) != self._reads_topics:
            self._columns = written_columns(unwrapped(batch.schema), topic, self._options.include_headers)
            self._schema, self._reads_topics = batch.schema, topic is None
        chosen = batch.select(self._columns)
        if any(kinds.is_dictionary(field.type) for field in chosen.schema):
            chosen = chosen.cast(unwrapped(chosen.schema))
        return chosen

    def _find(self, topic: str) -> None:
        if topic not in self._topics:
            count, available = self._producer.partition_count(topic)
            self._encoder.add_topic(topic, count, available)
            self._topics.add(topic)


SLICE_BYTES = 4 << 20
"""Rows that are encoded at once. Tables of other libraries may be one batch of gigabytes: brokers should work on its
first rows while the next ones are encoded, and memory should not hold it twice."""


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= SLICE_BYTES:
        yield batch
        return
    step = max(1, batch.num_rows * SLICE_BYTES // batch.nbytes)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _names_in(batch: pa.RecordBatch) -> list[str]:
    """The topics that rows name. Rows without a topic are refused by the encoder."""
    return [name for name in pc.unique(batch.column(TOPIC)).to_pylist() if name is not None]
