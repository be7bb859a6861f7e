"""A partition that is assigned to a member of a share group."""

from __future__ import annotations

from typing import Any, Protocol

from penstock.model.acknowledgement import SharedPartition
from penstock.model.topic_partition import TopicPartition


class ShareChunkReader(Protocol):
    """The stream that gets the records. Any thread may call every method."""

    @property
    def wanted(self) -> int:
        """How many records to acquire for the stream now; 0 if it has no room."""

    def put(self, chunk: Any) -> bool:
        """Put a ShareChunk on the queue of the stream; False after a shutdown."""


class SharePartition:
    """From its assignment until it is taken away. Other members may have the same partition at the same time."""

    __slots__ = ("key", "member_id", "reader", "revoked", "tp")

    def __init__(self, tp: TopicPartition, key: SharedPartition, member_id: str, reader: ShareChunkReader) -> None:
        self.tp = tp
        self.key = key
        """The partition as share sessions name it: a recreated topic has another id."""
        self.member_id = member_id
        self.reader = reader
        self.revoked = False

    def __repr__(self) -> str:
        return f"SharePartition({self.tp})"
