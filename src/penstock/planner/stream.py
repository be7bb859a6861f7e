"""The planning of a stream: from the offsets of the last finished batch to those of the next, and to its ranges.

A trigger's walk, all in the thread that Spark calls from: `latest` takes the state, looks for partitions if it is
time to, asks for their ends, finds what was lost, and grants each partition its share. Spark writes the result to its
offset log; only then `ranges` turns the step into work. The log decides alone: a step that is replayed after a crash
is planned from its two offsets and nothing else.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping

from penstock.config.source import SourceOptions
from penstock.errors import BrokerError, DataLoss, PenstockError, UnknownTopic
from penstock.model.offset_range import OffsetRange
from penstock.model.offset_spec import AtOffsets, Earliest, GroupOffsets, Latest, StartMode, StartRules
from penstock.model.subscription import wanted_topics
from penstock.model.topic_partition import Offsets, TopicPartition, listed
from penstock.planner.alignment.alignment import Alignment, Read
from penstock.planner.alignment.lookup import Peek
from penstock.planner.batch import partitions_of, range_of
from penstock.planner.checkpoint import check_related, split_restored, to_json
from penstock.planner.partition_discovery import Discovery
from penstock.planner.range_splitting import split, spread
from penstock.planner.rate_limit import TriggerBudget
from penstock.planner.report_server import ReportLedger
from penstock.planner.starting_offsets import resolve_start, within_bounds
from penstock.planner.stopping_offsets import StreamEnd
from penstock.planner.truncation import Truncation
from penstock.wire.cluster import Cluster

log = logging.getLogger(__name__)

LOOKS = 3
"""How often one trigger looks again when topics change under its hands."""

SAMPLE_SECONDS = 30.0
"""How often the weight of records is looked at when only the metrics want it."""

LIMITED_SAMPLE_SECONDS = 5.0
"""The same when maxBytesPerTrigger rests on it. A partition is looked at at once when it first has a backlog; a look
costs milliseconds, or more where batches are large, and the weight of records changes slowly."""

SAMPLED_PARTITIONS = 100
"""Of how many partitions, when only the metrics want it: enough for an average, and one small fetch."""

RECREATED = (
    "another topic of the same name, created since. Start with a new checkpoint to read that from its beginning: a "
    "restart on this one cannot tell the two apart, and goes on at the old offset"
)


def starting_of(options: SourceOptions) -> tuple[StartMode, StartRules]:
    """F6: where a new stream starts, and F9: how it falls back."""
    rules = options.rules
    mode = options.starting or (Latest() if rules.group is None else GroupOffsets())
    if isinstance(mode, GroupOffsets) and rules.reset is None:
        rules = StartRules(rules.group, "latest", rules.fail_on_no_match)  # Kafka's own default
    return mode, rules


class StreamPlanner:
    """Plans one stream. Lives as long as the query's reader process, and is for one thread."""

    def __init__(
        self,
        options: SourceOptions,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        reports: ReportLedger | None = None,
        deserializer_may_end: bool = False,
        peek: Peek | None = None,
    ) -> None:
        """`reports`: what tasks tell, if they are asked to. `deserializer_may_end`: whether one of them may tell that
        its partition has ended (F4). `peek`: see Alignment."""
        self.options = options
        self.reports = reports
        self.cluster = Cluster(options.client)
        self.truncation = Truncation(self.cluster)
        self.event_time: Alignment | None = None
        if options.event_time is not None:
            self.event_time = Alignment(options.event_time, self.cluster, peek, clock, wall_clock)
        self.newest: Offsets = {}
        """What the brokers had at the last trigger."""
        self.finished: bool | None = False if options.ending is not None or deserializer_may_end else None
        """Whether the stream has come to its end; None if it has none."""
        self.lost_ranges = 0
        self.unread: Offsets = {}
        """Restored partitions that the subscription does not include (F12). They stay in the offset log as they are, so
        that a later run continues there; nothing is asked, read, committed or reported of them."""
        self.bytes_per_record: dict[TopicPartition, float] = {}
        self._clock, self._wall_clock = clock, wall_clock
        self._discovery = Discovery(options.subscription, self.cluster, options.stream.discovery_interval, clock)
        self._start, self._rules = starting_of(options)
        self._end = StreamEnd(options.ending, deserializer_may_end)
        # A task that reads the second half of a partition cannot know that it has ended in the first.
        self._splits = not deserializer_may_end
        self._budget = TriggerBudget(options.stream)
        self._initial: Offsets | None = None
        self._recalled = False
        self._available_now = False
        self._fixed: Offsets | None = None
        self._planned: tuple[Offsets, Offsets, list[OffsetRange]] | None = None
        self._watermarks: dict[TopicPartition, tuple[int | None, int | None]] = {}
        self._answered: Offsets = {}
        self._silent: frozenset[TopicPartition] = frozenset()
        self._related = options.stream.allow_unrelated or not options.stream.filter_restored
        """Whether the state is known, or allowed, to be one of this subscription."""
        self._gone: dict[TopicPartition, tuple[int, uuid.UUID | None]] = {}
        """Partitions that Spark's state has and the cluster has not, where they stand and of which topic: out of the
        state with the next step of the log."""
        self._left: dict[TopicPartition, tuple[int, uuid.UUID | None]] = {}
        """The same of partitions that have left the log."""
        self._begin_anew: set[TopicPartition] = set()
        """Partitions of another topic than the state's, whose beginning is still to be asked for."""
        self._resets: Offsets = {}
        """Where partitions go on by a step of their own in the log, without reading: the beginning of a topic made anew
        or of a partition that joins, the place where a log was cut. So a replay sees the same."""
        self._sampled_at = float("-inf")
        self._sampled: set[TopicPartition] = set()
        if not self._splits and (options.min_partitions or options.max_records_per_partition):
            log.warning(
                "minPartitions and maxRecordsPerPartition are without effect: the deserializer may end the stream, and "
                "only a task that reads all of a partition knows where"
            )

    # --- where a query starts -------------------------------------------------------------------------------------

    @property
    def pins_start(self) -> bool:
        """Whether the first batch is an empty one, that only brings the start into the offset log.

        Spark asks for the start again when it replays the first batch. A start that moves (the end, a group's offsets)
        would then skip what the batch had planned to read. The beginning needs no such step: what has gone from it
        meanwhile cannot be read in any case, and nothing was promised of a query that has finished nothing.
        """
        return not isinstance(self._start, Earliest)

    def initial(self) -> Offsets:
        """Resolve the start of a new query, once."""
        if self._initial is None:
            partitions = partitions_of(self.options, self.cluster.metadata(wanted_topics(self.options.subscription)))
            start = resolve_start(self._start, partitions, self.cluster, self._rules)
            if isinstance(self._start, AtOffsets | GroupOffsets):
                begin, end = self.cluster.begin(partitions), self.cluster.high_watermarks(partitions)
                within_bounds(start, dict(begin), begin, end, self.options.fail_on_data_loss)
            self._initial = start
            self._discovery.remember(partitions)
            log.info("the stream starts at %s", ", ".join(f"{tp}: {start[tp]}" for tp in partitions[:20]))
        return dict(self._initial)

    def is_durable(self, start: Mapping[TopicPartition, int]) -> bool:
        """Whether `start` is the end of a finished batch, and not the start of a query that has done nothing yet."""
        return self._initial is None or self._planned is not None or start != self._initial

    def recall(self, state: Offsets) -> None:
        """Once, before anything is committed: what the group knows of a restored state."""
        restored, self._recalled = self._initial is None and not self._recalled, True
        if restored and self._rules.group is not None and self.options.stream.commit_mode != "disabled":
            self.truncation.recall(self._rules.group, state)

    # --- one trigger ----------------------------------------------------------------------------------------------

    def prepare_for_available_now(self) -> None:
        """What is there at the next look is all that this run reads."""
        self._available_now = True

    def latest(self, start: Offsets, everything: bool = False) -> Offsets:
        """The offsets up to which the next batch reads. `everything` leaves the limits aside (and the pinned start:
        Trigger.Once has only one batch)."""
        if self.reports is not None:
            self._end.note_ended(self.reports.take_ends())
            if self.event_time is not None:
                told = self.reports.take_event_times()
                self.event_time.learn({tp: Read(*read) for tp, read in told.items()})
        state = self.restored(start)
        self.recall(state)
        if self.pins_start and not everything and not self.is_durable(start):
            return start
        ends = self._end.without_ended(self._fixed_ends(state) if self._available_now else self._ends(state))
        self._begin_those_made_anew(state, ends)
        position = self._positions(state, ends, everything)
        if self.event_time is not None:
            ends = self._aligned(self.event_time, position | self._resets, ends, everything)
        backlog = {tp: size for tp, end in ends.items() if (size := end - position[tp]) > 0 and tp not in self._resets}
        self._weigh(backlog, position)
        allowed: Mapping[TopicPartition, int] | None = backlog
        if not everything:
            waits = not self._available_now
            allowed = self._budget.allow(backlog, self.bytes_per_record, self._clock(), wait=waits)
        if allowed is None:
            if self.event_time is not None:
                self.event_time.postpone()
            if not any(start.get(tp, offset) > offset for tp, offset in state.items()):
                return start
            allowed = {}  # a partition has ended: that has to come into the log, and does not wait for more records
        answer = {tp: position[tp] + allowed.get(tp, 0) for tp in {*state, *ends}} | self._resets
        self.finished = self._end.reached(answer)
        self._answered = self.unread | answer
        return self._answered

    def _aligned(self, event_time: Alignment, position: Offsets, ends: Offsets, everything: bool) -> Offsets:
        """Ends, none of them too far ahead of the slowest partition (E4), unless everything is read in one batch."""
        if self._available_now:
            # What has no end was without a leader at the only look: nothing of it is read in this run.
            finished = [tp for tp, offset in position.items() if ends.get(tp, offset) <= offset]
        else:
            finished = [tp for tp, offset in position.items() if self._end.is_at(tp, offset)]
        if everything:
            event_time.take_stock(position, ends, finished)
            return ends
        # Those that begin by a step of their own are not read yet, so that others cannot count on their ends.
        limited = not self._resets.keys().isdisjoint(ends) or self._budget.is_exceeded(
            sum(max(0, end - position[tp]) for tp, end in ends.items())
        )
        return event_time.cut(position, ends, limited=limited, finished=finished)

    def watermarks(self, tp: TopicPartition) -> tuple[int | None, int | None]:
        """The combined watermark and that of a partition, before the batch that was planned last."""
        return self._watermarks.get(tp, (None, None))

    def at_the_end(self, start: Offsets, answer: Offsets) -> bool:
        """Whether Spark, given this answer, will end the query and never call again."""
        return self._available_now and start == answer

    def restored(self, start: Offsets) -> Offsets:
        """The state without what the user (F12), the cluster or a deserializer (F4) took away: what is read on, and
        told to a group."""
        self._check_related(start)
        state, unread = self._split(start)
        if fresh := sorted(unread.keys() - self.unread):
            log.warning(
                "the checkpoint holds %s, which the subscription does not include: not read. The offsets stay in the "
                "checkpoint, and a run that subscribes to them continues there. To read them now, set "
                "filterRestoredPartitions to false",
                listed(fresh),
            )
        self.unread = unread
        # What the log has taken over is done.
        self._left |= {tp: left for tp, left in self._gone.items() if tp not in state}
        self._gone = {tp: left for tp, left in self._gone.items() if tp in state}
        self._resets = {tp: to for tp, to in self._resets.items() if state.get(tp) != to}
        return self._end.without_ended({tp: offset for tp, offset in state.items() if tp not in self._gone})

    def _split(self, state: Offsets) -> tuple[Offsets, Offsets]:
        """A state's partitions that this stream reads, and those that it leaves where they are (F12)."""
        if not self.options.stream.filter_restored:
            return dict(state), {}
        return split_restored(state, self.options.subscription)

    def _check_related(self, state: Offsets) -> None:
        """Once, of the state that Spark has restored: what happens to topics later is not the user's mistake."""
        if not self._related:
            check_related(state, self.options.subscription)
            self._related = True

    def _fixed_ends(self, state: Offsets) -> Offsets:
        if self._fixed is None:
            self._fixed = self._ends(state)
        self._fixed = {tp: end for tp, end in self._fixed.items() if tp not in self._gone}
        return {tp: end if tp in self._resets else max(end, state.get(tp, end)) for tp, end in self._fixed.items()}

    def _ends(self, state: Offsets) -> Offsets:
        """Until where each partition can be read now. Takes from `state` what is gone."""
        found: Offsets = {}
        ends: Offsets = {}
        wanted: set[TopicPartition] = set()
        denied = False
        for tries_left in range(LOOKS - 1, -1, -1):
            sighting = self._discovery.look(state, force=denied)
            self._drop_vanished(state, sighting.vanished)
            self._note_recreated(state, sighting.recreated)
            self._note_returned(state, sighting.partitions)
            wanted = {*sighting.partitions, *state}
            try:
                found = self._reachable_ends(wanted - sighting.missing)
                self._reset_cut(state, found)
                ends = self._end.cut(found, wanted, self.cluster, self._wall_clock() * 1000)
            except UnknownTopic:
                denied = True
                if not tries_left:
                    raise
            else:
                if self._discovery.is_current:
                    break  # else the cluster has said something meanwhile, perhaps that a topic is another one
        self.newest = {tp: state[tp] for tp in wanted if tp in state} | found
        return {tp: end if tp in self._resets else max(end, state.get(tp, end)) for tp, end in ends.items()}

    def _reachable_ends(self, wanted: Iterable[TopicPartition]) -> Offsets:
        """Ends of the partitions that have a leader. One without keeps its place in the state and waits for it."""
        asked = list(wanted)
        found = self.cluster.reachable_ends(asked, [tp for tp in asked if tp not in self._silent])
        silent = frozenset(tp for tp in asked if tp not in found)
        if fresh := sorted(silent - self._silent):
            log.warning("no leader answers for %s: going on without, for now", listed(fresh))
        self._silent = silent
        return found

    def _positions(self, state: Offsets, ends: Offsets, everything: bool) -> Offsets:
        """Where each partition stands; new ones at their beginning (F11). Takes from `ends` what is gone by now."""
        new = [tp for tp in ends if tp not in state and tp not in self._resets]
        self._refuse_returned(new)
        begin, vanished = self._begins(new) if new else ({}, ())
        for tp in vanished:
            del ends[tp]
        if not everything:
            self._resets |= begin
        return self._resets | begin | state

    def _begins(self, wanted: Collection[TopicPartition]) -> tuple[Offsets, set[TopicPartition]]:
        """Where the logs begin, and which of them are gone by now."""
        vanished = set(self._discovery.locate(wanted))
        while True:
            asked = [tp for tp in wanted if tp not in vanished]
            try:
                begin = self.cluster.begin(asked)
            except UnknownTopic as error:
                vanished |= {tp for tp in asked if tp.topic == error.topic and error.partition in (None, tp.partition)}
                # Whoever deletes one topic may have deleted many: asked one by one, each takes its time.
                unknown = self.cluster.listing(sorted({tp.topic for tp in asked}))[1]
                vanished |= {tp for tp in asked if tp.topic in unknown}
            else:
                return begin, vanished

    # --- what was lost (F27) --------------------------------------------------------------------------------------

    def _lose(self, lost: list[tuple[TopicPartition, str, str]]) -> None:
        """Fail with every loss at once, or warn of them and count them."""
        if not lost:
            return
        error = DataLoss([(tp.topic, tp.partition, wanted, has) for tp, wanted, has in sorted(lost)])
        if self.options.fail_on_data_loss:
            raise error
        self.lost_ranges += len(lost)
        log.warning("%s\nGoing on with what is left, because failOnDataLoss is false", error.what)

    def _drop_vanished(self, state: Offsets, vanished: Iterable[TopicPartition]) -> None:
        self._lose([(tp, f"from offset {state[tp]}", "nothing: it does not exist any more") for tp in vanished])
        for tp in vanished:
            self._gone[tp] = state.pop(tp), self._discovery.id_of_absent(tp.topic)
            self._resets.pop(tp, None)
            self._begin_anew.discard(tp)

    def _note_recreated(self, state: Offsets, recreated: Collection[TopicPartition]) -> None:
        """A topic made anew begins at its beginning."""
        stale = [tp for tp in recreated if state[tp] > 0 and tp not in self._begin_anew and tp not in self._resets]
        self._lose([(tp, f"from offset {state[tp]}", RECREATED) for tp in stale])
        self._forget(recreated)
        self._begin_anew.update(stale)

    def _note_returned(self, state: Offsets, partitions: Iterable[TopicPartition]) -> None:
        """What was gone and is there again before the log has taken it out: it goes on if it is the same topic, and
        begins anew if not."""
        for tp in self._gone.keys() & set(partitions):
            state[tp], before = self._gone.pop(tp)
            if before is None or before != self._discovery.id_of(tp.topic):
                self._begin_anew.add(tp)
                self._forget([tp])

    def _refuse_returned(self, new: Iterable[TopicPartition]) -> None:
        """Refuse partitions that are not new: the log cannot take them in again elsewhere than at their beginning."""
        left = {tp: self._left[tp] for tp in new if tp in self._left}
        returned = {tp: at for tp, (at, before) in left.items() if before and before == self._discovery.id_of(tp.topic)}
        if returned:
            raise PenstockError(
                f"brokers denied {listed(sorted(returned))} for a while, so that they left the checkpoint "
                "(failOnDataLoss is false). They are back, of the same topics, and would be read again from their "
                "beginning. To go on where they were, start a query with a new checkpoint and startingOffsets "
                f"{json.dumps(to_json(returned))}; to read them from their beginning, start this one again"
            )

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        """These are of another topic now."""
        self.truncation.forget(partitions)
        self._end.forget(partitions)
        if self.event_time is not None:
            self.event_time.forget(partitions)

    def _begin_those_made_anew(self, state: Offsets, ends: Offsets) -> None:
        """Ask where topics begin that were made anew. Until that is known nothing is read of them."""
        if not self._begin_anew:
            return
        begin, vanished = self._begins(self._begin_anew)
        for tp in vanished:
            ends.pop(tp, None)
            self._gone[tp] = state.pop(tp, 0), None
        self._resets |= begin
        self._begin_anew.clear()

    def _reset_cut(self, state: Offsets, found: Offsets) -> None:
        """A log that was cut goes on where it was cut."""
        moving = {*self._resets, *self._begin_anew}
        cut = self.truncation.cut({tp: offset for tp, offset in state.items() if tp not in moving}, found)
        self._lose([(tp, f"from offset {state[tp]}", f"offsets up to {to} of what was read") for tp, to in cut.items()])
        self._resets |= cut
        self._end.forget_cut(cut)

    # --- the work of one batch ------------------------------------------------------------------------------------

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """What the tasks of a batch read. Spark may ask more than once."""
        self._check_related(end)
        if self._planned is None or self._planned[:2] != (start, end):
            for tries_left in range(LOOKS - 1, -1, -1):
                try:
                    self._planned = (dict(start), dict(end), self._plan(start, end))
                    break
                except UnknownTopic:  # deleted between two questions: the first of them finds it now
                    if not tries_left:
                        raise
        assert self._planned is not None
        if self.reports is not None:
            self.reports.expect(self._planned[2])
        return self._planned[2]

    def _plan(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        # A partition that goes back was reset: nothing of it is in this batch.
        wanted = {tp: start.get(tp) for tp in end if start.get(tp, -1) < end[tp]}
        if start == self._initial and any(start.get(tp, 0) > end[tp] for tp in end):
            log.warning(
                "the first batch is planned again, and where the query starts has moved on since. Should it be one of "
                "Spark's own Kafka source, what lies before is not read: finish the first before a checkpoint moves"
            )
        if not wanted:
            return []
        begin, vanished = self._begins(wanted)
        lost = [(tp, _offsets_text(wanted[tp], end[tp]), "nothing: it does not exist any more") for tp in vanished]
        self._gone |= {tp: (wanted[tp] or 0, None) for tp in vanished}
        another = {tp for tp in begin if self._discovery.is_another(tp.topic)}
        lost += [(tp, _offsets_text(wanted[tp], end[tp]), RECREATED) for tp in another]
        self._begin_anew |= another
        self._fixed = self._fixed and {tp: to for tp, to in self._fixed.items() if tp not in another}
        begin = {tp: offset for tp, offset in begin.items() if tp not in another}
        first: Offsets = {}
        for tp, beginning in begin.items():
            at = wanted[tp]
            first[tp] = beginning if at is None else at
            if first[tp] < beginning:
                lost.append((tp, f"from offset {first[tp]}", f"offsets from {beginning}"))
                first[tp] = min(beginning, end[tp])
        planned_now = end == self._answered
        stop = self._stops({tp: end[tp] for tp in begin}, planned_now)
        lost += [(tp, f"up to offset {end[tp]}", f"offsets up to {stop[tp]}") for tp in begin if stop[tp] < end[tp]]
        if self.event_time is not None:
            if not planned_now:
                # Of partitions that go back in this batch, or are new in it, the end is where they begin.
                mine = self._split(end)[0].keys() | begin.keys()
                stood = {tp: min(first.get(tp, start.get(tp, end[tp])), end[tp]) for tp in mine}
                self._recall_event_time(self.event_time, stood)
            self._watermarks = self.event_time.watermarks(begin)
        # After the last question: if one of them fails, the batch is planned again, and a loss counts once.
        self._lose(lost)
        known = self.cluster.known
        assert known is not None, "the cluster has told where logs begin"
        whole = [range_of(tp, first[tp], stop[tp], known) for tp in begin if first[tp] < stop[tp]]
        if not self._splits:
            return spread(whole)
        return spread(split(whole, self.options.min_partitions, self.options.max_records_per_partition))

    def _stops(self, end: Offsets, planned_now: bool) -> Offsets:
        """Where a batch stops: where it was planned to, unless an earlier run did that and the log was cut since."""
        if planned_now:
            return end
        available = self.cluster.end(end)
        past_end = {tp: offset for tp, offset in end.items() if available[tp] < offset}
        return end | self.truncation.shorter(past_end, available)

    def _recall_event_time(self, event_time: Alignment, position: Offsets) -> None:
        """A batch that an earlier run has planned: the combined event-time watermark is that of all partitions of the
        stream, and not only of those that the batch reads of. One that does not answer leaves it unknown."""
        gone = set(self._discovery.locate(position))
        while True:
            there = {tp: offset for tp, offset in position.items() if tp not in gone}
            try:
                ends = self._reachable_ends(there.keys() - self._begin_anew)
            except UnknownTopic as error:
                lost = {tp for tp in there if tp.topic == error.topic and error.partition in (None, tp.partition)}
                if not lost:
                    raise
                gone |= lost
            else:
                break
        event_time.take_stock(there, ends)

    def _weigh(self, backlog: Mapping[TopicPartition, int], position: Mapping[TopicPartition, int]) -> None:
        """Look at how heavy the next records are, for maxBytesPerTrigger and the metrics."""
        limited = self.options.stream.max_bytes is not None
        if not backlog or not (limited or self.options.stream.report_metrics):
            return
        now = self._clock()
        if now >= self._sampled_at + (LIMITED_SAMPLE_SECONDS if limited else SAMPLE_SECONDS):
            self._sampled_at, self._sampled = now, set()
            self.bytes_per_record = {tp: size for tp, size in self.bytes_per_record.items() if tp in position}
        elif not limited:
            return
        sampled = [tp for tp in backlog if tp not in self._sampled]
        sampled = sampled if limited else sampled[:SAMPLED_PARTITIONS]
        if not sampled:
            return
        self._sampled.update(sampled)
        try:
            self.bytes_per_record |= self.cluster.bytes_per_record({tp: position[tp] for tp in sampled})
        except BrokerError as error:
            log.info("the weight of records is not known: %s", error)


def _offsets_text(start: int | None, stop: int) -> str:
    return f"up to offset {stop}" if start is None else f"offsets {start} to {stop}"
