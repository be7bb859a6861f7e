"""Runs a user's deserializer on single records on the driver: does one of them end the stream (F4)?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from penstock.config.source import SourceOptions
from penstock.errors import PenstockError
from penstock.formats.layout import Layout
from penstock.formats.plan import TypedPlan
from penstock.formats.typed import TypedColumns
from penstock.masking import get_logger
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.planner.batch import range_of
from penstock.reader.range_reader import RangeReader
from penstock.wire.cluster import Cluster, Metadata

log = get_logger(__name__)

THREADS = 8

TIMEOUT_SECONDS = 10.0
"""For a partition whose leader does not answer. The planner asks again at the next trigger."""


class EndRecordReader:
    """Reads the records that a run begins with. For one thread."""

    def __init__(self, plan: TypedPlan, options: SourceOptions) -> None:
        # A record that does not parse fails the task that reads it, not the look at it.
        self._plan = replace(plan, layout=Layout(()), mode="PERMISSIVE", dead_letter_topic=None, where=None)
        self._options = options
        self._cluster = Cluster(options.client)

    def ends_at(self, offsets: Offsets) -> dict[TopicPartition, bool | None]:
        """Whether the record at an offset ends its partition; None if it cannot be read now."""
        if not offsets:
            return {}
        begin = self._cluster.begin(offsets)
        metadata = self._cluster.known
        assert metadata is not None, "looking up first offsets has fetched metadata"

        def look(tp: TopicPartition) -> bool | None:
            return offsets[tp] >= begin[tp] and self._ends(tp, offsets[tp], metadata)

        with ThreadPoolExecutor(THREADS, "penstock-ends") as threads:
            return dict(zip(offsets, threads.map(look, offsets), strict=True))

    def _ends(self, tp: TopicPartition, offset: int, metadata: Metadata) -> bool | None:
        """Called by several threads."""
        reader = RangeReader(
            range_of(tp, offset, offset + 1, metadata),
            self._plan.fetched,
            self._options.client,
            fail_on_data_loss=False,
            poll_timeout=min(self._options.poll_timeout, TIMEOUT_SECONDS),
        )
        columns = TypedColumns(self._plan, tp.topic, tp.partition)
        try:
            for _ in columns.batches(reader):
                pass
        except PenstockError as error:
            log.warning("the record of %s at offset %d cannot be read: %s", tp, offset, error)
            return None
        finally:
            columns.close()
        return columns.ended_at is not None
