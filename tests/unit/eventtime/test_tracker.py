"""E2 to E4: watermarks never decrease, idle partitions hold back no others, and none runs ahead of the slowest."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock import EventTimeStatus, PartitionEventTime, TopicPartition
from penstock.eventtime.tracker import UNKNOWN, WatermarkTracker

A, B, C = (TopicPartition("orders", number) for number in range(3))


def tracker(*partitions: TopicPartition, idleness: float | None = 10.0, max_drift: int | None = 0) -> WatermarkTracker:
    made = WatermarkTracker(idleness, max_drift)
    made.set_partitions(partitions, 0)
    return made


def slowest(made: WatermarkTracker, now: float) -> int | None:
    """The lowest event-time watermark of the active partitions, of a tracker without drift: where the limit lies. None:
    one of them has none yet, or none is active."""
    limit = made.limit(now)
    return None if limit == UNKNOWN else limit


def is_idle(made: WatermarkTracker, tp: TopicPartition, now: float) -> bool:
    return made.status(now).partitions[tp].idle


def test_E2_the_combined_watermark_is_the_slowest_active_ones():
    made = tracker(A, B)
    made.observe(A, 100, 0)
    made.observe(B, 40, 0)
    assert made.combined(0) == slowest(made, 0) == 40
    made.observe(B, 70, 1)
    assert made.combined(1) == 70
    assert (made.watermark(A), made.watermark(B)) == (100, 70)


def test_E2_nothing_is_known_until_every_active_partition_has_a_watermark():
    made = tracker(A, B)
    assert made.combined(0) is None
    made.observe(A, 100, 0)
    made.observe(B, None, 0)
    assert made.combined(0) is slowest(made, 0) is made.watermark(B) is None
    made.observe(B, -5, 0)
    assert made.combined(0) == -5


def test_E2_a_partitions_watermark_never_goes_back():
    made = tracker(A)
    made.observe(A, 100, 0)
    made.observe(A, 50, 1)
    made.observe(A, None, 2)
    assert made.watermark(A) == made.combined(2) == 100


def test_E2_a_new_partition_stops_the_combined_watermark_and_does_not_pull_it_back():
    made = tracker(A)
    made.observe(A, 100, 0)
    assert made.combined(0) == 100
    made.set_partitions([A, B], 1)
    made.observe(A, 200, 1)
    assert made.combined(1) == 100
    assert slowest(made, 1) is None
    made.observe(B, 30, 2)
    assert (made.combined(2), slowest(made, 2)) == (100, 30)
    made.observe(B, 150, 3)
    assert made.combined(3) == 150


def test_E2_a_removed_partition_holds_back_no_others_and_starts_again_if_it_returns():
    made = tracker(A, B)
    made.observe(A, 100, 0)
    made.observe(B, 40, 0)
    made.set_partitions([A], 1)
    assert made.combined(1) == 100
    assert made.watermark(B) is None
    made.set_partitions([A, B], 2)
    assert slowest(made, 2) is None
    made.observe(B, 10, 2)
    assert (slowest(made, 2), made.combined(2)) == (10, 100)


def test_E2_with_no_partition_left_it_stays():
    made = tracker(A)
    made.observe(A, 100, 0)
    assert made.combined(0) == 100
    made.set_partitions([], 1)
    assert made.combined(1) == 100
    assert slowest(made, 1) is None
    assert made.status(1) == EventTimeStatus(100, {})


def test_E2_calls_for_a_partition_that_is_not_assigned_are_ignored():
    made = tracker(A)
    made.observe(B, 5, 0)
    made.has_records(B, 0)
    made.has_none(B, 0)
    made.finish(B)
    made.observe(A, 100, 0)
    assert made.combined(0) == 100
    assert made.watermark(B) is None
    assert made.status(100).partitions.keys() == {A}
    assert not made.is_ahead(B, 100)


def test_E3_a_partition_without_records_for_the_timeout_holds_back_no_others():
    made = tracker(A, B)
    made.observe(A, 100, 0)
    made.has_none(B, 5)
    made.has_none(B, 12)
    assert not is_idle(made, B, 14.9)
    assert made.combined(14.9) is None
    assert is_idle(made, B, 15)
    assert made.combined(15) == 100


def test_E2_the_combined_watermark_with_records_that_are_not_read_yet_is_returned_and_changes_nothing():
    made = tracker(A, B)
    assert made.combined_with(A, 100, 0) is None
    made.observe(B, 50, 0)
    assert made.combined_with(A, 100, 0) == 50
    assert made.combined_with(A, 30, 0) == 30
    assert made.combined_with(A, None, 0) is None
    assert made.combined(0) is made.watermark(A) is None
    made.observe(A, 40, 0)
    assert made.combined_with(A, 100, 0) == 50
    assert made.combined_with(A, 20, 0) == 40, "records are behind, the watermark is not"
    assert made.combined_with(C, 1000, 0) == 40, "not one of these"
    made.has_none(B, 0)
    assert made.combined_with(A, 100, 20) == 100, "the other one is idle"
    assert made.combined(20) == 40
    made.reach(70)
    made.reach(60)
    made.reach(None)
    assert made.combined(20) == 70
    assert made.combined_with(A, 60, 20) == 70


def test_E3_a_partition_that_has_had_nothing_for_longer_than_was_known_is_idle_by_that():
    made = tracker(A, B)
    made.observe(A, 100, 0)
    made.has_none(B, 50, since=45)
    made.has_none(B, 51, since=20)
    assert not is_idle(made, B, 54.9)
    assert is_idle(made, B, 55)
    made.has_records(B, 55)
    made.has_none(B, 55, since=1000)
    assert is_idle(made, B, 65), "not later than now"


def test_E3_the_clock_does_not_run_while_there_are_records():
    made = tracker(A, B)
    made.observe(A, 100, 0)
    made.has_none(B, 0)
    made.has_records(B, 9)
    assert not is_idle(made, B, 1000)
    made.has_none(B, 1000)
    assert not is_idle(made, B, 1009)
    assert is_idle(made, B, 1010)


def test_E3_silence_alone_makes_no_partition_idle():
    # A partition that is not read because it is ahead, or its reader is slow, has records all the same.
    made = tracker(A, B)
    made.observe(A, 100, 0)
    assert not is_idle(made, A, 1e9)
    assert not is_idle(made, B, 1e9)
    assert made.combined(1e9) is None


def test_E3_without_a_timeout_no_partition_is_ever_idle():
    made = tracker(A, B, idleness=None)
    made.observe(A, 100, 0)
    made.has_none(B, 0)
    assert not is_idle(made, B, 1e9)
    assert made.combined(1e9) is None


@pytest.mark.parametrize("wake", ["read", "seen"])
def test_E3_a_partition_that_wakes_is_active_and_cannot_pull_the_combined_watermark_back(wake):
    made = tracker(A, B)
    made.observe(A, 100, 0)
    made.observe(B, 40, 0)
    made.has_none(B, 0)
    assert made.combined(10) == 100
    if wake == "read":
        made.observe(B, 41, 11)
    else:
        made.has_records(B, 11)
    assert not is_idle(made, B, 1000)
    made.observe(A, 300, 12)
    assert slowest(made, 12) == (41 if wake == "read" else 40)
    assert made.combined(12) == 100
    made.observe(B, 250, 13)
    assert made.combined(13) == 250


def test_E3_when_all_are_idle_it_stays():
    made = tracker(A, B)
    made.observe(A, 100, 0)
    made.observe(B, 40, 0)
    assert made.combined(0) == 40
    made.has_none(A, 0)
    made.has_none(B, 0)
    assert made.combined(10) == 40
    assert slowest(made, 10) is None


def test_E3_a_finished_partition_holds_back_no_others_until_it_has_records():
    made = tracker(A, B, idleness=None)
    made.observe(A, 100, 0)
    made.finish(B)
    assert is_idle(made, B, 0)
    assert made.combined(0) == 100
    made.has_none(B, 1)
    assert is_idle(made, B, 1)
    made.has_records(B, 2)
    made.observe(A, 200, 2)
    assert made.combined(2) == 100
    made.finish(B)
    made.observe(B, 150, 3)
    assert made.combined(3) == 150


def test_E3_a_clock_that_is_read_before_the_lock_may_be_a_little_behind():
    made = tracker(A, B)
    made.observe(A, 100, 0)
    made.has_none(B, 0)
    assert made.combined(10) == 100
    assert is_idle(made, B, 9.9)
    assert slowest(made, 9.9) == 100


def test_E4_a_partition_past_the_drift_waits_for_the_slowest():
    made = tracker(A, B, max_drift=50)
    made.observe(A, 150, 0)
    made.observe(B, 100, 0)
    assert made.limit(0) == 150
    assert not made.is_ahead(A, 0)
    made.observe(A, 151, 1)
    assert made.is_ahead(A, 1)
    assert not made.is_ahead(B, 1)
    made.observe(B, 101, 2)
    assert not made.is_ahead(A, 2)


def test_E4_without_a_drift_there_is_no_limit():
    made = tracker(A, B, max_drift=None)
    made.observe(A, 10**12, 0)
    made.observe(B, 0, 0)
    assert made.limit(0) is None
    assert not made.is_ahead(A, 0)


def test_E4_while_an_active_partition_is_unknown_every_known_one_waits():
    made = tracker(A, B, max_drift=50)
    assert not made.is_ahead(A, 0)
    earliest = -(2**63) + 1
    made.observe(A, earliest, 0)
    assert made.is_ahead(A, 0)
    assert not made.is_ahead(B, 0)
    made.has_none(B, 0)
    assert not made.is_ahead(A, 10)
    assert made.limit(10) == earliest + 50


def test_E4_an_idle_partition_holds_back_no_others():
    made = tracker(A, B, max_drift=50)
    made.observe(A, 1000, 0)
    made.observe(B, 0, 0)
    made.has_none(B, 0)
    assert made.is_ahead(A, 9)
    assert not made.is_ahead(A, 10)


def test_E4_without_an_active_partition_there_is_no_limit():
    made = tracker(A, B, max_drift=50)
    made.observe(A, 1000, 0)
    made.observe(B, 0, 0)
    for tp in (A, B):
        made.has_none(tp, 0)
    assert made.is_ahead(A, 9)
    assert made.limit(10) is None
    assert not made.is_ahead(A, 10)


def test_E4_a_partition_that_wakes_up_behind_holds_the_others_until_it_has_caught_up():
    made = tracker(A, B, max_drift=50)
    made.observe(A, 1000, 0)
    made.observe(B, 0, 0)
    made.has_none(B, 0)
    assert not made.is_ahead(A, 10)
    made.has_records(B, 11)
    assert made.is_ahead(A, 11)
    made.observe(B, 960, 12)
    assert not made.is_ahead(A, 12)


def test_E4_a_drift_of_nothing_lets_the_slowest_go_on():
    made = tracker(A, B, max_drift=0)
    made.observe(A, 2, 0)
    made.observe(B, 1, 0)
    assert (made.is_ahead(A, 0), made.is_ahead(B, 0)) == (True, False)
    made.observe(B, 2, 0)
    assert (made.is_ahead(A, 0), made.is_ahead(B, 0)) == (False, False)


def test_E2_E3_E4_the_status_has_all_partitions_in_order():
    made = tracker(C, B, A, max_drift=50)
    made.observe(A, 100, 0)
    made.observe(B, 500, 0)
    made.observe(C, 900, 0)
    made.has_none(C, 0)
    status = made.status(10)
    assert status == EventTimeStatus(
        100,
        {
            A: PartitionEventTime(100, idle=False, held=False),
            B: PartitionEventTime(500, idle=False, held=True),
            C: PartitionEventTime(900, idle=True, held=False),
        },
    )
    assert list(status.partitions) == [A, B, C]
    assert (status.idle, status.held) == ([C], [B])
    assert made.is_ahead(C, 10), "what comes on an idle one that is ahead has to wait too"
    assert pickle.loads(pickle.dumps(status)) == status


class TrackedPartitions(RuleBasedStateMachine):
    """Any order of calls, beside a model that looks at every partition every time."""

    IDLENESS = 3.0
    DRIFT = 20
    numbers = st.integers(0, 5)
    marks = st.none() | st.integers(-60, 200)

    @initialize()
    def begin(self) -> None:
        self.tracker = WatermarkTracker(self.IDLENESS, self.DRIFT)
        self.now = 0.0
        self.marks_of: dict[TopicPartition, int | None] = {}
        self.quiet: dict[TopicPartition, float] = {}
        self.finished: set[TopicPartition] = set()
        self.last: int | None = None

    def wake(self, tp: TopicPartition) -> None:
        self.quiet.pop(tp, None)
        self.finished.discard(tp)

    def active(self) -> list[TopicPartition]:
        return [
            tp
            for tp in self.marks_of
            if tp not in self.finished and self.now - self.quiet.get(tp, self.now) < self.IDLENESS
        ]

    @rule(chosen=st.sets(numbers))
    def set_partitions(self, chosen: set[int]) -> None:
        wanted = {TopicPartition("t", number) for number in chosen}
        self.tracker.set_partitions(wanted, self.now)
        for gone in self.marks_of.keys() - wanted:
            self.wake(gone)
        self.marks_of = {tp: self.marks_of.get(tp) for tp in wanted}

    @rule(number=numbers, mark=marks)
    def observe(self, number: int, mark: int | None) -> None:
        tp = TopicPartition("t", number)
        self.tracker.observe(tp, mark, self.now)
        if tp in self.marks_of:
            known = [each for each in (self.marks_of[tp], mark) if each is not None]
            self.marks_of[tp] = max(known, default=None)
            self.wake(tp)

    @rule(number=numbers)
    def has_records(self, number: int) -> None:
        tp = TopicPartition("t", number)
        self.tracker.has_records(tp, self.now)
        self.wake(tp)

    @rule(number=numbers)
    def has_none(self, number: int) -> None:
        tp = TopicPartition("t", number)
        self.tracker.has_none(tp, self.now)
        if tp in self.marks_of:
            self.quiet.setdefault(tp, self.now)

    @rule(number=numbers)
    def finish(self, number: int) -> None:
        tp = TopicPartition("t", number)
        self.tracker.finish(tp)
        if tp in self.marks_of:
            self.finished.add(tp)

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def agrees_with_the_rules(self) -> None:
        active = self.active()
        marks = [self.marks_of[tp] for tp in active]
        known = [mark for mark in marks if mark is not None]
        slowest = min(known) if known and len(known) == len(marks) else None

        combined = self.tracker.combined(self.now)
        if self.last is not None:
            assert combined is not None
            assert combined >= self.last, "it went back"
        if combined != self.last:
            assert combined == slowest, "it moved to what is not the slowest active one"
        if slowest is not None:
            assert combined is not None
            assert combined == slowest or (combined == self.last and slowest < combined), "it was held back"
        self.last = combined

        assert self.tracker.limit(self.now) == (
            slowest + self.DRIFT if slowest is not None else UNKNOWN if active else None
        )
        status = self.tracker.status(self.now)
        assert status.combined == combined
        assert status.partitions.keys() == self.marks_of.keys()
        for tp, mark in self.marks_of.items():
            assert self.tracker.watermark(tp) == status.partitions[tp].watermark == mark
            assert status.partitions[tp].idle == (tp not in active)
            ahead = bool(active) and mark is not None and (slowest is None or mark > slowest + self.DRIFT)
            assert self.tracker.is_ahead(tp, self.now) == ahead
            assert status.partitions[tp].held == (ahead and tp in active)


TestE2E3E4InAnyOrder = TrackedPartitions.TestCase


@given(
    steps=st.lists(st.lists(st.integers(0, 40), max_size=12), min_size=1, max_size=6),
    order=st.lists(st.integers(0, 5), max_size=80),
    drift=st.integers(0, 60),
)
def test_E4_if_those_ahead_are_not_read_none_passes_the_limit_by_more_than_a_batch_brings(steps, order, drift):
    # Each partition's watermark moves by the given steps, a batch each. At every moment at least one may be read.
    partitions = [TopicPartition("t", number) for number in range(len(steps))]
    made = tracker(*partitions, max_drift=drift)
    waiting = {tp: list(moves) for tp, moves in zip(partitions, steps, strict=True)}
    marks = dict.fromkeys(partitions, 0)
    for tp in partitions:
        made.observe(tp, 0, 0)
    largest = max((step for moves in steps for step in moves), default=0)
    turns = iter(order)
    while any(waiting.values()):
        for tp in partitions:
            if not waiting[tp]:
                made.finish(tp)
        readable = [tp for tp in partitions if waiting[tp] and not made.is_ahead(tp, 0)]
        assert readable, "partitions with records wait for each other forever"
        tp = readable[next(turns, 0) % len(readable)]
        limit = made.limit(0)
        moved = waiting[tp].pop(0)
        marks[tp] += moved
        made.observe(tp, marks[tp], 0)
        assert limit is not None
        assert marks[tp] <= limit + moved
        slowest = min(marks[other] for other in partitions if waiting[other] or other == tp)
        assert all(mark <= slowest + drift + largest for mark in marks.values())


class CountedTime(int):
    """Counts how often it is compared: what a call costs, without a clock."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedTime.compared += 1
        return int(self) == other

    def __lt__(self, other: int) -> bool:
        CountedTime.compared += 1
        return int(self) < other

    def __gt__(self, other: int) -> bool:
        CountedTime.compared += 1
        return int(self) > other

    __hash__ = int.__hash__


def test_E2_a_batch_does_not_cost_a_look_at_each_of_2000_partitions():
    partitions = [TopicPartition("t", number) for number in range(2000)]
    made = tracker(*partitions, max_drift=10**6)
    for tp in partitions:
        made.observe(tp, CountedTime(0), 0)
    assert made.combined(0) == 0
    CountedTime.compared = 0
    batches = 0
    for round_number in range(1, 4):
        for tp in partitions:
            made.observe(tp, CountedTime(round_number), 0)
            made.combined(0)
            made.is_ahead(tp, 0)
            batches += 1
        assert made.combined(0) == round_number
    assert batches < CountedTime.compared, "nothing was counted"
    assert CountedTime.compared < 100 * batches
