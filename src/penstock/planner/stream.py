"""Plans a stream: from the offsets of the last finished batch to those of the next, and to its ranges.

Spark calls from one thread. At each trigger `latest` takes the offsets of the last finished batch, looks for partitions
if the discovery interval has passed, asks for the ends of logs, finds losses, and gives each partition its share. Spark
writes the result to its offset log. Only then `ranges` turns the step into work.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from penstock.config.source import SourceOptions
from penstock.errors import UnknownTopic
from penstock.masking import get_logger
from penstock.model.offset_range import OffsetRange
from penstock.model.offset_spec import AtOffsets, Earliest, GroupOffsets, Latest
from penstock.model.subscription import wanted_topics
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.model.watermark_columns import UNKNOWN, Watermarks
from penstock.planner.alignment.alignment import Alignment, PartitionRead
from penstock.planner.alignment.lookup import PayloadLookup
from penstock.planner.batch import partitions_of
from penstock.planner.checkpoint import Checkpoint, returned_error
from penstock.planner.end_check import EndCheck, EndRecordLookup
from penstock.planner.log_bounds import BoundsLookup, LogBounds
from penstock.planner.losses import DELETED, RECREATED, Loss, Losses
from penstock.planner.partition_discovery import Discovery
from penstock.planner.partition_state import PartitionStates
from penstock.planner.rate_limit import TriggerBudget
from penstock.planner.record_sizes import RecordSizes, SizeLookup
from penstock.planner.report_ledger import ReportLedger
from penstock.planner.starting_offsets import OffsetLookup, resolve_start, stream_start, within_bounds
from penstock.planner.stopping_offsets import StreamEnd
from penstock.planner.stream_batch import StreamBatch, StreamBatchPlanner
from penstock.planner.truncation import RECALL_SECONDS, CommitLookup, EpochLookup, Truncation
from penstock.wire.cluster import Cluster, Metadata

log = get_logger(__name__)

ATTEMPTS = 3
"""How often one trigger is planned when topics change while it asks."""

SHOWN = 20
"""Partitions and topics in the log line about the start of a stream."""


class StreamCluster(OffsetLookup, BoundsLookup, SizeLookup, EpochLookup, Protocol):
    """What the planner of a stream asks a cluster."""

    def metadata(self, topics: Sequence[str] | None) -> Metadata: ...


class StreamPlanner:
    """Plans one stream. Lives as long as the query's reader process. For one thread."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: StreamCluster,
        *,
        alignment: Alignment | None = None,
        reports: ReportLedger | None = None,
        deserializer_may_end: bool = False,
        end_check: EndCheck | None = None,
        recall: CommitLookup | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`alignment`: if the stream has event time. `reports`: the reports of tasks, if they send any.
        `deserializer_may_end`: a task may report that its partition has ended (F4). `end_check`: if that ends the whole
        stream. `recall`: asks a group for the leader epochs of restored offsets."""
        self.options = options
        self.cluster = cluster
        self.alignment = alignment
        self.reports = reports
        self.checkpoint = Checkpoint(options.subscription, options.stream)
        self.truncation = Truncation(cluster)
        self.losses = Losses(options.fail_on_data_loss)
        self.sizes = RecordSizes(options.stream, cluster, clock)
        self.newest: Offsets = {}
        """The ends of logs at the last trigger."""
        self.finished: bool | None = False if options.ending is not None or deserializer_may_end else None
        """Whether the stream has reached its end; None if it has none."""
        self._clock, self._wall_clock = clock, wall_clock
        self._start, self._rules = stream_start(options)
        self._initial: Offsets | None = None
        self._is_position_logged = False
        self._discovery = Discovery(options.subscription, cluster, options.stream.discovery_interval, clock)
        self._bounds = LogBounds(cluster, self._discovery)
        self._partitions = PartitionStates()
        self._end = StreamEnd(options.ending, deserializer_may_end, ends_at_first=end_check is not None)
        self._end_check = end_check
        self._budget = TriggerBudget(options.stream)
        self._batches = StreamBatchPlanner(
            *(options, cluster, self._discovery, self._bounds, self.truncation, self.checkpoint, alignment),
            whole_partitions=deserializer_may_end,
        )
        self._batch: StreamBatch | None = None
        self._answer: Offsets = {}
        """The newest offsets that `latest` has returned."""
        self.left = 0
        """How many offsets this answer leaves for later batches."""
        self._recall = recall
        self._available_now = False
        self._fixed_ends: Offsets | None = None
        """The ends that Trigger.AvailableNow reads to."""

    @classmethod
    def connect(
        cls,
        options: SourceOptions,
        *,
        payloads: PayloadLookup | None = None,
        reports: ReportLedger | None = None,
        deserializer_may_end: bool = False,
        end_records: EndRecordLookup | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> StreamPlanner:
        """A planner of the cluster that the options name. `payloads`: see Alignment. `end_records`: see EndCheck."""
        cluster = Cluster(options.client)
        impatient = replace(options.client, api_timeout=min(options.client.api_timeout, RECALL_SECONDS))
        times = options.event_time
        return cls(
            options,
            cluster,
            alignment=None if times is None else Alignment(times, cluster, payloads, clock, wall_clock),
            reports=reports,
            deserializer_may_end=deserializer_may_end,
            end_check=None if end_records is None else EndCheck(end_records, clock),
            recall=lambda group, partitions: Cluster(impatient).commits(group, partitions),
            clock=clock,
            wall_clock=wall_clock,
        )

    # --- where a query starts -----------------------------------------------------------------------------------------

    @property
    def pins_start(self) -> bool:
        """Whether the first batch is empty, and only brings the start into the offset log.

        Spark asks for the start again when it replays the first batch. A start that moves (the end, a group's offsets)
        would then skip records that the batch had planned to read. `earliest` needs no such step: records that have
        expired meanwhile cannot be read in any case.
        """
        return not isinstance(self._start, Earliest)

    @property
    def starts_at_end(self) -> bool:
        """Whether a new query starts at the ends of logs."""
        return isinstance(self._start, Latest)

    def initial(self) -> Offsets:
        """The offsets at which a new query starts. Resolved once."""
        if self._initial is None:
            partitions = partitions_of(self.options, self.cluster.metadata(wanted_topics(self.options.subscription)))
            start = resolve_start(self._start, partitions, self.cluster, self._rules)
            if isinstance(self._start, AtOffsets | GroupOffsets):
                begin, end = self.cluster.begin(partitions), self.cluster.high_watermarks(partitions)
                within_bounds(start, dict(begin), begin, end, self.options.fail_on_data_loss)
            self._initial = start
            self._discovery.remember(partitions)
            self._log_position("starts", start)
        return dict(self._initial)

    def _log_position(self, verb: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Once per run: which topics the stream reads, and from where."""
        self._is_position_logged = True
        topics = Counter(tp.topic for tp in sorted(offsets))
        shown = ", ".join(f"{tp}: {offsets[tp]}" for tp in sorted(offsets)[:SHOWN])
        log.info(
            "the stream %s at %s%s; partitions of its topics: %s",
            verb,
            shown or "no partition",
            ", ..." if len(offsets) > SHOWN else "",
            ", ".join(f"{topic} {count}" for topic, count in list(topics.items())[:SHOWN]) or "none",
        )

    def is_durable(self, start: Mapping[TopicPartition, int]) -> bool:
        """Whether `start` is the end of a finished batch, not the start of a query that has finished none."""
        return self._initial is None or self._batch is not None or start != self._initial

    def _recall_epochs(self, state: Offsets) -> None:
        """Once, before anything is committed: learn the leader epochs of restored offsets from the group."""
        recall, self._recall = self._recall, None
        group = self._rules.group if self.options.stream.commit_mode != "disabled" else None
        if recall is not None and group is not None and self._initial is None:
            self.truncation.recall(group, state, recall)

    # --- one trigger --------------------------------------------------------------------------------------------------

    def prepare_for_available_now(self) -> None:
        """The run reads to the ends of logs at the next trigger, and no further."""
        self._available_now = True

    def latest(self, start: Offsets, read_all: bool = False) -> Offsets:
        """The offsets up to which the next batch reads. `read_all` ignores the limits, and does not pin the start:
        Trigger.Once has only one batch."""
        self._take_reports()
        state = self.restored(start)
        if not self._is_position_logged:
            self._log_position("continues", state)
        self._recall_epochs(state)
        if self._end.stopped:
            return self._stopped(state)
        if self.pins_start and not read_all and not self.is_durable(start):
            return start
        ends = self._end.without_ended(self._available_ends(state) if self._available_now else self._ends(state))
        if self._end_check is not None and not self._end_check.done:
            self._end.note_ended(self._end_check.look(state, ends))
            if self._end.stopped or not self._end_check.done:
                return self._stopped(state) if self._end.stopped else start
        self._move_recreated(state, ends)
        position = self._positions(state, ends, read_all)
        moves, readable = self._partitions.moves, ends
        if self.alignment is not None:
            ends = self._aligned(self.alignment, position, ends, moves, read_all)
        backlog = {tp: size for tp, end in ends.items() if (size := end - position[tp]) > 0 and tp not in moves}
        self.sizes.sample(backlog, position)
        allowed: Mapping[TopicPartition, int] | None = backlog
        if not read_all:
            sizes, now = self.sizes.bytes_per_record, self._clock()
            allowed = self._budget.allow(backlog, sizes, now, wait=not self._available_now)
        if allowed is None:
            if self.alignment is not None:
                self.alignment.postpone()
            if not any(start.get(tp, offset) > offset for tp, offset in state.items()):
                return start
            allowed = {}  # a deserializer has ended a partition: the log records that without waiting for more records
        answer = state | {tp: position[tp] for tp in ends.keys() - state.keys()}
        for tp, count in allowed.items():
            answer[tp] += count
        answer |= moves
        self.finished = self._end.reached(answer)
        self.left = sum([end - at for tp, end in readable.items() if (at := answer.get(tp, end)) < end])
        self._answer = self.checkpoint.unread | answer
        return self._answer

    def _stopped(self, state: Offsets) -> Offsets:
        """The answer of a stream that a deserializer has ended: every partition stays where it is."""
        self.finished, self.left = True, 0
        self._answer = self.checkpoint.unread | state
        return self._answer

    def at_the_end(self, start: Offsets, answer: Offsets) -> bool:
        """Whether Spark, given this answer, ends the query and does not call again."""
        return self._available_now and start == answer

    def restored(self, start: Offsets) -> Offsets:
        """The partitions of the offset log that are read on and committed: without those that are not subscribed to
        (F12) or deleted, and none past the record that ended it (F4)."""
        state = self.checkpoint.restore(start)
        self._partitions.acknowledge(state)
        return self._end.without_ended(self._partitions.without_deleted(state))

    def _take_reports(self) -> None:
        if self.reports is None:
            return
        self._end.note_ended(self.reports.take_ends())
        if self.alignment is not None:
            self.alignment.learn({tp: PartitionRead(*read) for tp, read in self.reports.take_event_times().items()})

    def _aligned(
        self, alignment: Alignment, position: Offsets, ends: Offsets, moves: Offsets, read_all: bool
    ) -> Offsets:
        """Ends, none of them too far ahead of the slowest partition (E4), unless one batch reads everything."""
        position = position | moves
        if self._available_now:
            # A partition without an end had no leader at the first trigger: this run reads nothing of it.
            finished = [tp for tp, offset in position.items() if ends.get(tp, offset) <= offset]
        else:
            finished = [tp for tp, offset in position.items() if self._end.is_at(tp, offset)]
        if read_all:
            alignment.update(position, ends, finished)
            return ends
        # Moving partitions are not read in this batch, so that others cannot count on their ends.
        limited = not moves.keys().isdisjoint(ends) or self._budget.is_exceeded(
            sum(max(0, end - position[tp]) for tp, end in ends.items())
        )
        return alignment.align(position, ends, limited=limited, finished=finished)

    def _available_ends(self, state: Offsets) -> Offsets:
        if self._fixed_ends is None:
            self._fixed_ends = self._ends(state)
        self._fixed_ends = self._partitions.without_deleted(self._fixed_ends)
        return self._not_before(state, self._fixed_ends)

    def _ends(self, state: Offsets) -> Offsets:
        """Up to where each partition can be read now. Removes deleted partitions from `state`."""
        found: Offsets = {}
        ends: Offsets = {}
        wanted: set[TopicPartition] = set()
        is_denied = False
        for attempts_left in range(ATTEMPTS - 1, -1, -1):
            changes = self._discovery.look(state, force=is_denied)
            self._note_deleted(state, changes.deleted)
            self._note_recreated(state, changes.recreated)
            self._note_returned(state, changes.partitions)
            wanted = {*changes.partitions, *state}
            try:
                found = self._bounds.reachable_ends(wanted - changes.unlisted)
                self._note_truncated(state, found)
                ends = self._end.limit(found, wanted, self.cluster, self._wall_clock() * 1000)
            except UnknownTopic:
                is_denied = True
                if not attempts_left:
                    raise
            else:
                if self._discovery.is_current:
                    break  # otherwise newer metadata has come, and a topic may be recreated
        self.newest = state | found
        return self._not_before(state, ends)

    def _not_before(self, state: Offsets, ends: Offsets) -> Offsets:
        """Ends, none before the state's offset: a leader may lag. Moving partitions go back on purpose."""
        moves = self._partitions.moves
        lagging = {tp: at for tp, end in ends.items() if (at := state.get(tp, end)) > end and tp not in moves}
        return ends | lagging

    def _positions(self, state: Offsets, ends: Offsets, read_all: bool) -> Offsets:
        """The next offset of each partition; new ones start at their first offset (F11). Removes partitions that are
        deleted by now from `ends`."""
        moves = self._partitions.moves
        if ends.keys() <= state.keys():  # as in nearly all triggers
            return moves | state
        new = [tp for tp in ends if tp not in state and tp not in moves]
        if not new:
            return moves | state
        self._refuse_returned(new)
        begin, deleted = self._bounds.begins(new)
        for tp in deleted:
            del ends[tp]
        if not read_all:
            self._partitions.move(begin)
        return moves | begin | state

    # --- partitions that change (F27) ---------------------------------------------------------------------------------

    def _note_deleted(self, state: Offsets, deleted: Collection[TopicPartition]) -> None:
        self.losses.report(Loss(tp, f"from offset {state[tp]}", DELETED) for tp in deleted)
        for tp in deleted:
            self._partitions.delete(tp, state.pop(tp), self._discovery.id_of_deleted(tp.topic))

    def _note_recreated(self, state: Offsets, recreated: Collection[TopicPartition]) -> None:
        """A recreated topic is read from its beginning."""
        lost = [tp for tp in recreated if state[tp] > 0 and not self._partitions.is_changing(tp)]
        self.losses.report(Loss(tp, f"from offset {state[tp]}", RECREATED) for tp in lost)
        self._forget(recreated)
        self._partitions.recreate(lost)

    def _note_returned(self, state: Offsets, partitions: Collection[TopicPartition]) -> None:
        """A deleted partition is listed again before the offset log has dropped it. It is read on if its topic is the
        same, and recreated if not."""
        for tp, deleted in self._partitions.deleted_among(partitions).items():
            state[tp] = deleted.offset
            if deleted.topic_id is not None and deleted.topic_id == self._discovery.topic_id(tp.topic):
                self._partitions.read_on(tp)
            else:
                self._partitions.recreate([tp])
                self._forget([tp])

    def _note_truncated(self, state: Offsets, ends: Offsets) -> None:
        """A truncated log is read on from where it was truncated."""
        truncated = self.truncation.find(self._partitions.without_changing(state), ends)
        self.losses.report(
            Loss(tp, f"from offset {state[tp]}", f"offsets up to {offset} of what was read")
            for tp, offset in truncated.items()
        )
        self._partitions.move(truncated)
        self._end.forget_truncated(truncated)

    def _move_recreated(self, state: Offsets, ends: Offsets) -> None:
        """Look up where recreated partitions begin, and move them there. Until then nothing is read of them."""
        recreated = self._partitions.recreated
        if not recreated:
            return
        begin, deleted = self._bounds.begins(recreated)
        for tp in deleted:
            ends.pop(tp, None)
            self._partitions.delete(tp, state.pop(tp, 0), None)
        self._partitions.move(begin)

    def _refuse_returned(self, new: Iterable[TopicPartition]) -> None:
        """Refuse partitions that the offset log has dropped, and that exist again in the same topic: the log could add
        them only at their first offset, and their records would be read twice."""
        returned = {
            tp: dropped.offset
            for tp, dropped in self._partitions.dropped_among(new).items()
            if dropped.topic_id is not None and dropped.topic_id == self._discovery.topic_id(tp.topic)
        }
        if returned:
            raise returned_error(returned)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        """Discards what is known of the logs of recreated partitions."""
        self.truncation.forget(partitions)
        self._end.forget(partitions)
        if self.alignment is not None:
            self.alignment.forget(partitions)

    # --- the work of one batch ----------------------------------------------------------------------------------------

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """What the tasks of a batch read. Spark may ask more than once."""
        self.checkpoint.check(end)
        batch = self._batch
        if batch is None or (batch.start, batch.end) != (start, end):
            batch = self._batch = self._planned(start, end)
        if self.reports is not None:
            self.reports.expect(batch.ranges)
        return batch.ranges

    def watermarks(self, tp: TopicPartition) -> Watermarks:
        """The event-time watermarks before the batch that was planned last."""
        return UNKNOWN if self._batch is None else self._batch.watermarks.get(tp, UNKNOWN)

    def _planned(self, start: Offsets, end: Offsets) -> StreamBatch:
        if start == self._initial and any(start.get(tp, 0) > end[tp] for tp in end):
            log.warning(
                "Spark replays the first batch, and the start of the query has moved past its end since. If Spark's "
                "own Kafka source has planned this batch, its records are not read: let that source finish its first "
                "batch before you migrate the checkpoint"
            )
        batch = self._plan(start, end)
        for tp, offset in batch.deleted.items():
            self._partitions.delete(tp, offset, None)
        self._partitions.recreate(batch.recreated)
        if self._fixed_ends is not None and batch.recreated:
            self._fixed_ends = {tp: to for tp, to in self._fixed_ends.items() if tp not in batch.recreated}
        # Do not simplify: after the last question. If one fails, the batch is planned again, and a loss counts once.
        self.losses.report(batch.lost)
        return batch

    def _plan(self, start: Offsets, end: Offsets) -> StreamBatch:
        for attempts_left in range(ATTEMPTS - 1, -1, -1):
            try:
                return self._batches.plan(
                    start, end, is_newest=end == self._answer, recreated=self._partitions.recreated
                )
            except UnknownTopic:  # deleted between two questions: the first of them finds it now
                if not attempts_left:
                    raise
        raise AssertionError("ATTEMPTS is at least 1")
