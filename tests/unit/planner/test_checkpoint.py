"""A stream's state and its JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError, UnrelatedCheckpoint
from penstock.model.subscription import AssignedPartitions, TopicNames, TopicPattern
from penstock.model.topic_partition import TopicPartition
from penstock.planner.checkpoint import OffsetTexts, check_related, from_json, split_restored, to_json

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_F20_the_json_is_that_of_sparks_kafka_source():
    assert json.dumps(to_json({A1: 7, B0: 0, A0: 5}), separators=(",", ":")) == '{"a":{"0":5,"1":7},"b":{"0":0}}'


@given(st.dictionaries(st.tuples(st.text(min_size=1), st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1)))
def test_F20_every_state_comes_back(state):
    offsets = {TopicPartition(*place): offset for place, offset in state.items()}
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


def test_F20_partitions_are_sorted_by_topic_and_number():
    state = {TopicPartition(topic, number): 0 for topic in ("b", "a") for number in (10, 9, 0)}
    numbers = ["0", "9", "10"]
    assert [(topic, [*each]) for topic, each in to_json(state).items()] == [("a", numbers), ("b", numbers)]


def test_F20_the_same_state_is_the_same_text():
    ten = {TopicPartition("t", number): number for number in range(11)}
    assert json.dumps(to_json(ten)) == json.dumps(to_json(dict(reversed(ten.items()))))


@pytest.mark.parametrize(
    "document", [None, 5, [], {"a": 5}, {"a": {"x": 5}}, {"a": {"0": -1}}, {"a": {"0": "5"}}, {"logOffset": True}]
)
def test_what_no_kafka_source_wrote_is_refused(document):
    with pytest.raises(PenstockError, match="Does the checkpoint belong to another query"):
        from_json(document)


@pytest.mark.parametrize(
    "subscription",
    [TopicNames(("a",)), TopicPattern("a.*"), AssignedPartitions((A0, A1))],
    ids=lambda s: type(s).__name__,
)
def test_F12_restored_partitions_outside_the_subscription_are_separated(subscription):
    assert split_restored({A0: 1, A1: 2, B0: 3}, subscription) == ({A0: 1, A1: 2}, {B0: 3})


def test_F12_an_assignment_means_its_partitions_alone():
    assert split_restored({A0: 1, A1: 2}, AssignedPartitions((A0,))) == ({A0: 1}, {A1: 2})


@pytest.mark.parametrize(
    ("subscription", "shown"),
    [
        (TopicNames(("b", "c")), "subscribe = b,c"),
        (TopicPattern("^b"), "subscribePattern = ^b"),
        (AssignedPartitions((B0,)), "assign = b-0"),
    ],
    ids=lambda s: type(s).__name__,
)
def test_F12_state_and_subscription_that_share_no_topic_are_refused_by_name(subscription, shown):
    with pytest.raises(UnrelatedCheckpoint, match="offsets of 'a', and") as raised:
        check_related({A0: 1, A1: 2}, subscription)
    for word in (shown, "allowUnrelatedCheckpoint", "filterRestoredPartitions"):
        assert word in str(raised.value)
    check_related({A0: 1, B0: 2}, subscription)
    check_related({}, subscription)


def test_F12_another_partition_of_a_topic_shares_the_topic():
    check_related({A0: 1}, AssignedPartitions((A1,)))


def test_texts_that_are_kept_are_those_of_the_offsets():
    texts = OffsetTexts()
    first = texts.write({A0: 1})
    assert texts.read(first) == {A0: 1}
    texts.read(first)[A0] = 99
    assert texts.read(first) == {A0: 1}, "the caller may change the result"
    assert texts.read({"a": {"0": 2}}) == {A0: 2}
    assert texts.write({A0: 2, A1: 3}) == {"a": {"0": 2, "1": 3}}
    assert texts.write({}) == {}


def test_start_and_end_of_a_batch_are_converted_once():
    texts = OffsetTexts()
    start = texts.write({A0: 1})
    end = texts.write({A0: 2})
    assert texts.write({A0: 1}) is start
    assert texts.write({A0: 2}) is end
    assert (texts.read(start), texts.read(end)) == ({A0: 1}, {A0: 2})
