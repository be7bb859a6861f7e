"""Checks whether a run begins at a record that ends the whole stream (F4, `endOfStream=any`).

The offset log holds offsets only. A query that ended keeps the ended partition at the record that ended it, and the
others where they stood. When it restarts, a task would find that record again, but the same batch would read on in the
other partitions. So the planner looks at the next record of each partition before the first batch of a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.masking import get_logger
from penstock.model.topic_partition import Offsets, TopicPartition, listed

log = get_logger(__name__)

WARNING_SECONDS = 60.0


class EndRecordLookup(Protocol):
    """Runs the deserializer on single records."""

    def ends_at(self, offsets: Offsets) -> Mapping[TopicPartition, bool | None]:
        """Whether the record at an offset ends its partition; None if it cannot be read now."""


class EndCheck:
    """The check of one run. For one thread."""

    def __init__(self, lookup: EndRecordLookup, clock: Callable[[], float] = time.monotonic) -> None:
        self._lookup = lookup
        self._clock = clock
        self._left: set[TopicPartition] | None = None
        """Partitions that were not looked at yet; None before the first call."""
        self._warned_at = float("-inf")

    @property
    def done(self) -> bool:
        return self._left is not None and not self._left

    def look(self, position: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
        """The partitions whose next record ends the stream, with its offset. `ends` lacks partitions without a leader:
        a later call looks at them."""
        if self._left is None:
            self._left = set(position)
        self._left &= position.keys()
        known = {tp: position[tp] for tp in self._left if tp in ends}
        found = self._lookup.ends_at({tp: at for tp, at in known.items() if at < ends[tp]})
        self._left -= {tp for tp in known if found.get(tp, False) is not None}
        if self._left and self._clock() >= self._warned_at + WARNING_SECONDS:
            self._warned_at = self._clock()
            log.warning(
                "the next records of %s cannot be read: the query waits, because one of them may end it "
                "(endOfStream=any)",
                listed(sorted(self._left)),
            )
        return {tp: known[tp] for tp, ends_here in found.items() if ends_here}
