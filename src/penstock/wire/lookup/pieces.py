"""A small piece of many logs: what lies at an offset of each partition, by one fetch per leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from kafka.protocol.consumer import FetchRequest

from penstock.errors import ProtocolError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import OFFSET_OUT_OF_RANGE, RetriableError, check
from penstock.wire.api.fetch import (
    HIGHEST,
    NAMES_ONLY,
    FetchedPartition,
    FetchPosition,
    fetch_request,
    read_fetch_response,
)
from penstock.wire.api.metadata import Metadata
from penstock.wire.client_config import ClientConfig
from penstock.wire.transport.connection import Connection, Pending

if TYPE_CHECKING:
    import pyarrow as pa

LEAST_BYTES = 16 << 10
"""Of each partition: a batch as Java's producer makes it by default. Where the batch is larger a broker sends nothing
of it unless it comes first in the answer. Such partitions are asked again for `GROWTH` times as much. Those for which
an answer had no room are asked again for the same."""

GROWTH = 16
LARGEST = 64 << 20
RESPONSE_BYTES = 4 << 20

Found = TypeVar("Found")


def ask_pieces(
    connection: Connection,
    offsets: Mapping[TopicPartition, int],
    metadata: Metadata,
    size: int,
    look: Callable[[TopicPartition, FetchedPartition], Found],
) -> Pending[tuple[dict[TopicPartition, Found | None], dict[TopicPartition, RetriableError]]]:
    """Ask a leader for about `size` bytes of each partition, from these offsets on.

    `look` makes the answer of what came, which may be nothing if the offset is the end; it may raise
    RetriableError. None where the offset is outside the log, or nothing is left between it and the end.
    """
    positions = {tp: _position(tp, offset, metadata) for tp, offset in offsets.items()}
    named = any(position.topic_id is None for position in positions.values())
    version = connection.version(FetchRequest, at_most=NAMES_ONLY if named else HIGHEST)
    names = {p.topic_id if version > NAMES_ONLY else p.topic: p.topic for p in positions.values()}

    def send(partitions: list[TopicPartition], size: int) -> int:
        # No rack: a leader that recommends another replica would send no records.
        request = fetch_request(
            version,
            [positions[tp] for tp in partitions],
            connection.config,
            max_bytes=max(RESPONSE_BYTES, size),
            partition_max_bytes=size,
            max_wait=0,
        )
        return connection.send(request, connection.config.request_timeout)

    asked = send(list(offsets), size)

    def read(timeout: float) -> tuple[dict[TopicPartition, Found | None], dict[TopicPartition, RetriableError]]:
        found: dict[TopicPartition, Found | None] = {}
        refused: dict[TopicPartition, RetriableError] = {}
        correlation_id, asked_size = asked, size
        while True:
            frame = connection.receive_into(bytearray(LEAST_BYTES), timeout)
            try:
                response = read_fetch_response(frame, version, correlation_id, connection.address)
            except ProtocolError:
                connection.close()  # out of step: not to be reused
                raise
            before = len(found) + len(refused)
            for fetched in response.partitions:
                tp = TopicPartition(names.get(fetched.topic, ""), fetched.partition)
                if tp not in offsets:
                    continue
                try:
                    if fetched.error_code == OFFSET_OUT_OF_RANGE:
                        found[tp] = None
                        continue
                    check(fetched.error_code, f"records of {tp}")
                    if len(fetched.records) or fetched.readable(connection.config.read_committed) <= offsets[tp]:
                        found[tp] = look(tp, fetched)
                except RetriableError as error:
                    refused[tp] = error
            silent = [tp for tp in offsets if tp not in found and tp not in refused]
            if not silent:
                return found, refused
            if len(found) + len(refused) == before:
                # A broker always serves the first of a request, so there is nothing: compaction has taken all that lay
                # between here and the end, or the last stable offset.
                found[silent.pop(0)] = None
                if not silent:
                    return found, refused
            came = sum(len(fetched.records) for fetched in response.partitions)
            if came + asked_size <= max(
                RESPONSE_BYTES, asked_size
            ):  # there was room for more: their batches are larger
                asked_size = min(asked_size * GROWTH, LARGEST)
            correlation_id = send(silent, asked_size)

    return read


def decoded(
    tp: TopicPartition, fetched: FetchedPartition, columns: Sequence[str], first: int, stop: int, config: ClientConfig
) -> Iterator[pa.RecordBatch]:
    """The records with offsets in [first, stop) of a piece: only what a reader gets, without markers and aborted ones.

    Raises CorruptBatch.
    """
    # Both are loaded by who reads records, and not by who plans.
    import pyarrow as pa

    from penstock._kernel import Decoder

    decoder = Decoder(tp.topic, tp.partition, columns, decompression_limit=config.decompression_limit)
    first = max(first, fetched.log_start)  # what was deleted is still in its batch
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
            from penstock.wire.message_set import decode_legacy  # rarely met, so rarely loaded

            start, began, limit = max(decoder.next_offset, first), decoder.position, config.decompression_limit
            old, first, position = decode_legacy(fetched.records, began, *tp, columns, start, stop, limit)
            if old is not None:
                yield old
            if position == began or first >= stop:
                return
    finally:
        decoder.close()


def _position(tp: TopicPartition, offset: int, metadata: Metadata) -> FetchPosition:
    leader = metadata.leader(tp)
    epoch = -1 if leader is None else leader.epoch
    return FetchPosition(tp.topic, tp.partition, offset, metadata.topics[tp.topic].topic_id, epoch)
