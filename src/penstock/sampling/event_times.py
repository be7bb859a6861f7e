"""Samples event times in the payload on the driver: up to which time a restarted stream has read, and the times of the
next records of a partition that was never read.

Record timestamps need no sample: brokers have an index of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from penstock.config.source import SourceOptions
from penstock.errors import PenstockError
from penstock.eventtime.span import EventTimeSpan
from penstock.formats.layout import Layout
from penstock.formats.plan import TypedPlan
from penstock.formats.typed import TypedColumns
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.planner.alignment.lookup import NextRecords
from penstock.planner.batch import range_of
from penstock.reader.range_reader import RangeReader
from penstock.wire.cluster import Cluster

log = get_logger(__name__)
Sample = TypeVar("Sample")

BACK, GROWTH, ATTEMPTS = 500, 8, 3
"""Offsets of the first sample before a position, and how it grows while no record with a time is found: after
transactions and compaction not every offset is a record, and not every record has a time."""

NEXT = 100
"""Offsets of the sample of a partition's next records."""

THREADS = 8

TIMEOUT_SECONDS = 10.0
"""For a partition whose leader does not answer. The query goes on without its event times."""


class PayloadSampler:
    """Reads event times from the payloads of a few records. For one thread."""

    def __init__(self, plan: TypedPlan, options: SourceOptions) -> None:
        # A record of the sample that does not parse fails nothing, and writes no dead letter.
        self._plan = replace(plan, layout=Layout(()), mode="PERMISSIVE", dead_letter_topic=None, where=None)
        self._options = options
        self._cluster = Cluster(options.client)

    def before(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The highest event time (ms) of the last records before an offset; None if none is found."""
        begin = self._cluster.begin(offsets)

        def sample(tp: TopicPartition) -> int | None:
            back, stop = BACK, offsets[tp]
            for _ in range(ATTEMPTS):
                start = max(begin[tp], stop - back)
                span = self._span(tp, start, stop)
                if span is None or span.highest is not None or start == begin[tp]:
                    return None if span is None else span.highest
                back *= GROWTH
            return None

        return self._all(sample, offsets)

    def after(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, NextRecords | None]:
        """The event times of the next records from an offset on; None if none is found."""
        begin = self._cluster.begin(offsets)

        def sample(tp: TopicPartition) -> NextRecords | None:
            start = max(begin[tp], offsets[tp])
            span = self._span(tp, start, stop := min(ends[tp], start + NEXT))
            if span is None or span.lowest is None or span.highest is None:
                return None
            return NextRecords(span.lowest, span.highest, stop - start)

        return self._all(sample, offsets)

    def _all(
        self, sample: Callable[[TopicPartition], Sample], partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Sample]:
        with ThreadPoolExecutor(THREADS, "penstock-sample") as threads:
            return dict(zip(partitions, threads.map(sample, partitions), strict=True))

    def _span(self, tp: TopicPartition, start: int, stop: int) -> EventTimeSpan | None:
        """The event times of a range; None if it cannot be read. Called by several threads."""
        span = EventTimeSpan()
        metadata = self._cluster.known
        assert metadata is not None, "looking up first offsets has fetched metadata"
        if start >= stop:
            return span
        try:
            reader = RangeReader(
                range_of(tp, start, stop, metadata),
                self._plan.fetched,
                self._options.client,
                fail_on_data_loss=False,
                poll_timeout=min(self._options.poll_timeout, TIMEOUT_SECONDS),
            )
            columns = TypedColumns(self._plan, tp.topic, tp.partition, span=span)
            try:
                for _ in columns.batches(reader):
                    pass
            finally:
                columns.close()
        except PenstockError as error:
            log.warning("the event times of %s around offset %d are unknown: %s", tp, start, error)
            return None
        return span
