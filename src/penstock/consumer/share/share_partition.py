"""A partition that is assigned to this member of a share group."""

from __future__ import annotations

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.share_acknowledge import SharedPartition


class SharePartition:
    """From its assignment until it is taken away. Other members may have the same partition at the same time."""

    __slots__ = ("key", "revoked", "tp")

    def __init__(self, tp: TopicPartition, key: SharedPartition) -> None:
        self.tp = tp
        self.key = key
        """The partition as share sessions name it: a recreated topic has another id."""
        self.revoked = False

    def __repr__(self) -> str:
        return f"SharePartition({self.tp})"
