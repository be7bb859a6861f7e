"""The state of a cluster of simulated brokers: answers, and how many requests they take."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_admin import CLASSIC, CONSUMER
from penstock.wire.lookup.next_records import NOTHING_LEFT, NextRecord
from penstock.wire.survey import Survey
from support.configs import client_config
from support.simulated_cluster import Group, SimulatedCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster():
    groups = {
        "old": Group({A: 10, B: 20}, members=2),
        "older": Group({A: 7}),
        "new": Group({B: 5}, kind="consumer"),
    }
    with SimulatedCluster({"t": 2, "u": 1}, groups, brokers=2, begins={A: 3}) as simulated:
        yield simulated


def survey_of(cluster, spent):
    survey = Survey(client_config(bootstrap=cluster.addresses), lambda seconds: False, spent.append)
    assert survey.topics() is not None
    return survey


def by_coordinator(survey, kinds=(CLASSIC, CONSUMER)):
    listed = survey.groups()
    return {broker: [group.group for group in groups if group.kind in kinds] for broker, groups in listed.items()}


def test_every_question_takes_one_request_per_broker(cluster):
    spent = []
    survey = survey_of(cluster, spent)
    metadata = survey.topics()
    assert (metadata.cluster_id, set(metadata.topics)) == ("simulated", {"t", "u"})
    assert survey.end_offsets([A, B]) == {A: 1000, B: 1000}
    assert survey.first_offsets([A, B]) == {A: 3, B: 0}
    assert survey.committed(by_coordinator(survey)) == {"old": {A: 10, B: 20}, "older": {A: 7}, "new": {B: 5}}
    assert {node: set(sizes) for node, sizes in survey.sizes().items()} == {0: {A, TopicPartition("u", 0)}, 1: {B}}
    assert survey.settings(["t", "u"], ["retention.ms"])["t"]["retention.ms"] == "604800000"
    assert survey.take_problems() == []
    per_broker = {"ListOffsets": 4, "ListGroups": 2, "OffsetFetch": 2, "DescribeLogDirs": 2}
    asked = cluster.requests - Counter(ApiVersions=cluster.requests["ApiVersions"])
    assert asked == Counter(per_broker) + Counter(Metadata=2, DescribeConfigs=1)
    assert sum(spent) == asked.total(), "every request is counted"


def test_members_of_both_kinds_of_groups(cluster):
    survey = survey_of(cluster, [])
    classic = {group.group: group for group in survey.descriptions(by_coordinator(survey, (CLASSIC,)), CLASSIC)}
    assert {name: len(group.members) for name, group in classic.items()} == {"old": 2, "older": 1}
    assert {member.partitions for member in classic["old"].members} == {(A,), (B,)}
    (new,) = survey.descriptions(by_coordinator(survey, (CONSUMER,)), CONSUMER)
    assert (new.group, new.kind, new.members[0].partitions) == ("new", "consumer", (B,))


def test_an_older_broker_is_asked_for_one_group_at_a_time(cluster):
    cluster.offset_fetch_version = 7
    spent = []
    survey = survey_of(cluster, spent)
    coordinators = by_coordinator(survey)
    spent.clear()
    assert survey.committed(coordinators) == {"old": {A: 10, B: 20}, "older": {A: 7}, "new": {B: 5}}
    assert cluster.requests["OffsetFetch"] == sum(spent) == 3


def test_the_times_of_next_records(cluster):
    survey = survey_of(cluster, [])
    assert survey.next_records({A: 17, B: 18}) == {A: NextRecord(True, 17), B: NextRecord(True, 18)}
    assert survey.next_records({A: 1000}) == {A: NOTHING_LEFT}
    assert survey.next_records({A: 1, B: 4}) == {B: NextRecord(True, 4)}, "the record at 1 was deleted"
    assert cluster.requests["Fetch"] == 5


def test_a_broker_that_is_down_is_left_out_and_named(cluster):
    survey = survey_of(cluster, [])
    cluster.stop(1)
    assert survey.end_offsets([A, B]) == {A: 1000}
    (problem, *_) = survey.take_problems()
    assert problem.startswith("end offsets: 127.0.0.1")
    assert survey.take_problems() == []
