"""Whether other members have read to the end: by the offsets that the group has committed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fixtures.streamer import P0, P1
from penstock import TopicPartition
from penstock.config.consumer import parse_config
from penstock.errors import BrokerUnavailable, UnknownTopic
from penstock.streamer import other_members
from penstock.streamer.other_members import OtherMembers

P2 = TopicPartition("t", 2)
CONFIG = parse_config({"bootstrap.servers": "h:1", "group.id": "g"})


@pytest.fixture
def said(monkeypatch):
    """What the cluster says, and how often it was asked."""
    said = SimpleNamespace(committed={}, begin={}, asked=0, error=None, now=0.0)

    class Cluster:
        def __init__(self, config):
            assert config.api_timeout <= other_members.LOOKUP_SECONDS

        def committed(self, group, partitions):
            said.asked += 1
            if said.error is not None:
                raise said.error
            return {tp: said.committed.get(tp) for tp in partitions}

        def begin(self, partitions):
            return {tp: said.begin.get(tp, 0) for tp in partitions}

    monkeypatch.setattr(other_members, "Cluster", Cluster)
    return said


@pytest.fixture
def others(said):
    return OtherMembers(CONFIG.client, "g", {P0: 5, P1: 7, P2: 0}, lambda: said.now)


def test_own_and_empty_partitions_need_no_question(others, said):
    assert others.have_ended({P0, P1})
    assert said.asked == 0


def test_the_rest_has_ended_when_it_is_committed_up_to_the_end(others, said, caplog):
    said.committed = {P1: 6}
    with caplog.at_level("INFO"):
        assert not others.have_ended({P0})
    assert "group 'g': other members have not committed up to the end of t-1 yet" in caplog.text
    said.committed = {P1: 7}
    assert not others.have_ended({P0}), "the group is asked once a second"
    said.now += 1
    assert others.have_ended({P0})
    assert said.asked == 2
    assert others.have_ended({P0})
    assert said.asked == 2


def test_a_log_without_records_needs_no_commit(others, said):
    said.begin = {P1: 7}
    assert others.have_ended({P0})


def test_an_unknown_answer_is_no_end_and_a_deleted_topic_is_one(others, said):
    said.error = BrokerUnavailable("no broker answers")
    assert not others.have_ended({P0})
    said.now += 1
    said.error = UnknownTopic("t", None, "")
    assert others.have_ended({P0})
