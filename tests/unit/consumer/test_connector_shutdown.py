"""A connector whose shutdown or revocation fails, or comes at an awkward moment. No broker."""

import pytest

from penstock import ConsumerConnector, TopicPartition
from penstock.consumer.fetch.cursor import Cursor
from penstock.model.subscription import TopicNames

TP = TopicPartition("t", 0)


@pytest.fixture
def connector():
    made = ConsumerConnector({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    yield made
    made.shutdown()


def test_a_shutdown_leaves_the_group_also_if_revoking_fails(connector, monkeypatch, caplog):
    """A member that stays in the group without readers would keep its partitions from all others."""
    stream = connector.create_message_streams({"t": 1})["t"][0]
    connector._assigned.cursors = {TP: Cursor(TP, stream.reader, 0)}

    def fails(cursor):
        raise RuntimeError("a bug")

    monkeypatch.setattr(stream.reader, "revoke", fails)
    connector.shutdown()
    assert connector._membership.state == "closed"
    assert not connector._membership._life.is_alive
    assert not connector._auto_commit._thread.is_alive()
    assert "the shutdown goes on" in caplog.text


def test_H8_a_cursor_that_a_fetcher_reports_in_the_middle_of_a_revocation_does_not_come_back(connector, monkeypatch):
    """Otherwise the finder would pass a revoked cursor to a fetcher, which would keep it for good."""
    finder = connector._finder
    reader = connector._factory.maker(TopicNames(("t",)), None, None)(0).reader
    cursor = Cursor(TP, reader, 0)
    connector._assigned.cursors = {TP: cursor}
    remove, revoke = finder.remove, reader.revoke

    def at_the_same_time(then):
        def step(argument):
            then(argument)
            finder.leaderless([cursor], "its broker is gone")

        return step

    monkeypatch.setattr(finder, "remove", at_the_same_time(remove))
    monkeypatch.setattr(reader, "revoke", at_the_same_time(revoke))
    connector._rebalancer.revoke([TP], lost=True)
    assert finder._pending == {}
