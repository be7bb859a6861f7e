"""The planning of a stream: from the offsets of the last finished batch to those of the next, and to its ranges.

A trigger's walk, all in the thread that Spark calls from: `latest` takes the state, looks for partitions if it is
time to, asks for their ends, finds what was lost, and grants each partition its share. Spark writes the result to its
offset log; only then `ranges` turns the step into work. The log decides alone: a step that is replayed after a crash
is planned from its two offsets and nothing else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from penstock.discovery import Discovery
from penstock.ending import StreamEnd
from penstock.errors import BrokerError, DataLoss, UnknownTopic
from penstock.limits import TriggerBudget
from penstock.offsets.state import Offsets, split_restored
from penstock.options import SourceOptions
from penstock.plan import partitions_of, range_of
from penstock.ranges import OffsetRange, split, spread
from penstock.startup import (
    LATEST,
    AtOffsets,
    Earliest,
    GroupOffsets,
    Latest,
    StartMode,
    StartRules,
    resolve_start,
    within_bounds,
)
from penstock.topics import TopicPartition, wanted_topics
from penstock.wire.cluster import Cluster, Metadata

log = logging.getLogger(__name__)

LOOKS = 3
"""How often one trigger looks again when a topic is deleted under its hands."""

SAMPLE_SECONDS = 30.0
"""How often the weight of records is looked at when only the metrics want it."""

LIMITED_SAMPLE_SECONDS = 5.0
"""The same when maxBytesPerTrigger rests on it. A partition is looked at at once when it first has a backlog; a look
costs milliseconds, or more where batches are large, and the weight of records changes slowly."""

SAMPLED_PARTITIONS = 100
"""Of how many partitions, when only the metrics want it: enough for an average, and one small fetch."""


def starting_of(options: SourceOptions) -> tuple[StartMode, StartRules]:
    """F6: where a new stream starts, and F9: how it falls back."""
    rules = options.rules
    mode = options.starting or (Latest() if rules.group is None else GroupOffsets())
    if isinstance(mode, GroupOffsets) and rules.reset is None:
        rules = StartRules(rules.group, "latest", rules.fail_on_no_match)  # Kafka's own default
    return mode, rules


def is_repeatable(mode: StartMode) -> bool:
    """Whether resolving a start again, later, skips nothing: the beginning and plain offsets stay where they are."""
    match mode:
        case Earliest():
            return True
        case AtOffsets(offsets):
            return LATEST not in {*offsets.topics.values(), *offsets.partitions.values()}
        case _:
            return False


class StreamPlanner:
    """Plans one stream. Lives as long as the query's reader process, and is for one thread."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self.cluster = Cluster(options.client)
        self.discovery = Discovery(options.subscription, self.cluster, options.stream.discovery_interval, clock)
        self.newest: Offsets = {}
        """What the brokers had at the last trigger."""
        self.finished: bool | None = None if options.ending is None else False
        """Whether the stream has come to its end; None if it has none."""
        self.lost_ranges = 0
        self.bytes_per_record: dict[TopicPartition, float] = {}
        self._clock = clock
        self._start, self._rules = starting_of(options)
        self._end = StreamEnd(options.ending)
        self._budget = TriggerBudget(options.stream)
        self._initial: Offsets | None = None
        self._recalled = False
        self._available_now = False
        self._fixed: Offsets | None = None
        self._planned: tuple[Offsets, Offsets, list[OffsetRange]] | None = None
        self._answered: Offsets = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._epochs_of: Metadata | None = None
        self._silent: frozenset[TopicPartition] = frozenset()
        self._dropped: set[TopicPartition] = set()
        self._gone: set[TopicPartition] = set()
        self._resets: Offsets = {}
        self._sampled_at = float("-inf")
        self._sampled: set[TopicPartition] = set()

    # --- where a new query starts ---------------------------------------------------------------------------------

    @property
    def pins_start(self) -> bool:
        """Whether the first batch must be an empty one, that only brings the start into the offset log.

        Spark asks for the start again when it replays the first batch. A start that moves (`latest`, a group's offsets)
        would then skip what the batch had planned to read.
        """
        return not is_repeatable(self._start)

    def initial(self) -> Offsets:
        """Resolve the start of a new query, once."""
        if self._initial is None:
            partitions = partitions_of(self.options, self.cluster.metadata(wanted_topics(self.options.subscription)))
            start = resolve_start(self._start, partitions, self.cluster, self._rules)
            if isinstance(self._start, AtOffsets | GroupOffsets):
                begin, end = self.cluster.begin(partitions), self.cluster.end(partitions)
                within_bounds(start, dict(begin), begin, end, self.options.fail_on_data_loss)
            self._initial = start
            log.info("the stream starts at %s", ", ".join(f"{tp}: {start[tp]}" for tp in partitions[:20]))
        return dict(self._initial)

    def is_durable(self, start: Mapping[TopicPartition, int]) -> bool:
        """Whether `start` is the end of a finished batch, and not the start of a query that has done nothing yet."""
        return self._initial is None or self._planned is not None or start != self._initial

    def epochs(self, state: Offsets) -> dict[TopicPartition, int]:
        """The leader epochs behind a state: what `recall` makes use of in a later run."""
        return {tp: epoch for tp in state if (epoch := self._epochs.get(tp)) is not None}

    def recall(self, state: Offsets) -> None:
        """Learn from the group under which leaders a restored state was read: a log that was cut while the query was
        down is found by that. The group's offsets are not taken (F25): an epoch counts only where the group stands
        exactly at the state, for then this query committed it."""
        group = self._rules.group
        if group is None or self.options.stream.commit_mode == "disabled":
            return
        try:
            committed = self.cluster.commits(group, state)
        except BrokerError as error:
            log.info("what group %r knows of the checkpoint cannot be asked: %s", group, error)
            return
        found = {tp: each.leader_epoch for tp, each in committed.items() if each.offset == state[tp]}
        self._epochs |= {tp: epoch for tp, epoch in found.items() if epoch >= 0}

    # --- one trigger ----------------------------------------------------------------------------------------------

    def prepare_for_available_now(self) -> None:
        """What is there at the next look is all that this run reads."""
        self._available_now = True

    def latest(self, start: Offsets, everything: bool = False) -> Offsets:
        """The offsets up to which the next batch reads. `everything` leaves the limits aside."""
        state = self._restored(start)
        if self._initial is None and not self._recalled:
            self.recall(state)
        self._recalled = True
        if self.pins_start and not everything and not self.is_durable(start):
            return start
        ends = self._fixed_ends(state) if self._available_now else self._ends(state)
        new = [tp for tp in ends if tp not in state]
        position = state | self.cluster.begin(new) if new else state
        backlog = {tp: size for tp, end in ends.items() if (size := end - position[tp]) > 0 and tp not in self._resets}
        self._weigh(backlog, position)
        allowed: Mapping[TopicPartition, int] | None = backlog
        if not everything:
            waits = not self._available_now
            allowed = self._budget.allow(backlog, self.bytes_per_record, self._clock(), wait=waits)
        if allowed is None:
            return start
        answer = {tp: position[tp] + allowed.get(tp, 0) for tp in {*state, *ends}} | self._resets
        self.finished = self._end.reached(answer)
        self._answered = answer
        return answer

    def at_the_end(self, start: Offsets, answer: Offsets) -> bool:
        """Whether Spark, given this answer, will end the query and never call again."""
        return self._available_now and start == answer

    def _restored(self, start: Offsets) -> Offsets:
        """The state without what the user (F12) or the cluster took away."""
        state = dict(start)
        if self.options.stream.filter_restored:
            state, strangers = split_restored(start, self.options.subscription)
            if fresh := sorted(set(strangers) - self._dropped):
                log.warning(
                    "the checkpoint holds %s, which the subscription does not name: dropped. To read them on, set "
                    "filterRestoredPartitions to false",
                    _listed(fresh),
                )
            self._dropped |= set(strangers)
        self._gone &= set(state)
        # A reset is done when the state has it.
        self._resets = {tp: to for tp, to in self._resets.items() if tp in state and state[tp] != to}
        return {tp: offset for tp, offset in state.items() if tp not in self._gone}

    def _fixed_ends(self, state: Offsets) -> Offsets:
        if self._fixed is None:
            self._fixed = self._ends(state)
        self._fixed = {tp: end for tp, end in self._fixed.items() if tp not in self._gone}
        return {tp: max(end, state.get(tp, end)) for tp, end in self._fixed.items()}

    def _ends(self, state: Offsets) -> Offsets:
        """Until where each partition can be read now. Takes from `state` what is gone."""
        for tries_left in range(LOOKS - 1, -1, -1):
            sighting = self.discovery.look(state, force=tries_left < LOOKS - 1)
            lost = [(tp, f"from offset {state[tp]}", "nothing: it does not exist any more") for tp in sighting.vanished]
            self._lose(lost)
            self._gone |= sighting.vanished
            for tp in sighting.vanished:
                del state[tp]
            self._reset_recreated(state, sighting.recreated)
            wanted = {*sighting.partitions, *state}
            try:
                found = self._reachable_ends(wanted)
                break
            except UnknownTopic:
                if not tries_left:
                    raise
        self._check_truncation(state, found)
        self.newest = {tp: state[tp] for tp in wanted if tp in state} | found
        ends = self._end.cut(found, self.cluster)
        return {tp: max(end, state.get(tp, 0)) for tp, end in ends.items()}

    def _reachable_ends(self, wanted: Iterable[TopicPartition]) -> Offsets:
        """Ends of the partitions that have a leader. One without keeps its place in the state and waits for it."""
        asked = list(wanted)
        found = self.cluster.reachable_ends(asked, [tp for tp in asked if tp not in self._silent])
        silent = frozenset(tp for tp in asked if tp not in found)
        if fresh := sorted(silent - self._silent):
            log.warning("no leader answers for %s: going on without, for now", _listed(fresh))
        self._silent = silent
        return found

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

    def _reset_recreated(self, state: Offsets, recreated: Iterable[TopicPartition]) -> None:
        """A topic made anew begins at its beginning. Its own step in the log, so that a replay sees the same."""
        stale = [tp for tp in recreated if state[tp] > 0]
        reason = "another topic of the same name, created since"
        self._lose([(tp, f"from offset {state[tp]}", reason) for tp in stale])
        for tp in recreated:
            self._epochs.pop(tp, None)
        self._resets |= self.cluster.begin(stale)

    def _check_truncation(self, state: Offsets, found: Offsets) -> None:
        """A log that is shorter than what was read of it, or whose new leader never had that."""
        read = {tp: offset for tp, offset in state.items() if tp not in self._resets}
        cut = {tp: end for tp, offset in read.items() if (end := found.get(tp, offset)) < offset}
        if self.cluster.known is not self._epochs_of:
            self._epochs_of = self.cluster.known
            ends = self.cluster.epoch_ends(self._changed_epochs(state))
            cut |= {tp: end for tp, (_, end) in ends.items() if tp in read and 0 <= end < read[tp]}
        self._lose(
            [(tp, f"from offset {read[tp]}", f"offsets up to {end} of what was read") for tp, end in cut.items()]
        )
        self._resets |= cut

    def _changed_epochs(self, state: Offsets) -> dict[TopicPartition, int]:
        """Partitions that have another leader now than when they were last looked at, with the epoch of that time."""
        known = self.cluster.known
        leaders = {tp: known.leader(tp) for tp in state} if known is not None else {}
        now = {tp: leader.epoch for tp, leader in leaders.items() if leader is not None and leader.epoch >= 0}
        before, self._epochs = self._epochs, self._epochs | now
        return {tp: before[tp] for tp, epoch in now.items() if before.get(tp, epoch) < epoch}

    # --- the work of one batch ------------------------------------------------------------------------------------

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """What the tasks of a batch read. Spark may ask more than once."""
        if self._planned is not None and self._planned[:2] == (start, end):
            return self._planned[2]
        # A partition that goes back was reset: nothing of it is in this batch.
        wanted = {tp: start.get(tp) for tp in end if start.get(tp, -1) < end[tp]}
        if self.pins_start and start == self._initial and any(start.get(tp, 0) > end[tp] for tp in end):
            log.warning(
                "the first batch is planned again, and where it starts has moved on since. Nothing is lost if Penstock "
                "planned it; a first batch of Spark's own Kafka source must be finished before its checkpoint moves"
            )
        begin, vanished = self._begins(wanted)
        lost = [(tp, _offsets_text(wanted[tp], end[tp]), "nothing: it does not exist any more") for tp in vanished]
        asked, stop = list(begin), dict(end)
        first: Offsets = {}
        for tp in asked:
            at = wanted[tp]
            first[tp] = begin[tp] if at is None else at
            if first[tp] < begin[tp]:
                lost.append((tp, f"from offset {first[tp]}", f"offsets from {begin[tp]}"))
                first[tp] = min(begin[tp], end[tp])
        if end != self._answered:  # planned by an earlier run: the log may have been cut since
            for tp, available in self.cluster.end(asked).items():
                if available < end[tp]:
                    lost.append((tp, f"up to offset {end[tp]}", f"offsets up to {available}"))
                    stop[tp] = max(available, first[tp])
        self._lose(lost)
        known = self.cluster.known
        assert known is not None, "the cluster has just answered"
        whole = [range_of(tp, first[tp], stop[tp], known) for tp in asked if first[tp] < stop[tp]]
        ranges = spread(split(whole, self.options.min_partitions, self.options.max_records_per_partition))
        self._planned = (dict(start), dict(end), ranges)
        return ranges

    def _begins(self, wanted: Iterable[TopicPartition]) -> tuple[Offsets, set[TopicPartition]]:
        """Where the logs begin, and which of them are gone by now."""
        vanished = set(self.discovery.locate(wanted))
        while True:
            asked = [tp for tp in wanted if tp not in vanished]
            try:
                begin = self.cluster.begin(asked)
            except UnknownTopic as error:
                vanished |= {tp for tp in asked if tp.topic == error.topic and error.partition in (None, tp.partition)}
            else:
                self._gone |= vanished
                return begin, vanished

    def _weigh(self, backlog: Mapping[TopicPartition, int], position: Mapping[TopicPartition, int]) -> None:
        """Look at how heavy the next records are, for maxBytesPerTrigger and the metrics."""
        limited = self.options.stream.max_bytes is not None
        if not backlog or not (limited or self.options.stream.report_metrics):
            return
        now = self._clock()
        if now >= self._sampled_at + (LIMITED_SAMPLE_SECONDS if limited else SAMPLE_SECONDS):
            self._sampled_at, self._sampled = now, set()
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


def _listed(partitions: list[TopicPartition], limit: int = 10) -> str:
    more = f" and {len(partitions) - limit} more" if len(partitions) > limit else ""
    return ", ".join(map(str, partitions[:limit])) + more
