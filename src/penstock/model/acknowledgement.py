"""Records of a share group: what is acquired, and how it is acknowledged (KIP-932)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class SharedPartition(NamedTuple):
    """A partition as share sessions name it."""

    topic_id: uuid.UUID
    partition: int


class AcquiredRange(NamedTuple):
    """Consecutive offsets that were acquired together. There need not be a record at each of them."""

    first: int
    last: int
    delivery_count: int
    """How often the records were acquired, this time included."""


class AcknowledgeType(IntEnum):
    """What a member says about an acquired record."""

    GAP = 0
    """There is no record at this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AckBatch(NamedTuple):
    """Acknowledgements of consecutive offsets: one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]
