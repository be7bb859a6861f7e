"""A snapshot as JSON."""

from __future__ import annotations

import json
from dataclasses import fields

from penstock.model.topic_partition import TopicPartition
from penstock.monitor.document import document
from penstock.monitor.rounds import Rounds
from penstock.monitor.settings import MonitorSettings
from penstock.monitor.snapshot import GroupPosition, MonitoredGroup, MonitoredPartition, MonitoredTopic, Snapshot
from support.fake_survey import FakeSurvey

A = TopicPartition("t", 0)


def names(kind):
    return {field.name for field in fields(kind)}


def test_all_fields_are_there_and_are_json():
    survey = FakeSurvey({A: 100}, commits={"g": {A: 90}}, members={"g": [[A]]}, times={(A, 90): 1_700_000_000_000})
    found = json.loads(json.dumps(document(Rounds(survey, MonitorSettings(), wall=lambda: 1_700_000_030.0).run())))
    (group,), (topic,) = found["groups"], found["topics"]
    assert found.keys() == names(Snapshot)
    assert group.keys() == names(MonitoredGroup) | {"trend", "catch_up_seconds"}
    assert topic.keys() == names(MonitoredTopic)
    assert group["positions"][0].keys() == names(GroupPosition)
    assert topic["partitions"][0].keys() == names(MonitoredPartition)
    assert (group["certainty"], group["seconds"], group["lag"]) == ("exact", 30.0, 10)
    assert group["members"][0]["partitions"] == [{"topic": "t", "partition": 0}]
