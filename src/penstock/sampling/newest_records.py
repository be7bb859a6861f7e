"""Reads the newest records of topics on the driver, to infer their schema."""

from __future__ import annotations

from penstock.config.source import SourceOptions
from penstock.model.subscription import wanted_topics
from penstock.planner.batch import partitions_of, range_of
from penstock.reader.range_reader import RangeReader
from penstock.wire.cluster import Cluster

GROWTH = 8
"""How the sample of a partition grows while it holds too few records: after transactions and compaction not every
offset is a record."""


def newest_values(options: SourceOptions, column: str, count: int) -> list[bytes | None]:
    """About `count` keys or values, the same number from each partition; fewer if there are no more."""
    cluster = Cluster(options.client)
    metadata = cluster.metadata(wanted_topics(options.subscription))
    partitions = partitions_of(options, metadata)
    begin, end = cluster.begin(partitions), cluster.end(partitions)
    share = -(-count // max(1, len(partitions)))
    found: list[bytes | None] = []
    for tp in partitions:
        offsets = share
        values: list[bytes | None] = []
        while end[tp] > begin[tp] and len(found) < count:
            start = max(begin[tp], end[tp] - offsets)
            reader = RangeReader(
                range_of(tp, start, end[tp], metadata),
                [column],
                options.client,
                fail_on_data_loss=False,
                poll_timeout=options.poll_timeout,
            )
            values = [value for batch in reader for value in batch.column(0).to_pylist()]
            if len(values) >= share or start == begin[tp]:
                break
            offsets *= GROWTH
        found += values[-share:]
    return found[:count]
