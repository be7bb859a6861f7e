"""Rounds over a cluster of plain values: what snapshots say, and what is asked when."""

from __future__ import annotations

import pytest

from penstock.model.topic_partition import TopicPartition
from penstock.monitor.rounds import Rounds
from penstock.monitor.selection import Selection
from penstock.monitor.settings import MonitorSettings
from penstock.monitor.snapshot import Certainty
from support.fake_survey import FakeSurvey

A, B, C = (TopicPartition("t", number) for number in range(3))
WALL = 1_800_000_000.0


class Watch:
    """Rounds of a fake cluster, with clocks that a test moves."""

    def __init__(self, survey, **settings):
        self.survey = survey
        self.now = 0.0
        self.rounds = Rounds(survey, MonitorSettings(**settings), clock=lambda: self.now, wall=lambda: WALL + self.now)

    def after(self, seconds=5.0):
        self.now += seconds
        self.survey.asked.clear()
        return self.rounds.run()


def at(seconds_ago):
    return int((WALL - seconds_ago) * 1000)


def group(snapshot, name="g"):
    return next(each for each in snapshot.groups if each.name == name)


def position(snapshot, tp=A, name="g"):
    return next(each for each in group(snapshot, name).positions if (each.topic, each.partition) == tp)


def seconds(snapshot, tp=A, name="g"):
    found = position(snapshot, tp, name)
    return found.seconds, found.certainty


# --- lag --------------------------------------------------------------------------------------------------------------


def test_lag_is_the_distance_to_the_end_and_the_age_of_the_next_record():
    survey = FakeSurvey({A: 100, B: 50}, commits={"g": {A: 90, B: 50}}, times={(A, 90): at(30)})
    snapshot = Watch(survey).after(0)
    assert (position(snapshot).lag, *seconds(snapshot)) == (10, 30.0, Certainty.EXACT)
    assert (position(snapshot, B).lag, *seconds(snapshot, B)) == (0, 0.0, Certainty.EXACT)
    found = group(snapshot)
    assert (found.lag, found.seconds, found.certainty, found.deleted) == (10, 30.0, Certainty.EXACT, 0)


def test_an_unmoved_offset_is_looked_up_once_and_grows_older():
    survey = FakeSurvey({A: 100}, commits={"g": {A: 90}}, times={(A, 90): at(30)})
    watch = Watch(survey)
    watch.after(0)
    survey.ends[A] = 200
    assert seconds(watch.after(10)) == (40.0, Certainty.EXACT)
    assert survey.looked_up == [(A, 90)]
    survey.commits["g"][A], survey.times[A, 91] = 91, at(29)
    watch.after()
    assert survey.looked_up == [(A, 90), (A, 91)]


def test_groups_at_the_same_offset_share_a_lookup():
    survey = FakeSurvey({A: 100}, commits={"g": {A: 90}, "h": {A: 90}}, times={(A, 90): at(30)})
    snapshot = Watch(survey).after(0)
    assert seconds(snapshot, name="g") == seconds(snapshot, name="h") == (30.0, Certainty.EXACT)
    assert survey.looked_up == [(A, 90)]


def test_without_a_lookup_an_earlier_record_is_a_bound():
    survey = FakeSurvey({A: 100}, commits={"g": {A: 90}}, times={(A, 90): at(30)})
    watch = Watch(survey)
    watch.after(0)
    survey.commits["g"][A] = 95  # which no broker answers
    snapshot = watch.after(5)
    assert seconds(snapshot) == (35.0, Certainty.AT_MOST)
    assert snapshot.lookups_left == 1


def test_a_deleted_next_record_is_said_and_the_oldest_record_left_is_a_bound():
    survey = FakeSurvey({A: 100, B: 9}, {A: 40, B: 9}, commits={"g": {A: 10, B: 5}}, times={(A, 40): at(600)})
    snapshot = Watch(survey).after(0)
    found = position(snapshot)
    assert (found.lag, found.deleted, found.is_next_record_deleted) == (90, 30, True)
    assert seconds(snapshot) == (600.0, Certainty.AT_LEAST)
    assert seconds(snapshot, B) == (None, Certainty.UNKNOWN), "nothing is left that says how old it was"
    assert group(snapshot).deleted == 34


def test_markers_behind_the_last_record_are_no_lag_in_seconds():
    survey = FakeSurvey({A: 100}, commits={"g": {A: 99}}, times={(A, 99): None})
    watch = Watch(survey)
    assert seconds(watch.after(0)) == (0.0, Certainty.EXACT)
    survey.ends[A], survey.times[A, 99] = 110, at(0)
    assert seconds(watch.after(5)) == (5.0, Certainty.EXACT), "records were written behind the marker"


def test_a_record_of_the_future_has_no_negative_age():
    survey = FakeSurvey({A: 100}, commits={"g": {A: 90}}, times={(A, 90): at(-60)})
    assert seconds(Watch(survey).after(0)) == (0.0, Certainty.EXACT)


def test_an_owned_partition_without_a_commit_has_no_lag():
    survey = FakeSurvey({A: 100, B: 100}, commits={"g": {A: 100}}, members={"g": [[A, B]]})
    found = position(Watch(survey).after(0), B)
    assert (found.committed, found.lag, found.seconds, found.member_id) == (None, None, None, "g-0")


# --- rates ------------------------------------------------------------------------------------------------------------


def test_rates_trend_and_the_time_to_catch_up():
    survey = FakeSurvey({A: 1000}, commits={"g": {A: 0}})
    watch = Watch(survey)
    first = group(watch.after(0))
    assert (first.consumed, first.trend, first.catch_up_seconds) == (None, None, None)
    survey.ends[A], survey.commits["g"][A] = 1100, 300
    found = group(watch.after(10))
    assert (found.produced, found.consumed, found.trend) == (10.0, 30.0, -20.0)
    assert found.catch_up_seconds == 40.0


def test_a_lag_that_grows_is_never_caught_up_and_a_reset_is_not_consumption():
    survey = FakeSurvey({A: 1000}, commits={"g": {A: 900}})
    watch = Watch(survey)
    watch.after(0)
    survey.ends[A], survey.commits["g"][A] = 1100, 0
    found = group(watch.after(10))
    assert (found.consumed, found.catch_up_seconds) == (0.0, None)


def test_a_group_at_the_end_has_caught_up():
    survey = FakeSurvey({A: 1000}, commits={"g": {A: 1000}})
    assert group(Watch(survey).after(0)).catch_up_seconds == 0.0


# --- topics -----------------------------------------------------------------------------------------------------------


def test_topics_have_sizes_retention_and_rates():
    survey = FakeSurvey({A: 100, B: 50, TopicPartition("__internal", 0): 1})
    watch = Watch(survey)
    watch.after(0)
    survey.ends[A] = 150
    (topic,) = watch.after(10).topics
    assert (topic.name, topic.records, topic.size, topic.rate_in, topic.leaderless) == ("t", 200, 2048, 5.0, 0)
    assert (topic.retention_seconds, topic.retention_bytes, topic.cleanup_policy) == (60.0, -1, "delete")
    assert (topic.partitions[0].leader, topic.partitions[0].begin, topic.partitions[0].end) == (1, 0, 150)


def test_topics_and_groups_are_selected_by_regular_expressions():
    other = TopicPartition("other", 0)
    survey = FakeSurvey({A: 1, other: 1}, commits={"a": {A: 0, other: 0}, "b": {A: 0}})
    snapshot = Watch(survey, topics=Selection("^t$"), groups=Selection(None, "b")).after(0)
    assert [topic.name for topic in snapshot.topics] == ["t"]
    assert [(each.name, len(each.positions)) for each in snapshot.groups] == [("a", 1)]
    assert "committed a" in survey.asked


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_what_changes_slowly_is_asked_rarely():
    watch = Watch(FakeSurvey({A: 100}, commits={"g": {A: 100}}))
    always = ["groups", "members g", "committed g", "end offsets"]
    watch.after(0)
    assert watch.survey.asked == ["topics", *always[:3], "first offsets", "end offsets", "sizes", "settings"]
    watch.after(5)
    assert watch.survey.asked == always
    watch.after(30)
    assert watch.survey.asked == ["topics", *always[:3], "first offsets", "end offsets"]
    watch.survey.leaders_moved = True
    watch.after(5)
    assert watch.survey.asked[0] == "topics"


def test_groups_take_turns_in_a_large_cluster():
    commits = {f"g{number}": {A: 0, B: 0} for number in range(5)}
    watch = Watch(FakeSurvey({A: 1, B: 1}, commits=commits), positions_per_round=4, descriptions_per_round=2)
    turns = []
    for _ in range(4):
        snapshot = watch.after()
        turns.append(next(asked.split()[1:] for asked in watch.survey.asked if asked.startswith("committed")))
    # A group that was never asked for counts as one position, and then as what it has, and one more.
    assert turns == [["g0", "g1", "g2", "g3"], ["g4", "g0"], ["g1"], ["g2"]]
    assert len(snapshot.groups) == 5
    assert group(snapshot, "g4").measured_at == WALL + 10
    assert all(each.assignor == "range" for each in snapshot.groups), "members took turns, too"


def test_lookups_are_limited_and_take_turns():
    ends = {TopicPartition("t", number): 100 for number in range(10)}
    times = {(tp, 0): at(10) for tp in ends}
    watch = Watch(FakeSurvey(ends, commits={"g": dict.fromkeys(ends, 0)}, times=times), lookups_per_second=0.8)
    left = [watch.after().lookups_left for _ in range(3)]
    assert left == [6, 2, 0]
    assert sorted(watch.survey.looked_up) == sorted(times)


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_cluster_that_is_down_keeps_its_last_values_and_says_so():
    watch = Watch(FakeSurvey({A: 100}, commits={"g": {A: 90}}, times={(A, 90): at(30)}))
    before = watch.after(0)
    watch.survey.is_up = False
    down = watch.after(5)
    assert (down.is_reachable, down.number, down.answered_at) == (False, 2, before.taken_at)
    assert down.groups == before.groups
    assert down.problems == ("groups: no broker answers", "topics: no broker answers")
    watch.survey.is_up = True
    back = watch.after(5)
    assert (back.is_reachable, back.problems) == (True, ())
    assert seconds(back)[0] == 40.0


def test_a_cluster_that_was_never_up_has_an_empty_snapshot():
    snapshot = Watch(FakeSurvey(is_up=False)).after(0)
    assert (snapshot.is_reachable, snapshot.answered_at, snapshot.groups) == (False, None, ())


def test_a_group_that_is_gone_is_gone():
    watch = Watch(FakeSurvey({A: 100}, commits={"g": {A: 90}, "h": {A: 90}}))
    watch.after(0)
    del watch.survey.commits["g"]
    assert [each.name for each in watch.after().groups] == ["h"]


@pytest.mark.parametrize("kind", ["consumer", "streams", "share"])
def test_groups_of_other_kinds_appear(kind):
    watch = Watch(FakeSurvey({A: 100}, commits={"g": {A: 90}}, kinds={"g": kind}))
    snapshot = watch.after(0)
    assert group(snapshot).kind == kind
    assert ("members g" in watch.survey.asked) == (kind == "consumer")
    assert ("committed g" in watch.survey.asked) == (kind != "share")
