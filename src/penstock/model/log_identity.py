"""Whether a partition still has the log that was read: the checks for recreated topics and truncated logs.

The planner, the readers and the consumer ask the cluster in their own ways and at their own times. They all decide by
these functions.
"""

from __future__ import annotations

import uuid


def is_recreated(known_id: uuid.UUID | None, listed_id: uuid.UUID | None) -> bool:
    """Whether a topic was deleted and created again: the cluster lists its name with another id.

    Brokers before Kafka 2.8 have no topic ids (None), and cannot tell.
    """
    return known_id is not None and listed_id is not None and known_id != listed_id


def leader_changed(read_epoch: int, leader_epoch: int) -> bool:
    """Whether a newer leader than the one that was read from leads now, so that its log may be truncated.

    An epoch of -1 is not known, and proves nothing.
    """
    return 0 <= read_epoch < leader_epoch


def truncated_at(epoch_end: int, position: int) -> int | None:
    """The offset at which a log was truncated below `position`, or None if it was not.

    `epoch_end` is the leader's answer to OffsetForLeaderEpoch for the epoch that was read: the end offset of that epoch
    in its own log, -1 if it does not know. A leader elected from replicas that lagged (an unclean election) lacks
    records that could be read before, and gives their offsets to other records.
    """
    return epoch_end if 0 <= epoch_end < position else None
