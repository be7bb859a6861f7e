"""A look at a topic's newest records, on the driver."""

from __future__ import annotations

from penstock.config.source import SourceOptions
from penstock.model.subscription import wanted_topics
from penstock.planner.batch import partitions_of, range_of
from penstock.reader.range_reader import RangeReader
from penstock.wire.cluster import Cluster


def newest(options: SourceOptions, column: str, count: int) -> list[bytes | None]:
    """About `count` keys or values, as many from each partition; fewer if there are no more."""
    cluster = Cluster(options.client)
    metadata = cluster.metadata(wanted_topics(options.subscription))
    partitions = partitions_of(options, metadata)
    begin, end = cluster.begin(partitions), cluster.end(partitions)
    share = -(-count // max(1, len(partitions)))
    found: list[bytes | None] = []
    for tp in partitions:
        offsets = share
        newest: list[bytes | None] = []
        while end[tp] > begin[tp] and len(found) < count:
            # Not every offset is a record: after transactions and compaction it takes a longer look back.
            start = max(begin[tp], end[tp] - offsets)
            reader = RangeReader(
                range_of(tp, start, end[tp], metadata),
                [column],
                options.client,
                fail_on_data_loss=False,
                poll_timeout=options.poll_timeout,
            )
            newest = [value for batch in reader for value in batch.column(0).to_pylist()]
            if len(newest) >= share or start == begin[tp]:
                break
            offsets *= 8
        found += newest[-share:]
    return found[:count]
