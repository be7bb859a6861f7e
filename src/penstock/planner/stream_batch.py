"""Turns one step of the offset log into the ranges of a batch.

The offset log alone decides: a step that is replayed after a crash is planned from its two offsets and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.config.source import SourceOptions
from penstock.masking import get_logger
from penstock.model.offset_range import OffsetRange
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.model.watermark_columns import Watermarks
from penstock.planner.alignment.alignment import Alignment
from penstock.planner.batch import range_of
from penstock.planner.checkpoint import Checkpoint
from penstock.planner.log_bounds import LogBounds
from penstock.planner.losses import DELETED, RECREATED, Loss
from penstock.planner.partition_discovery import Discovery
from penstock.planner.range_splitting import split, spread
from penstock.planner.truncation import Truncation
from penstock.wire.cluster import Metadata

log = get_logger(__name__)


class EndLookup(Protocol):
    """What this module asks a cluster."""

    @property
    def known(self) -> Metadata | None: ...
    def end(self, partitions: Iterable[TopicPartition]) -> Offsets: ...


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One planned batch, and what planning has found on the way."""

    start: Offsets
    end: Offsets
    ranges: list[OffsetRange] = field(default_factory=list)
    watermarks: Mapping[TopicPartition, Watermarks] = field(default_factory=dict)
    """The combined event-time watermark and that of the partition, before this batch."""
    deleted: Offsets = field(default_factory=dict)
    """Partitions that no longer exist, and where the batch wanted to start."""
    recreated: frozenset[TopicPartition] = frozenset()
    lost: tuple[Loss, ...] = ()


class StreamBatchPlanner:
    """Plans the batches of one stream. For one thread."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: EndLookup,
        discovery: Discovery,
        bounds: LogBounds,
        truncation: Truncation,
        checkpoint: Checkpoint,
        alignment: Alignment | None,
        *,
        whole_partitions: bool,
    ) -> None:
        """`whole_partitions`: one task reads all of a partition. A task that starts in the middle could not know that a
        deserializer has ended the partition before (F4)."""
        self._options = options
        self._cluster = cluster
        self._discovery, self._bounds, self._truncation = discovery, bounds, truncation
        self._checkpoint = checkpoint
        self._alignment = alignment
        self._whole_partitions = whole_partitions
        if whole_partitions and (options.min_partitions or options.max_records_per_partition):
            log.warning(
                "minPartitions and maxRecordsPerPartition have no effect: the deserializer may end the stream, and "
                "only a task that reads all of a partition knows where"
            )

    def plan(
        self, start: Offsets, end: Offsets, *, is_newest: bool, recreated: Collection[TopicPartition]
    ) -> StreamBatch:
        """Plan the step from `start` to `end`. `is_newest`: the planner has just answered `end`; otherwise an earlier
        run did, and logs may have changed since. `recreated`: partitions that are known to be recreated.

        Raises UnknownTopic if a topic is deleted between two questions; planning again finds it.
        """
        # A partition that goes back was moved: the batch reads nothing of it.
        wanted = {tp: start.get(tp) for tp in end if start.get(tp, -1) < end[tp]}
        if not wanted:
            return StreamBatch(dict(start), dict(end))
        begin, deleted = self._bounds.begins(wanted)
        renewed = {name for name in {tp.topic for tp in begin} if self._discovery.is_recreated(name)}
        replaced = frozenset(tp for tp in begin if tp.topic in renewed) if renewed else frozenset()
        if replaced:
            begin = {tp: offset for tp, offset in begin.items() if tp not in replaced}
        lost = [Loss(tp, _offsets_text(wanted[tp], end[tp]), DELETED) for tp in deleted]
        lost += [Loss(tp, _offsets_text(wanted[tp], end[tp]), RECREATED) for tp in replaced]
        first, expired = first_offsets(wanted, begin, end)
        stop = self._stops({tp: end[tp] for tp in begin}, is_newest)
        lost += expired
        lost += [Loss(tp, f"up to offset {end[tp]}", f"offsets up to {stop[tp]}") for tp in begin if stop[tp] < end[tp]]
        watermarks: Mapping[TopicPartition, Watermarks] = {}
        if self._alignment is not None:
            if not is_newest:
                # The batch moves some partitions and adds others: these stand at its end.
                partitions = self._checkpoint.split(end)[0].keys() | begin.keys()
                position = {tp: min(first.get(tp, start.get(tp, end[tp])), end[tp]) for tp in partitions}
                self._restore_watermarks(self._alignment, position, replaced.union(recreated))
            watermarks = self._alignment.watermarks(begin)
        return StreamBatch(
            dict(start),
            dict(end),
            self._split({tp: (first[tp], stop[tp]) for tp in begin if first[tp] < stop[tp]}),
            watermarks,
            {tp: wanted[tp] or 0 for tp in deleted},
            replaced,
            tuple(lost),
        )

    def _split(self, offsets: Mapping[TopicPartition, tuple[int, int]]) -> list[OffsetRange]:
        known = self._cluster.known
        assert known is not None, "looking up first offsets has fetched metadata"
        ranges = [range_of(tp, start, stop, known) for tp, (start, stop) in offsets.items()]
        if self._whole_partitions:
            return spread(ranges)
        return spread(split(ranges, self._options.min_partitions, self._options.max_records_per_partition))

    def _stops(self, end: Offsets, is_newest: bool) -> Offsets:
        """Where the batch stops: at its end, unless an earlier run planned it and the log was truncated since."""
        if is_newest:
            return end
        available = self._cluster.end(end)
        past_end = {tp: offset for tp, offset in end.items() if available[tp] < offset}
        return end | self._truncation.shorter(past_end, available)

    def _restore_watermarks(
        self, alignment: Alignment, position: Offsets, recreated: Collection[TopicPartition]
    ) -> None:
        """Find the combined event-time watermark before a batch that an earlier run has planned. All partitions of the
        stream count, not only those that the batch reads. One without a leader leaves it unknown."""
        ends, deleted = self._bounds.existing_ends([tp for tp in position if tp not in recreated])
        alignment.update({tp: offset for tp, offset in position.items() if tp not in deleted}, ends)


def first_offsets(
    wanted: Mapping[TopicPartition, int | None], begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> tuple[Offsets, list[Loss]]:
    """The first offset that a batch reads of each log, and what retention has deleted before it. `wanted`: None for a
    new partition, which starts where its log begins (F11)."""
    first: Offsets = {}
    lost = []
    for tp, beginning in begin.items():
        offset = wanted[tp]
        if offset is None:
            first[tp] = beginning
        elif offset < beginning:
            lost.append(Loss(tp, f"from offset {offset}", f"offsets from {beginning}"))
            first[tp] = min(beginning, end[tp])
        else:
            first[tp] = offset
    return first, lost


def _offsets_text(start: int | None, stop: int) -> str:
    return f"up to offset {stop}" if start is None else f"offsets {start} to {stop}"
