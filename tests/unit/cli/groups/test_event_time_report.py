"""The progress of a group in event time, with plain values (E1 to E4)."""

import json

import pytest

from penstock.cli.groups.event_time_report import (
    behind,
    document,
    documents,
    group_event_time,
    moment,
    overview,
    report,
    span,
)
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.model.topic_partition import TopicPartition

NOW = 1_738_400_000_000
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


def tp(number):
    return TopicPartition("t", number)


def times(reached, lags=None, strategy=None, newest=None, committed=None):
    """Partitions by number: how far each is (before NOW, in ms; None: not known) and how many offsets are left."""
    lags = lags or {}
    committed = {tp(n): 10 for n in reached} | (committed or {})
    return group_event_time(
        committed,
        {},
        {tp(n): 10 + lags.get(n, 5) for n in reached},
        {tp(n): None if ago is None else NOW - ago for n, ago in reached.items()},
        newest or {tp(n): NOW for n in reached},
        strategy or WatermarkStrategy.monotonous(),
        NOW,
    )


def states(group):
    return [str(row.state) for row in group.partitions]


def test_E1_a_watermark_is_what_may_still_come_behind_the_latest():
    assert times({0: HOUR}).partitions[0].watermark_ms == NOW - HOUR - 1
    late = times({0: HOUR}, strategy=WatermarkStrategy.bounded("10s"))
    assert late.partitions[0].watermark_ms == NOW - HOUR - 10 * SECOND - 1
    assert (late.partitions[0].behind_newest_ms, late.partitions[0].behind_now_ms) == (HOUR, HOUR + 10 * SECOND + 1)


def test_E2_the_group_is_as_far_as_its_slowest_partition():
    group = times({0: HOUR, 1: DAY, 2: MINUTE})
    assert (group.watermark_ms, group.behind_now_ms, group.slowest) == (NOW - DAY - 1, DAY + 1, "t-1")
    assert states(group) == ["", "slowest", ""]
    assert [row.ahead_ms for row in group.partitions] == [DAY - HOUR, 0, DAY - MINUTE]


def test_E3_a_partition_that_is_read_to_its_end_does_not_hold_back_others():
    group = times({0: HOUR, 1: DAY, 2: MINUTE}, lags={1: 0})
    assert (group.watermark_ms, group.slowest) == (NOW - HOUR - 1, "t-0")
    assert states(group) == ["slowest", "idle", ""]
    assert group.partitions[1].ahead_ms is None


def test_E3_with_all_read_the_furthest_counts():
    group = times({0: HOUR, 1: DAY}, lags={0: 0, 1: 0})
    assert (group.watermark_ms, group.slowest) == (NOW - HOUR - 1, None)
    assert states(group) == ["idle", "idle"]


def test_E3_an_empty_partition_is_idle_before_anything_is_committed():
    group = group_event_time(
        {tp(0): 10, tp(1): None},
        {tp(0): 0, tp(1): 0},
        {tp(0): 15, tp(1): 0},
        {tp(0): NOW},
        {tp(0): NOW},
        WatermarkStrategy.monotonous(),
        NOW,
    )
    assert states(group) == ["slowest", "idle"]


def test_E3_a_partition_that_retention_has_emptied_is_idle():
    group = group_event_time(
        {tp(0): 10, tp(1): 5},
        {tp(0): 0, tp(1): 20},
        {tp(0): 15, tp(1): 20},
        {tp(0): NOW, tp(1): None},
        {tp(0): NOW, tp(1): None},
        WatermarkStrategy.monotonous(),
        NOW,
    )
    assert states(group) == ["slowest", "idle"]
    assert group.watermark_ms == NOW - 1


def test_E4_a_partition_further_ahead_than_the_drift_is_held_back():
    group = times({0: HOUR, 1: DAY, 2: DAY - 5 * MINUTE, 3: DAY - 5 * MINUTE - 1}, strategy=drift("5m"))
    assert states(group) == ["held back", "slowest", "", "held back"]
    assert group.watermark_ms == NOW - DAY - 1


def drift(text):
    return WatermarkStrategy.monotonous().with_alignment(text)


def test_E2_nothing_is_known_while_one_with_records_has_no_watermark():
    group = times({0: HOUR, 1: None, 2: MINUTE}, strategy=drift("5m"), lags={2: 0})
    assert (group.watermark_ms, group.behind_now_ms, group.slowest) == (None, None, None)
    assert states(group) == ["held back", "no watermark", "idle"]
    assert "no watermark yet" in next(report(group))
    assert "t-1" in next(report(group))


def test_a_partition_that_is_gone_is_shown_and_does_not_count():
    group = times({0: HOUR}, committed={tp(7): 3})
    assert states(group) == ["slowest", "gone"]
    assert (group.partitions[1].end, group.partitions[1].lag) == (None, None)
    assert group.watermark_ms == NOW - HOUR - 1


def test_the_report_says_it_in_a_headline_and_a_table():
    lines = list(report(times({0: HOUR, 1: 3 * HOUR + 12 * MINUTE, 2: DAY}, lags={2: 0}, strategy=drift("1h"))))
    assert lines[0] == (
        f"Event time: watermark {moment(NOW - 3 * HOUR - 12 * MINUTE - 1)}, 3 h 12 min behind now, slowest t-1, "
        "1 idle, 1 held back by a drift of 1 h"
    )
    assert lines[2].split("  ")[0] == "TOPIC"
    assert [line.split()[-1] for line in lines[3:]] == ["back", "slowest", "idle"]
    assert "2 h 12 min" in lines[3]


def test_all_groups_have_a_line_each_for_people_and_for_scripts():
    groups = {"a": times({0: HOUR, 1: DAY}), "b": times({0: None})}
    assert [line.split()[0] for line in overview(groups)] == ["GROUP", "a", "b"]
    assert list(overview({})) == ["No group has committed offsets."]
    first, second = map(json.loads, documents(groups))
    assert (first["group"], first["watermark_ms"], first["slowest"]) == ("a", NOW - DAY - 1, "t-1")
    assert first["partitions"][1]["state"] == "slowest"
    assert (second["group"], second["watermark_ms"]) == ("b", None)
    assert json.loads(json.dumps(document(groups["a"])))["out_of_orderness_ms"] == 0


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (None, "-"),
        (0, "0 s"),
        (820, "820 ms"),
        (1820, "1 s"),
        (60_000, "1 min"),
        (185_999, "3 min 5 s"),
        (3 * HOUR + 12 * MINUTE + 59 * SECOND, "3 h 12 min"),
        (DAY + 59 * MINUTE, "1 d"),
        (1500 * DAY + 4 * HOUR, "1,500 d 4 h"),
        (-185_000, "-3 min 5 s"),
    ],
)
def test_spans_show_their_two_largest_units(milliseconds, said):
    assert span(milliseconds) == said


def test_times_that_no_calendar_has_are_numbers():
    assert moment(2**62).endswith(" ms")
    assert moment(-1) == "1969-12-31T23:59:59.999Z"
    assert behind(-5000) == "5 s ahead of now"
