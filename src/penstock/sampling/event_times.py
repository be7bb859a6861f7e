"""A look at few records on the driver: up to which event time a stream that is started again has read, and where the
next records of a partition lie that was never read.

Only for a time in the payload. Of record timestamps brokers have an index.
"""

from __future__ import annotations

import logging
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
from penstock.model.topic_partition import TopicPartition
from penstock.planner.alignment.pace import Ahead
from penstock.planner.batch import range_of
from penstock.reader.range_reader import RangeReader
from penstock.wire.cluster import Cluster

log = logging.getLogger(__name__)
Found = TypeVar("Found")

FIRST_LOOK, GROWTH, LOOKS = 500, 8, 3
"""How many offsets back a look begins, and how it grows while no record with a time is found: after transactions and
compaction not every offset is a record, and not every record has a time."""

THREADS = 8

PATIENCE_SECONDS = 10.0
"""For a partition that does not answer: the query goes on without, and its event-time watermark begins anew."""


LOOK_AHEAD = 100
"""Offsets by which the next records of a partition are judged before any of them was read."""


class PayloadPeek:
    """Event times of few records, looked at on the driver. For one thread."""

    def __init__(self, plan: TypedPlan, options: SourceOptions) -> None:
        # Only looked at: nothing fails, and nothing is written anywhere, because of a record that does not parse.
        self._plan = replace(plan, layout=Layout(()), mode="PERMISSIVE", dead_letter_topic=None)
        self._options = options
        self._cluster = Cluster(options.client)

    def before(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The highest event time (ms) of the last few records before an offset; None where nothing is found."""
        begin = self._cluster.begin(offsets)

        def look(tp: TopicPartition) -> int | None:
            back, stop = FIRST_LOOK, offsets[tp]
            for _ in range(LOOKS):
                start = max(begin[tp], stop - back)
                span = self._span(tp, start, stop)
                if span is None or span.highest is not None or start == begin[tp]:
                    return None if span is None else span.highest
                back *= GROWTH
            return None

        return self._all(look, offsets)

    def after(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Ahead | None]:
        """What comes next."""
        begin = self._cluster.begin(offsets)

        def look(tp: TopicPartition) -> Ahead | None:
            start = max(begin[tp], offsets[tp])
            span = self._span(tp, start, stop := min(ends[tp], start + LOOK_AHEAD))
            if span is None or span.lowest is None or span.highest is None:
                return None
            return Ahead(span.lowest, span.highest, stop - start)

        return self._all(look, offsets)

    def _all(
        self, look: Callable[[TopicPartition], Found], partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Found]:
        with ThreadPoolExecutor(THREADS, "penstock-peek") as threads:
            return dict(zip(partitions, threads.map(look, partitions), strict=True))

    def _span(self, tp: TopicPartition, start: int, stop: int) -> EventTimeSpan | None:
        """None if it cannot be read."""
        span = EventTimeSpan()
        metadata = self._cluster.known
        assert metadata is not None, "the cluster has told where logs begin"
        if start >= stop:
            return span
        try:
            reader = RangeReader(
                range_of(tp, start, stop, metadata),
                self._plan.fetched,
                self._options.client,
                fail_on_data_loss=False,
                poll_timeout=min(self._options.poll_timeout, PATIENCE_SECONDS),
            )
            columns = TypedColumns(self._plan, tp.topic, tp.partition, span=span)
            for _ in columns.batches(reader):
                pass
        except PenstockError as error:
            log.warning("the event times of %s around offset %d are not known: %s", tp, start, error)
            return None
        return span
