"""What is seen of a group by comparing snapshots."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from penstock.watch.timeline import CHANGES, COMMITS, POINTS, Timeline
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
        state = "Stable" if number % 2 else "Empty"
        timeline.learn(snapshot(number, (), [group(committed=number, state=state, measured_at=float(number))]))
    found = timeline.of("g")
    assert len(found["events"]) == COMMITS + CHANGES
    assert [event["at"] for event in found["events"]] == sorted((e["at"] for e in found["events"]), reverse=True)
    assert len(found["points"]) == POINTS
    assert found["points"][-1][0] == 399
    timeline.learn(snapshot(400))
    assert timeline.of("g")["events"] == []


def test_commits_of_each_round_do_not_push_out_a_rebalance():
    timeline = Timeline()
    timeline.learn(snapshot(1, (), [group()]))
    for number in range(2, 300):
        timeline.learn(snapshot(number, (), [group(committed=number, members=[member("a", 0)])]))
    assert ("rebalance", "client a joined") in [(each["kind"], each["text"]) for each in timeline.of("g")["events"]]


def test_unknown_values_of_points_stay_unknown():
    timeline = Timeline()
    timeline.learn(snapshot(1, (), [replace(group(measured_at=5.0), lag=None, seconds=None)]))
    assert timeline.of("g")["points"] == [(5.0, None, None)]


def test_a_group_that_commits_in_each_round_takes_25_kb():
    """A thousand of them are part of what the page may take."""
    timeline = Timeline()
    names = [f"g{at}" for at in range(4)]
    rounds = [
        [group(name, committed=number, measured_at=float(number)) for name in names] for number in range(2 * POINTS)
    ]
    tracemalloc.start()
    try:
        for number, groups in enumerate(rounds, 1):
            timeline.learn(snapshot(number, (), groups))
        assert tracemalloc.get_traced_memory()[0] / len(names) < 25_000
    finally:
        tracemalloc.stop()
