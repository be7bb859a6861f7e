"""The decoders of one stream, kept between chunks."""

from __future__ import annotations

import threading
from typing import Protocol

from penstock.model.topic_partition import TopicPartition
from penstock.reader.chunk_decoder import ChunkDecoder
from penstock.wire.client_config import ClientConfig

MAX_DECODERS = 4
"""Decoders of the partitions read last. Each keeps its working memory, which grows to that of its largest batch."""


class ReadPartition(Protocol):
    """A partition that a stream reads, from its assignment to its revocation."""

    @property
    def tp(self) -> TopicPartition: ...

    @property
    def revoked(self) -> bool: ...


class DecoderCache:
    """Decoders by partition and columns. Every method may be called by any thread."""

    def __init__(self, client: ClientConfig, lock: threading.RLock) -> None:
        """`lock`: the stream's. A revocation removes decoders while the stream's thread takes others."""
        self._client = client
        self._lock = lock
        self._kept: dict[tuple[ReadPartition, tuple[str, ...]], ChunkDecoder] = {}

    def get(self, cursor: ReadPartition, columns: tuple[str, ...]) -> ChunkDecoder:
        key = (cursor, columns)
        with self._lock:
            decoder = self._kept.pop(key, None)
            if decoder is None:
                decoder = ChunkDecoder(cursor.tp.topic, cursor.tp.partition, columns, self._client)
                while len(self._kept) >= MAX_DECODERS:
                    del self._kept[next(iter(self._kept))]
            self._kept[key] = decoder  # the most recently used one is last
            return decoder

    def forget(self, cursor: ReadPartition) -> None:
        with self._lock:
            for key in [key for key in self._kept if key[0] is cursor]:
                self._kept.pop(key, None)
