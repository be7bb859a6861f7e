"""A look at records before an offset, on the driver: up to which event time a stream that is started again has read.

Only for a time in the payload. Of record timestamps brokers have an index.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from penstock.errors import PenstockError
from penstock.eventtime.span import EventTimeSpan
from penstock.fetch.reader import RangeReader
from penstock.formats.layout import Layout
from penstock.formats.plan import TypedPlan
from penstock.formats.typed import TypedColumns
from penstock.options import SourceOptions
from penstock.plan import range_of
from penstock.topics import TopicPartition
from penstock.wire.cluster import Cluster
from penstock.wire.metadata import Metadata

log = logging.getLogger(__name__)

FIRST_LOOK, GROWTH, LOOKS = 500, 8, 3
"""How many offsets back a look begins, and how it grows while no record with a time is found: after transactions and
compaction not every offset is a record, and not every record has a time."""

THREADS = 8

PATIENCE_SECONDS = 10.0
"""For a partition that does not answer: the query goes on without, and its event-time watermark begins anew."""


def event_times_before(
    before: Mapping[TopicPartition, int], plan: TypedPlan, options: SourceOptions, cluster: Cluster
) -> dict[TopicPartition, int | None]:
    """The highest event time (ms) of the last few records before an offset; None where nothing is found."""
    begin = cluster.begin(before)
    metadata = cluster.known
    assert metadata is not None, "the cluster has told where logs begin"
    # Only looked at: nothing fails, and nothing is written anywhere, because of a record that does not parse.
    looking = replace(plan, layout=Layout(()), mode="PERMISSIVE", dead_letter_topic=None)
    look = partial(_highest, looking, options, metadata)
    with ThreadPoolExecutor(THREADS, "penstock-peek") as threads:
        found = threads.map(look, before, (begin[tp] for tp in before), before.values())
        return dict(zip(before, found, strict=True))


def _highest(
    plan: TypedPlan, options: SourceOptions, metadata: Metadata, tp: TopicPartition, begin: int, stop: int
) -> int | None:
    span = EventTimeSpan()
    offsets = FIRST_LOOK
    try:
        for _ in range(LOOKS):
            start = max(begin, stop - offsets)
            if start >= stop:
                break
            reader = RangeReader(
                range_of(tp, start, stop, metadata),
                plan.fetched,
                options.client,
                fail_on_data_loss=False,
                poll_timeout=min(options.poll_timeout, PATIENCE_SECONDS),
            )
            columns = TypedColumns(plan, tp.topic, tp.partition, span=span)
            for records in reader:
                columns.batch(records)
            if span.highest is not None or start == begin:
                break
            offsets *= GROWTH
    except PenstockError as error:
        log.warning("which event time %s was read up to is not known, its watermark begins anew: %s", tp, error)
    return span.highest
