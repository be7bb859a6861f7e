"""Decodes chunks to Arrow batches. A chunk is the records of one partition in one response.

The kernel decodes record batches (magic 2). kafka-python decodes the older message sets."""

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
        """The offset after the emitted batches, and after a gap that follows them."""

    @property
    def at(self) -> int:
        """First byte of the batch that holds `next_offset`, once all batches of the chunk are emitted."""
        return self._decoder.position

    def batches(
        self, chunk: FetchedPartition, start: int, stop: int, *, at: int = 0, aligned: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Decode the records with offsets [start, stop), from byte `at` on. Releases the chunk in every case."""
        native = self.native_batches(chunk, start, stop, at=at, aligned=aligned)
        try:
            for batch in native:
                yield pa.record_batch(batch)
        finally:
            native.close()

    def native_batches(
        self, chunk: FetchedPartition, start: int, stop: int, *, at: int = 0, aligned: bool = False
    ) -> Generator[Batch, None, None]:
        """Like `batches`, but yields the kernel's own batches."""
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
                # The last batch may always be incomplete: a quota or a limit of the broker may have cut the response.
                # A batch with a wrong length is found when it comes first, because the first batch must be complete.
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
            from penstock.wire.message_set import decode_legacy  # rarely needed, so not loaded before

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
