"""A chunk, the records of one partition in one response, becomes Arrow batches: magic 2 in the kernel, what is older
through kafka-python."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import pyarrow as pa

from penstock._kernel import Batch, Decoder
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.client_config import ClientConfig


class ChunkDecoder:
    """Decodes the chunks of one partition, one after the other. For one thread."""

    def __init__(self, topic: str, partition: int, columns: Sequence[str], config: ClientConfig) -> None:
        self._topic = topic
        self._partition = partition
        self._columns = list(columns)
        self._config = config
        self._decoder = Decoder(topic, partition, self._columns, decompression_limit=config.decompression_limit)
        self.next_offset = 0
        """The first offset that is in none of the batches given out, nor in a gap after them."""

    @property
    def at(self) -> int:
        """The byte of the chunk where the batch that holds `next_offset` begins, once all batches are given out."""
        return self._decoder.position

    def batches(
        self, chunk: FetchedPartition, start: int, stop: int, *, at: int = 0, aligned: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The records with offsets in [start, stop), from byte `at` on. Lets go of the chunk however it ends."""
        native = self.native_batches(chunk, start, stop, at=at, aligned=aligned)
        try:
            for batch in native:
                yield pa.record_batch(batch)
        finally:
            native.close()

    def native_batches(
        self, chunk: FetchedPartition, start: int, stop: int, *, at: int = 0, aligned: bool = False
    ) -> Generator[Batch, None, None]:
        """The same as the kernel's own batches."""
        try:
            yield from self._native(chunk, start, stop, at, aligned)
        finally:
            self._decoder.close()

    def _native(self, chunk: FetchedPartition, start: int, stop: int, at: int, aligned: bool) -> Iterator[Batch]:
        decoder = self._decoder
        self.next_offset = start
        while True:
            decoder.open(
                chunk.records,
                start=self.next_offset,
                stop=stop,
                high_watermark=chunk.high_watermark,
                aligned=aligned,
                # Always possible: a quota or the broker's own limit may have cut it below what was asked for. A last
                # batch whose length lies is found out when it comes first, for then it must be whole.
                cut=True,
                aborted=chunk.aborted if self._config.read_committed else None,
                position=at,
            )
            while (batch := decoder.next_batch()) is not None:
                self.next_offset = decoder.next_offset
                yield batch
            self.next_offset = decoder.next_offset
            if not decoder.legacy:
                break
            from penstock.wire.message_set import decode_legacy  # rarely met, so rarely loaded

            old, self.next_offset, at = decode_legacy(
                chunk.records,
                decoder.position,
                self._topic,
                self._partition,
                self._columns,
                self.next_offset,
                stop,
                self._config.decompression_limit,
            )
            if old is not None:
                yield Batch.from_arrow(old)
            if at >= len(chunk.records) or self.next_offset >= stop:
                break
