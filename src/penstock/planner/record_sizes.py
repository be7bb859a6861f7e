"""Samples how large a stream's next records are, for maxBytesPerTrigger and the metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.config.stream import StreamOptions
from penstock.errors import BrokerError
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition

log = get_logger(__name__)

SAMPLE_SECONDS = 30.0
"""Between two samples of a partition if only the metrics use them."""

LIMITED_SAMPLE_SECONDS = 5.0
"""The same if maxBytesPerTrigger depends on them. A partition is sampled at once when it first has a backlog. A sample
costs milliseconds, or more where batches are large, and sizes change slowly."""

SAMPLED_PARTITIONS = 100
"""Partitions of a sample if only the metrics use it: enough for an average, and one small fetch."""


class SizeLookup(Protocol):
    def bytes_per_record(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]: ...


class RecordSizes:
    """The average size of each partition's next records. For one thread."""

    def __init__(self, options: StreamOptions, lookup: SizeLookup, clock: Callable[[], float]) -> None:
        self.bytes_per_record: dict[TopicPartition, float] = {}
        self._is_limit = options.max_bytes is not None
        self._is_wanted = self._is_limit or options.report_metrics
        self._interval = LIMITED_SAMPLE_SECONDS if self._is_limit else SAMPLE_SECONDS
        self._lookup = lookup
        self._clock = clock
        self._sampled_at = float("-inf")
        self._sampled: set[TopicPartition] = set()
        """Partitions that were sampled since then."""

    def sample(self, backlog: Mapping[TopicPartition, int], position: Mapping[TopicPartition, int]) -> None:
        """Look at the next records of partitions with a backlog, if it is time to."""
        if not backlog or not self._is_wanted:
            return
        now = self._clock()
        if now >= self._sampled_at + self._interval:
            self._sampled_at, self._sampled = now, set()
            self.bytes_per_record = {tp: size for tp, size in self.bytes_per_record.items() if tp in position}
        elif not self._is_limit:
            return
        partitions = [tp for tp in backlog if tp not in self._sampled]
        if not self._is_limit:
            partitions = partitions[:SAMPLED_PARTITIONS]
        if not partitions:
            return
        self._sampled.update(partitions)
        try:
            self.bytes_per_record |= self._lookup.bytes_per_record({tp: position[tp] for tp in partitions})
        except BrokerError as error:
            log.info("the size of records is unknown: %s", error)
