"""The share session with one broker (KIP-932): which partitions it has, and the epoch of the next request. Pure.

    NEW ──fetch with epoch 0──> OPEN ──epochs 1, 2, ...──> OPEN ──epoch -1──> CLOSED
     ^                            │
     └──the broker does not know──┘
        the session or its epoch

Acknowledgements are sent in an open session only. The broker fetches all partitions of the session with each fetch, so
a partition whose streams are full is removed, and added again later.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.model.acknowledgement import SharedPartition

FIRST_EPOCH, FINAL_EPOCH = 0, -1
"""Epochs that open and close a session."""

LAST_EPOCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SessionChange:
    """What the next fetch says about the partitions of the session."""

    epoch: int
    added: tuple[SharedPartition, ...]
    forgotten: tuple[SharedPartition, ...]


class ShareSession:
    """For one thread."""

    def __init__(self) -> None:
        self._epoch = FIRST_EPOCH
        self._partitions: dict[SharedPartition, None] = {}

    @property
    def is_open(self) -> bool:
        """Whether acknowledgements can be sent."""
        return self._epoch != FIRST_EPOCH and self._epoch != FINAL_EPOCH

    @property
    def epoch(self) -> int:
        """The epoch of the next request."""
        return self._epoch

    @property
    def partitions(self) -> Collection[SharedPartition]:
        return self._partitions.keys()

    def fetch(self, wanted: Collection[SharedPartition]) -> SessionChange:
        """The next request fetches these partitions."""
        before = {} if self._epoch == FIRST_EPOCH else self._partitions
        self._partitions = dict.fromkeys(wanted)
        added = tuple(each for each in self._partitions if each not in before)
        return SessionChange(self._epoch, added, tuple(each for each in before if each not in self._partitions))

    def answered(self) -> None:
        """The broker has carried out a request of this session."""
        self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1

    def restart(self) -> None:
        """The broker does not know this session (any more): the next fetch opens another one."""
        self._epoch = FIRST_EPOCH
        self._partitions = {}

    def close(self) -> int:
        """The epoch of the last request."""
        self._epoch = FINAL_EPOCH
        return FINAL_EPOCH
