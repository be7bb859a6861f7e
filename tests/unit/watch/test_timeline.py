"""What is seen of a group by comparing snapshots."""

from __future__ import annotations

import pytest

from penstock.watch.timeline import EVENTS, POINTS, Timeline
from support.made_snapshots import group, member, snapshot


def texts(*groups):
    timeline = Timeline()
    for number, each in enumerate(groups, 1):
        timeline.learn(snapshot(number, (), [each]))
    return [(event["kind"], event["text"]) for event in reversed(timeline.of("g")["events"])]


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (group(), group(), []),
        (group(committed=900), group(committed=950), [("commit", "50 records in 1 partition committed")]),
        (group(committed=900), group(committed=100), [("reset", "offsets set back by 800 records in 1 partition")]),
        (group(), group(state="Empty"), [("state", "Stable → Empty")]),
        (
            group(members=[member("a", 0)]),
            group(members=[member("b", 0)]),
            [
                ("rebalance", "client b joined"),
                ("rebalance", "client a left"),
                ("rebalance", "1 partition assigned otherwise"),
            ],
        ),
    ],
)
def test_events(before, after, events):
    assert texts(before, after) == events


def test_what_was_so_at_the_start_is_no_event():
    assert texts(group(members=[member("a", 0)])) == []


def test_snapshots_of_brokers_that_are_down_are_not_compared():
    timeline = Timeline()
    timeline.learn(snapshot(1, (), [group()]))
    timeline.learn(snapshot(2, is_reachable=False))
    timeline.learn(snapshot(3, (), [group(committed=950)]))
    assert [event["kind"] for event in timeline.of("g")["events"]] == ["commit"]


def test_events_and_points_are_bounded_and_deleted_groups_forgotten():
    timeline = Timeline()
    for number in range(1, 400):
        timeline.learn(snapshot(number, (), [group(committed=number, measured_at=float(number))]))
    assert len(timeline.of("g")["events"]) == EVENTS
    assert len(timeline.of("g")["points"]) == POINTS
    timeline.learn(snapshot(400))
    assert timeline.of("g")["events"] == []
