"""H15: a commit counts only for the time for which its partitions are assigned."""

import threading

import pytest

from penstock.config.consumer import parse_config
from penstock.consumer.group.commits import Commits
from penstock.errors import CommitRefused
from penstock.metrics.group_counters import GroupCounters
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.group_member import GroupMember, MembershipLost

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Committing:
    """Commits whose coordinator is played by hand: each request gets the result of the next function."""

    def __init__(self, monkeypatch, *answers):
        settings = {"bootstrap.servers": "localhost:1", "group.id": "g", "retry.backoff.ms": 1}
        self.commits = Commits(parse_config(settings), threading.Event(), lambda: None, GroupCounters())
        self.requests = 0
        self._answers = list(answers)
        monkeypatch.setattr(self.commits._coordinator, "ask", self._ask)
        self.join(1)

    def join(self, epoch):
        self.commits.joined(GroupMember("me", epoch))

    def _ask(self, attempts, ask):
        self.requests += 1
        return self._answers.pop(0)()


def test_H15_a_commit_is_repeated_after_a_failure_that_may_heal(monkeypatch):
    def fails():
        raise RetriableError("loading")

    it = Committing(monkeypatch, fails, dict)
    it.commits.set_owned([A])
    it.commits.commit({A: 5}, {}, 60)
    assert it.requests == 2


@pytest.mark.parametrize("error", [RetriableError("no answer"), MembershipLost("fenced")], ids=str)
def test_H15_a_commit_does_not_outlive_a_revocation_though_its_partition_comes_back(monkeypatch, error):
    """Meanwhile another member may have read on and committed: the group's offset would go back."""

    def is_lost_and_comes_back():
        it.commits.suspend()
        it.commits.set_owned([])
        it.join(7)
        it.commits.set_owned([A])
        raise error

    it = Committing(monkeypatch, is_lost_and_comes_back, dict)
    it.commits.set_owned([A])
    with pytest.raises(CommitRefused, match="t-0 was revoked meanwhile, and is assigned to it again"):
        it.commits.commit({A: 5}, {}, 60)
    assert it.requests == 1
    it.commits.commit({A: 6}, {}, 60)
    assert it.requests == 2, "a new commit counts"


def test_H15_a_commit_goes_on_while_other_partitions_come_and_go(monkeypatch):
    def others_change():
        it.join(2)
        it.commits.set_owned([A])
        it.commits.set_owned([A, B])
        raise RetriableError("moved")

    it = Committing(monkeypatch, others_change, dict)
    it.commits.set_owned([A, B])
    it.commits.commit({A: 5}, {}, 60)
    assert it.requests == 2
