"""Fetches a small chunk of many logs, from an offset of each partition on: one request per leader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import OFFSET_OUT_OF_RANGE, RetriableError, check
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.api.fetch_client import FetchClient, leader_positions, response_key
from penstock.wire.api.metadata import Metadata
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.connection import Connection, Pending

if TYPE_CHECKING:
    import pyarrow as pa

LEAST_BYTES = 16 << 10
"""Of each partition: the default batch size of Java's producer. A broker sends a larger batch only as the first of a
response. Partitions with larger batches are asked again for `GROWTH` times as much, and those for which a response had
no room are asked again for the same size."""

GROWTH = 16
LARGEST = 64 << 20
RESPONSE_BYTES = 4 << 20

Found = TypeVar("Found")


def ask_chunks(
    connection: Connection,
    offsets: Mapping[TopicPartition, int],
    metadata: Metadata,
    size: int,
    look: Callable[[TopicPartition, FetchedPartition], Found],
) -> Pending[tuple[dict[TopicPartition, Found | None], dict[TopicPartition, RetriableError]]]:
    """Ask a leader for about `size` bytes of each partition, from these offsets on.

    `look` turns a chunk into the answer. The chunk is empty if the offset is the end of the log. `look` may raise
    RetriableError. The answer is None if the offset is outside the log, or no records are left between it and the end.
    """
    chunks = _Chunks(connection, offsets, metadata, look)
    chunks.send(offsets, size)

    def read(timeout: float) -> tuple[dict[TopicPartition, Found | None], dict[TopicPartition, RetriableError]]:
        chunks.receive_all(size, timeout)
        return chunks.found, chunks.refused

    return read


class _Chunks(Generic[Found]):
    """The requests to one leader, and the answers so far."""

    def __init__(
        self,
        connection: Connection,
        offsets: Mapping[TopicPartition, int],
        metadata: Metadata,
        look: Callable[[TopicPartition, FetchedPartition], Found],
    ) -> None:
        self.found: dict[TopicPartition, Found | None] = {}
        self.refused: dict[TopicPartition, RetriableError] = {}
        self._offsets = offsets
        self._look = look
        self._read_committed = connection.config.read_committed
        self._positions = leader_positions(offsets, metadata)
        self._client = FetchClient(connection)
        self._version = self._client.version_for(self._positions.values())
        self._by_key = {response_key(self._version, position): tp for tp, position in self._positions.items()}

    def send(self, partitions: Iterable[TopicPartition], size: int) -> None:
        self._client.send(
            [self._positions[tp] for tp in partitions],
            version=self._version,
            max_bytes=max(RESPONSE_BYTES, size),
            partition_max_bytes=size,
        )

    def receive_all(self, size: int, timeout: float) -> None:
        """Receive the response to the last request, and ask again until each partition has an answer."""
        while True:
            answered = len(self.found) + len(self.refused)
            received = self._receive(timeout)
            missing = [tp for tp in self._offsets if tp not in self.found and tp not in self.refused]
            if missing and len(self.found) + len(self.refused) == answered:
                # A broker always serves the first partition of a request, so there is nothing: compaction has removed
                # everything between the offset and the end, or the last stable offset.
                self.found[missing.pop(0)] = None
            if not missing:
                return
            if received + size <= max(RESPONSE_BYTES, size):
                # There was room for more, so their batches are larger than what was asked for.
                size = min(size * GROWTH, LARGEST)
            self.send(missing, size)

    def _receive(self, timeout: float) -> int:
        """Add the answers of one response; returns how many bytes of records it has."""
        received = 0
        for fetched in self._client.receive(bytearray(LEAST_BYTES), timeout).partitions:
            received += len(fetched.records)
            tp = self._by_key.get((fetched.topic, fetched.partition))
            if tp is not None:
                self._add(tp, fetched)
        return received

    def _add(self, tp: TopicPartition, fetched: FetchedPartition) -> None:
        if fetched.error_code == OFFSET_OUT_OF_RANGE:
            self.found[tp] = None
            return
        try:
            check(fetched.error_code, f"records of {tp}")
            if len(fetched.records) or fetched.readable(self._read_committed) <= self._offsets[tp]:
                self.found[tp] = self._look(tp, fetched)
        except RetriableError as error:
            self.refused[tp] = error


def decode_chunk(
    tp: TopicPartition, fetched: FetchedPartition, columns: Sequence[str], first: int, stop: int, config: ClientConfig
) -> Iterator[pa.RecordBatch]:
    """The records of a chunk with offsets in [first, stop), as a reader gets them: no markers, no aborted records.

    Raises CorruptBatch.
    """
    # Imported here: a planner needs them only for look-ups.
    import pyarrow as pa

    from penstock._kernel import Decoder

    decoder = Decoder(tp.topic, tp.partition, columns, decompression_limit=config.decompression_limit)
    first = max(first, fetched.log_start)  # deleted records are still in their batch
    position = 0
    try:
        while position < len(fetched.records):
            decoder.open(
                fetched.records,
                start=first,
                stop=stop,
                high_watermark=fetched.high_watermark,
                aligned=False,
                cut=True,
                aborted=fetched.aborted if config.read_committed else None,
                position=position,
            )
            while (batch := decoder.next_batch()) is not None:
                yield pa.record_batch(batch)
            if not decoder.legacy:
                return
            from penstock.wire.message_set import decode_legacy  # rare, so imported only when needed

            start, began, limit = max(decoder.next_offset, first), decoder.position, config.decompression_limit
            old, first, position = decode_legacy(fetched.records, began, *tp, columns, start, stop, limit)
            if old is not None:
                yield old
            if position == began or first >= stop:
                return
    finally:
        decoder.close()
