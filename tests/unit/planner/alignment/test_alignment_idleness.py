"""E3 in the planner: which partitions are idle, over logs that are lists of timestamps."""

from __future__ import annotations

import pytest

from penstock.config.event_time import EventTimeOptions
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.planner.alignment.alignment import PartitionRead
from support.timed_logs import BASE, HOUR, MINUTE, UNTIMED, A, B, C, Marker, Stream


def test_E3_an_idle_partition_does_not_hold_back_others():
    stream = Stream({A: [BASE], B: [BASE + i * HOUR for i in range(3)]}, drift=MINUTE, idleness=30.0)
    stream.step()
    assert stream.position == {A: 1, B: 1}
    assert stream.step() == 0
    stream.now = 29.0
    assert stream.step() == 0
    stream.now = 31.0
    assert stream.step() == 2
    status = stream.alignment.status()
    assert status.partitions[A].idle
    assert not status.partitions[B].held
    assert status.combined == BASE + 2 * HOUR - 1


def test_E3_a_partition_that_wakes_is_waited_for_again_and_does_not_pull_the_watermark_back():
    stream = Stream({A: [BASE], B: [BASE + HOUR]}, drift=MINUTE, idleness=30.0)
    stream.step()
    stream.step()
    stream.now = 31.0
    stream.step()
    before = stream.alignment.status().combined
    stream.logs.logs[A] += [BASE + 1, BASE + 2]
    stream.logs.logs[B] += [BASE + 2 * HOUR]
    assert stream.step() == 2
    assert stream.position == {A: 3, B: 1}, "B waits for A, which is an hour behind"
    assert stream.alignment.status().combined == before


def test_E3_a_partition_whose_newest_record_is_old_is_idle_from_the_start():
    stream = Stream({A: [BASE - HOUR], B: [BASE], C: []}, drift=MINUTE, idleness=30.0)
    stream.position[A] = 1
    assert stream.step() == 1
    status = stream.alignment.status().partitions
    assert status[A].idle
    assert status[C].idle


def test_E3_without_idleness_the_others_wait_for_ever(caplog):
    stream = Stream({A: [], B: [BASE]}, drift=MINUTE)
    stream.options = EventTimeOptions(WatermarkStrategy.monotonous().with_alignment("1m"), include_columns=False)
    stream.start()
    stream.now = 1e6
    assert stream.step() == 0
    assert "t-1 would run ahead by more than eventTime.maxDrift, and wait for t-0" in caplog.text
    assert "set eventTime.idleness" in caplog.text


@pytest.mark.parametrize("limit", [None, 50])
@pytest.mark.parametrize("begun", [[BASE], []], ids=["after a record", "from the start"])
def test_E3_a_partition_that_only_gets_aborted_records_becomes_idle(limit, begun):
    """Its log grows at every trigger, and yet nothing comes that has an event time."""
    stream = Stream({A: begun, B: [BASE + i * MINUTE for i in range(100)]}, drift=10 * MINUTE, idleness=30.0)
    for trigger in range(10):
        stream.logs.logs[A].append(Marker(BASE + trigger * 10_000))
        stream.step(limit)
        stream.now += 10.0
    assert stream.position == stream.logs.ends()
    assert stream.alignment.status().partitions[A].idle


def test_E3_a_partition_that_is_held_behind_a_marker_does_not_become_idle():
    """It has a record right there, which others must not pass."""
    slow = [BASE + i * MINUTE for i in range(4)]
    stream = Stream({A: list(slow), B: [BASE, Marker(BASE), BASE + 2 * HOUR]}, drift=HOUR, idleness=30.0)
    stream.position[B] = 1
    stream.step()
    assert stream.position == {A: 4, B: 2}
    for _ in range(5):
        stream.now += 20.0
        stream.logs.logs[A].append(stream.logs.logs[A][-1] + 1)
        stream.step()
    stream.logs.logs[A] += [BASE + 100 * HOUR]
    stream.step()
    assert stream.position == {A: 9, B: 3}, "A's last record is far ahead of B's, which is read first"


def test_E3_a_partition_whose_leader_goes_away_behind_a_marker_does_not_become_idle():
    stream = Stream({A: [BASE, Marker(BASE), BASE + 1], B: [BASE + 2 * HOUR]}, drift=HOUR, idleness=30.0)
    stream.position[A] = 1
    stream.step(limit=1)
    assert stream.position == {A: 2, B: 0}
    stream.plan(limit=1)  # another partition got the offsets of this trigger
    for _ in range(3):
        stream.now += 40.0
        assert stream.step(limit=1, silent={A}) == 0


@pytest.mark.parametrize("by_record", [True, False])
def test_E3_a_partition_that_was_idle_behind_a_marker_wakes_before_its_record_is_read(by_record):
    stream = Stream({A: [BASE], B: [BASE]}, drift=HOUR, idleness=30.0, by_record=by_record)
    stream.step()
    stream.logs.logs[A].append(Marker(BASE))
    stream.step()
    stream.step()
    stream.now = 40.0
    assert stream.step() == 0
    assert stream.alignment.status().idle == [A, B]
    stream.logs.logs[A].append(BASE + 1)
    stream.logs.logs[B] += [BASE + 2, BASE + 5 * HOUR]
    stream.plan()
    assert stream.alignment.status().idle == []
    if by_record:
        assert stream.step() == 2
        assert stream.position == {A: 3, B: 2}, "B's last record lies five hours ahead of A's"


def test_E3_triggers_that_read_nothing_do_not_keep_a_partition_from_idling():
    """As when a minimum of offsets is waited for."""
    stream = Stream({A: [BASE, Marker(BASE)], B: [BASE, BASE + HOUR]}, drift=MINUTE, idleness=30.0)
    stream.position = {A: 1, B: 1}
    stream.step()
    for _ in range(4):
        stream.logs.logs[A].append(Marker(BASE))
        for _ in range(3):
            stream.now += 4.0
            stream.plan()
            stream.alignment.postpone()
        stream.step()
    assert stream.position[B] == 2


def test_E3_the_broker_is_asked_where_no_task_has_reported_and_aborted_records_do_not_count():
    stream = Stream({A: [BASE], B: [BASE + i * MINUTE for i in range(100)]}, drift=10 * MINUTE, idleness=30.0)
    for trigger in range(10):
        stream.logs.logs[A].append(Marker(BASE + trigger * 10_000))
        stream.position |= stream.plan()
        stream.now += 10.0
    assert stream.position == stream.logs.ends()


def test_E3_records_that_are_not_later_than_those_before_are_records():
    stream = Stream({A: [BASE], B: [BASE + i * MINUTE for i in range(100)]}, drift=10 * MINUTE, idleness=30.0)
    for has_reported in [True] * 10 + [False] * 10:
        stream.logs.logs[A].append(BASE)
        if has_reported:
            stream.step()
        else:
            stream.position |= stream.plan()
        stream.now += 10.0
    assert stream.position[B] == 11


def test_E3_a_payload_that_never_has_a_time_holds_the_others_no_longer_than_the_idle_time_out(caplog):
    stream = Stream({A: [], B: [BASE + i for i in range(10)]}, drift=MINUTE, idleness=30.0, by_record=False)
    for trigger in range(6):
        stream.logs.logs[A].append(Marker(0))
        stream.step()
        if trigger == 1:
            assert stream.position == {A: 2, B: 0}
            assert "t-1 would run ahead by more than eventTime.maxDrift, and wait for t-0" in caplog.text
            assert "where no event times come: 30 s at most" in caplog.text
        stream.now += 10.0
    assert stream.position == stream.logs.ends()
    stream.logs.logs[A].append(BASE)
    stream.step()
    status = stream.alignment.status()
    assert not status.partitions[A].idle, "it has event times after all"
    assert status.combined == BASE + 9 - 1


def test_E3_a_task_that_did_not_tell_may_have_read_event_times():
    stream = Stream({A: [BASE], B: [BASE + HOUR]}, drift=MINUTE, idleness=30.0, by_record=False)
    stream.step()
    for _ in range(10):
        stream.logs.logs[A].append(BASE)
        stream.position |= stream.plan()
        stream.alignment.learn({A: PartitionRead(stream.position[A], None, complete=False)})
        stream.now += 10.0
    assert stream.position == {A: 11, B: 0}


def test_E4_an_idle_partition_that_is_ahead_waits_all_the_same():
    stream = Stream({A: [BASE + 10 * HOUR], B: []}, drift=MINUTE, idleness=30.0, by_record=False)
    for _ in range(5):
        stream.step()
        stream.logs.logs[A].append(UNTIMED)
        stream.now += 20.0
    assert stream.alignment.status().idle == [A, B]
    stream.logs.logs[B] += [BASE] * 3
    assert stream.step() == 3
    assert stream.position == {A: 5, B: 3}


def test_E3_a_partition_whose_leader_is_away_may_have_records_and_is_waited_for(caplog):
    stream = Stream({A: [BASE, BASE + 1], B: [BASE + i * HOUR for i in range(3)]}, drift=MINUTE, idleness=30.0)
    stream.position[A] = 1
    stream.step()
    stream.logs.logs[A].append(BASE + 2)
    ends = {B: 3}
    for _ in range(5):
        stream.now += 31.0
        stream.alignment.align(dict(stream.position), dict(ends))
        assert stream.alignment.status().held == [B]
    assert "wait for t-0, whose leader does not answer" in caplog.text
    assert "idleness" not in caplog.text


def test_E3_nothing_is_asked_of_a_partition_whose_leader_is_away():
    stream = Stream({A: [BASE], B: [BASE]}, drift=MINUTE)
    asked = []
    stream.logs.max_timestamps = lambda before: asked.append(set(before)) or dict.fromkeys(before, BASE)
    stream.alignment.align({A: 1, B: 1}, {B: 1})
    assert asked == [{B}, {B}]


def test_E3_the_log_says_once_a_minute_who_waits_for_whom(caplog):
    stream = Stream({A: [], B: [BASE]}, drift=MINUTE, idleness=1e6)
    stream.wall = 0.0  # so that A's silence is new
    stream.position[A] = 1
    stream.logs.logs[A] = [BASE - HOUR]
    for _ in range(13):
        stream.step()
        stream.now += 10.0
    assert caplog.text.count("wait for t-0") == 3
