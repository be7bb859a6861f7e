"""E2 and E4 in the planner: which partitions wait for which, over logs that are lists of timestamps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import TopicPartition
from penstock.errors import BrokerUnavailable
from penstock.planner.alignment.alignment import PartitionRead
from penstock.planner.alignment.pace import FIRST_STEP, GROWTH, Paces
from support.examples import examples
from support.timed_logs import BASE, HOUR, MINUTE, UNTIMED, A, B, C, Marker, Stream, records


def test_E4_a_partition_is_read_up_to_the_drift_ahead_of_the_slowest():
    stream = Stream({A: [BASE, BASE + MINUTE], B: [BASE + i * MINUTE for i in range(100)]}, drift=10 * MINUTE)
    stream.step()
    # A's log ends with watermark one minute less a millisecond; B's may be ten minutes further.
    assert stream.position == {A: 2, B: 12}
    assert stream.alignment.status().partitions[B].held
    assert stream.step() == 0, "A has nothing to read and is not idle yet"


def test_E2_the_combined_watermark_is_the_slowest_ones():
    stream = Stream({A: [BASE + 5], B: [BASE + 9]}, drift=HOUR)
    assert stream.alignment.status().combined is None
    stream.step()
    assert stream.alignment.status().combined == BASE + 4
    assert stream.alignment.watermarks([B]) == {B: (BASE + 4, BASE + 8)}


def test_E2_one_batch_has_one_combined_watermark():
    stream = Stream({A: [BASE], B: [BASE + MINUTE]}, drift=HOUR, idleness=30.0)
    stream.step()
    stream.logs.logs[B].append(BASE + MINUTE)
    stream.plan()
    ticks = iter([29.9, 30.1, 30.3])
    stream.alignment._clock = lambda: next(ticks)  # the idle time-out of A passes meanwhile
    watermarks = stream.alignment.watermarks([A, B])
    assert {combined for combined, _ in watermarks.values()} == {BASE - 1}


def test_E2_a_partition_of_a_recreated_topic_starts_without_a_watermark():
    stream = Stream({A: [BASE + 20 * HOUR], B: [BASE + 20 * HOUR]}, drift=HOUR, idleness=30.0)
    stream.step()
    stream.alignment.forget([A])
    stream.logs.logs[A] = [BASE + i * MINUTE for i in range(3)]
    stream.logs.logs[B] += [BASE + 22 * HOUR]
    stream.position[A] = 0
    assert stream.step(limit=2) == 2
    assert stream.position == {A: 2, B: 1}, "B waits for what lies far behind it now"
    assert stream.mark(A) == BASE + MINUTE - 1


def test_E2_a_partition_that_left_is_looked_at_again_when_it_comes_back():
    stream = Stream({A: [BASE + HOUR], B: [BASE]}, drift=2 * HOUR, idleness=30.0)
    stream.step()
    stream.alignment.align({B: 1}, {B: 1})
    stream.logs.logs[A] = [BASE - HOUR]  # it may be another topic
    stream.plan()
    assert stream.mark(A) == BASE - HOUR - 1
    assert stream.alignment.status().idle == [A], "nothing came for an hour"


def test_E4_out_of_order_timestamps_do_not_break_the_bound():
    late = [BASE, BASE + 2 * HOUR, BASE + 1, BASE + 3]  # the second one is far too early
    stream = Stream({A: [BASE], B: late}, drift=HOUR)
    stream.step()
    assert stream.position == {A: 1, B: 1}, "what lies behind the early record waits with it"


def test_E4_a_marker_at_the_beginning_of_a_log_says_nothing_of_its_records():
    """What comes first in a log that was cut off inside a transaction. It bears the time of the commit."""
    stream = Stream(
        {A: [Marker(BASE + 100 * HOUR), BASE, BASE + 1], B: [BASE + i * HOUR for i in range(100)]}, drift=HOUR
    )
    stream.step(limit=10)
    assert stream.position == {A: 3, B: 0}
    stream.step(limit=10)
    assert stream.position == {A: 3, B: 2}


def test_E4_logs_that_all_begin_with_markers_do_not_wait_for_each_other():
    stream = Stream({tp: [Marker(BASE + HOUR), *range(BASE, BASE + 5)] for tp in (A, B, C)}, drift=MINUTE)
    for start in ({}, dict.fromkeys((A, B, C), 1)):
        stream.position |= start
        stream.start()
        assert stream.step(limit=10) == 10


@pytest.mark.parametrize("limit", [None, 20])
def test_E4_a_log_without_timestamps_does_not_hold_back_others(limit):
    stream = Stream({A: [UNTIMED] * 3, B: [BASE], C: [BASE + i * MINUTE for i in range(100)]}, drift=10 * MINUTE)
    stream.step(limit)
    assert stream.position[A] > 0
    assert stream.position[B] == 1
    assert stream.position[C] == 11, "ten minutes ahead of B"


def test_E4_a_log_that_is_known_to_end_within_the_limit_is_read_to_its_end():
    """Though the index, asked for what lies past it, shows nothing."""
    stream = Stream({A: [BASE] * (2 * FIRST_STEP), C: [BASE, BASE + 10 * HOUR]}, drift=HOUR)
    stream.step()
    assert stream.position == {A: 2 * FIRST_STEP, C: 1}


def test_E4_a_log_that_was_cut_and_has_grown_again_is_looked_at_again():
    stream = Stream({A: [BASE] * 5, B: [BASE], C: [BASE, BASE + 10 * HOUR]}, drift=HOUR)
    stream.step()
    assert stream.position == {A: 5, B: 1, C: 1}
    stream.logs.logs[A][3:] = [BASE, BASE + 20 * HOUR]
    stream.position[A] = 3
    stream.step()
    assert stream.position == {A: 4, B: 1, C: 1}
    assert stream.mark(A) == BASE - 1


def test_E4_where_compaction_hides_what_is_past_the_limit_a_log_is_read_in_steps():
    hidden = [BASE + i * HOUR for i in range(3 * FIRST_STEP)]
    stream = Stream({A: [BASE], B: hidden, C: [BASE + 10 * HOUR]}, drift=HOUR)
    stream.logs.hiding.add(B)
    stream.step()
    assert stream.position == {A: 1, B: FIRST_STEP, C: 0}


def test_E4_where_deletion_hides_what_is_past_the_limit_a_log_is_not_read_to_its_end():
    stream = Stream({A: [BASE] * 5, B: [BASE + i * HOUR for i in range(3 * FIRST_STEP)]}, drift=HOUR)
    stream.logs.hiding.add(B)
    stream.step()
    assert stream.position == {A: 5, B: FIRST_STEP}


def test_E4_where_deletion_hides_the_records_the_next_one_is_held_against_the_limit():
    stream = Stream({A: [BASE] * 5, B: [BASE + 10 * HOUR] * 5}, drift=HOUR)
    stream.logs.hiding.add(B)
    stream.step()
    assert stream.position == {A: 5, B: 0}


@pytest.mark.parametrize("limit", [None, 1])
def test_E4_the_last_of_all_timestamps_is_one_like_others(limit):
    stream = Stream({A: [BASE, 2**63 - 1], B: [BASE, 2**63 - 1, 2**63 - 1]}, drift=MINUTE)
    while stream.step(limit, bounded=True):
        pass
    assert stream.position == stream.logs.ends()


def test_E4_a_gap_in_the_slowest_partitions_time_does_not_stop_the_stream():
    stream = Stream({A: [BASE, BASE + 10 * HOUR], B: [BASE, BASE + 12 * HOUR]}, drift=HOUR)
    while stream.step(limit=1, bounded=True):
        pass
    assert stream.position == stream.logs.ends()
    assert stream.dropped == 0


def test_E4_an_even_topic_asks_one_question():
    stream = Stream({tp: [BASE + i for i in range(50)] for tp in (A, B, C)}, drift=MINUTE)
    stream.step()
    stream.logs.asked.clear()
    for log in stream.logs.logs.values():
        log += [BASE + 100]
    assert stream.step() == 3
    assert stream.logs.asked == ["times"]
    stream.logs.asked.clear()
    assert stream.step() == 0
    assert stream.logs.asked == []


def test_F19_a_lost_report_is_made_up_for_by_the_broker():
    stream = Stream({A: [BASE, BASE + MINUTE], B: [BASE, BASE + 2]}, drift=HOUR)
    stream.position = {A: 2, B: 1}
    stream.alignment.learn({A: PartitionRead(2, BASE, complete=False), B: PartitionRead(1, BASE)})
    stream.plan()
    assert stream.mark(A) == BASE + MINUTE - 1


def test_E4_a_payload_field_is_read_in_steps_that_are_learned():
    fast, slow = [BASE + i for i in range(500_000)], [BASE + i // 10 for i in range(500_000)]
    stream = Stream({A: fast, B: slow}, drift=5_000, by_record=False, delay=15_000)
    triggers = 0
    while stream.step(bounded=True):
        triggers += 1
        marks = [stream.mark(tp) for tp in (A, B)]
        if stream.position[B] < len(slow):
            assert abs(marks[0] - marks[1]) <= 6_000
    assert stream.position == stream.logs.ends()
    assert stream.dropped == 0
    assert triggers < 60


def test_E4_a_payload_field_holds_back_what_was_never_read():
    """The first records are looked at before the first batch: afterwards it would be too late for the slow ones."""
    logs = {tp: [BASE + start + i * 1000 for i in range(5000)] for tp, start in ((A, 0), (B, 24 * HOUR))}
    stream = Stream(logs, drift=HOUR, by_record=False)
    stream.step()
    assert stream.position == {A: 5000, B: 0}
    while stream.step(bounded=True):
        pass
    assert (stream.position, stream.dropped) == (stream.logs.ends(), 0)


def test_E4_a_payload_that_cannot_be_looked_at_is_learned_by_reading(caplog):
    stream = Stream({A: [BASE] * 3, B: [BASE] * (2 * FIRST_STEP)}, drift=HOUR, by_record=False)
    stream.position[A] = 1

    def fail(*asked):
        raise BrokerUnavailable("no broker answers")

    stream.logs.before = stream.logs.after = fail
    stream.step()
    assert stream.position == {A: 3, B: FIRST_STEP}
    assert "event-time watermarks start again: no broker answers" in caplog.text
    assert "they are learned by reading: no broker answers" in caplog.text


def test_E4_a_step_by_what_few_records_have_taught_is_not_too_large():
    paces = Paces()
    assert paces.step(A, None, BASE) == paces.step(A, BASE, BASE + HOUR) == FIRST_STEP
    assert paces.step(A, BASE, BASE - 1) == 0
    paces.learn(A, 5000, None)
    assert paces.step(A, BASE, BASE + HOUR) == FIRST_STEP
    paces.learn(A, 5000, 1)
    assert paces.step(A, BASE, BASE + HOUR) == 5000 * GROWTH
    paces.learn(A, 5000, 0)
    assert paces.step(A, BASE, BASE + HOUR) == 5000 * GROWTH
    paces.learn(A, 5000, 50_000)
    assert paces.step(A, BASE, BASE + MINUTE) == MINUTE // 10
    assert paces.step(A, BASE, BASE) == 1, "it may go on, however little"
    paces.forget(A)
    assert paces.step(A, BASE, BASE + HOUR) == FIRST_STEP


def test_E4_a_payload_without_times_is_learned_by_reading():
    stream = Stream({A: [BASE] * 3, B: [BASE] * (2 * FIRST_STEP)}, drift=HOUR, by_record=False)
    stream.logs.after = lambda offsets, ends: dict.fromkeys(offsets)
    stream.step()
    assert stream.position == {A: 3, B: FIRST_STEP}


def test_E4_markers_of_transactions_hide_records_from_the_index_and_stop_nothing():
    """They bear the time of the commit, here of a replay long after the records' own."""
    logs = {
        tp: [Marker(BASE + 100 * HOUR) if i % 10 == 9 else BASE + start + i * MINUTE for i in range(2000)]
        for tp, start in ((A, 0), (B, 5 * HOUR))
    }
    stream = Stream(logs, drift=HOUR)
    for _ in range(1000):
        if not stream.step(limit=100, bounded=True):
            break
    assert stream.position == stream.logs.ends()


@st.composite
def topics(draw, markers=False):
    """Logs whose records are out of order by less than a bound; the bound, a drift, and a limit."""
    out_of_order = draw(st.sampled_from([0, 5, 1000]))
    logs = {}
    for number in range(draw(st.integers(1, 4))):
        at, log = BASE + draw(st.integers(0, 100_000)), []
        for gap in draw(st.lists(st.sampled_from([0, 1, 10, 500, 60_000]), max_size=30)):
            at += gap
            log.append(at - draw(st.integers(0, out_of_order)))
            if markers and draw(st.booleans()):
                log.append(Marker(at + draw(st.sampled_from([1, 500, 10**7]))))
        logs[TopicPartition("t", number)] = log
    return logs, out_of_order, draw(st.sampled_from([0, 10, 1000, 100_000])), draw(st.sampled_from([None, 1, 3, 10]))


class Published:
    """What never goes back (E2): by record timestamps a partition's own event-time watermark, also where the stream was
    started again; and the combined one of a run. A run does not know which partitions were idle in the run before."""

    def __init__(self):
        self.own, self.combined = {}, None

    def restarted(self):
        self.combined = None

    def check(self, status, silent=()):
        for tp, partition in status.partitions.items():
            before = self.own.get(tp)
            if before is not None and (partition.watermark is not None or tp not in silent):
                assert partition.watermark is not None
                assert partition.watermark >= before
            self.own[tp] = before if partition.watermark is None else partition.watermark
        if self.combined is not None:
            assert status.combined is not None
            assert status.combined >= self.combined
        self.combined = status.combined


@settings(deadline=None, max_examples=examples(300))
@given(topics(), st.sets(st.integers(0, 20)))
def test_E4_nothing_that_was_in_order_is_ever_late_and_everything_is_read(drawn, restarts):
    logs, out_of_order, drift, limit = drawn
    stream = Stream(logs, drift=drift, out_of_order=out_of_order)
    published = Published()
    for trigger in range(400):
        if trigger in restarts:
            stream.start()
            published.restarted()
        if not stream.step(limit, bounded=True):
            break
        published.check(stream.alignment.status())
    assert stream.position == stream.logs.ends()
    assert stream.dropped == 0


PARTITIONS = [TopicPartition("t", number) for number in range(4)]


@st.composite
def lives(draw):
    """What happens to a topic, trigger by trigger: time passes, records come, or a partition with its first ones, a
    leader is away, the stream is started again. Its records are out of order by less than a bound, or in order and with
    markers of transactions among them."""
    markers = draw(st.booleans())
    out_of_order = 0 if markers else draw(st.sampled_from([0, 500]))
    clocks = {tp: BASE + draw(st.sampled_from([0, 50_000, HOUR])) for tp in PARTITIONS}
    triggers = []
    for _ in range(draw(st.integers(1, 20))):
        grown = []
        for number, gap in draw(
            st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 5000, HOUR])), max_size=5)
        ):
            tp = PARTITIONS[number]
            clocks[tp] += gap
            grown.append((tp, clocks[tp] - (draw(st.integers(0, out_of_order)) if out_of_order else 0)))
            if markers and draw(st.booleans()):
                grown.append((tp, Marker(clocks[tp])))
        seconds = draw(st.sampled_from([1.0, 10.0, 40.0]))
        silent = draw(st.sampled_from([(), (), PARTITIONS[:1], PARTITIONS[1:3]]))
        triggers.append((seconds, grown, silent, draw(st.integers(0, 9)) == 0))
    return triggers, out_of_order, draw(st.sampled_from([0, 1000, 60_000])), draw(st.sampled_from([None, 1, 5]))


@settings(deadline=None, max_examples=examples(200))
@given(lives())
def test_E4_a_live_stream_runs_ahead_of_nothing_that_it_has_seen_and_reads_all_of_it(life):
    triggers, out_of_order, drift, limit = life
    stream = Stream({}, drift=drift, out_of_order=out_of_order, idleness=30.0)
    published, seen = Published(), {}
    for seconds, grown, silent, restarts in triggers:
        stream.now += seconds
        stream.wall += seconds
        joining = {tp for tp, _ in grown if tp not in stream.position}
        for tp, stamp in grown:
            stream.logs.logs.setdefault(tp, []).append(stamp)
            stream.position.setdefault(tp, 0)
        silent = set(silent) - joining
        if restarts:
            stream.start()
            published.restarted()
        seen |= {tp: end for tp, end in stream.logs.ends().items() if tp not in silent}
        before = dict(stream.position)
        stream.step(limit, silent=silent, joining=joining)
        read = [stamp for tp, at in before.items() for stamp in records(stream.logs.logs[tp][at : stream.position[tp]])]
        left = [stamp for tp, end in seen.items() for stamp in records(stream.logs.logs[tp][stream.position[tp] : end])]
        if read and left:
            assert max(read) <= min(left) + drift + out_of_order
        published.check(stream.alignment.status(), silent)
    for _ in range(400):
        if stream.position == stream.logs.ends():
            break
        stream.now += 31.0
        stream.step(limit)
        published.check(stream.alignment.status())
    assert stream.position == stream.logs.ends()


@settings(deadline=None, max_examples=examples(200))
@given(topics(markers=True))
def test_E4_a_log_with_transactions_is_read_to_its_end(drawn):
    logs, out_of_order, drift, limit = drawn
    stream = Stream(logs, drift=drift, out_of_order=out_of_order)
    for _ in range(500):
        if not stream.step(limit, bounded=True):
            break
    assert stream.position == stream.logs.ends()


@settings(deadline=None, max_examples=examples(100))
@given(topics())
def test_E2_a_restart_knows_the_watermarks_that_were_there(drawn):
    logs, out_of_order, drift, limit = drawn
    stream = Stream(logs, drift=drift, out_of_order=out_of_order)
    stream.step(limit)
    before = {tp: stream.mark(tp) for tp in logs}
    stream.start()
    stream.plan(limit)
    assert {tp: stream.mark(tp) for tp in logs} == before


@pytest.mark.parametrize("limit", [None, 20])
def test_E4_without_alignment_slow_partitions_lose_records(limit):
    """That the rule above is not empty."""
    logs = {A: [BASE + i for i in range(100)], B: [BASE + HOUR + i for i in range(100)]}
    stream = Stream(logs, drift=10**12, delay=MINUTE)
    stream.step(limit=100)
    while stream.step(limit, bounded=True):
        pass
    assert stream.dropped
