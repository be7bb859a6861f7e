"""What is left of a connector when a step of its end goes wrong, or comes at an awkward moment. No broker."""

import pytest

from penstock import ConsumerConnector, TopicPartition
from penstock.consumer.fetch.cursor import Cursor

TP = TopicPartition("t", 0)


@pytest.fixture
def connector():
    made = ConsumerConnector({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    yield made
    made.shutdown()


def test_a_shutdown_leaves_the_group_also_if_letting_go_fails(connector, monkeypatch, caplog):
    """A member that stays behind without readers would keep its partitions from all others."""
    stream = connector.create_message_streams({"t": 1})["t"][0]
    connector._cursors = {TP: Cursor(TP, stream, 0)}

    def fails(cursor):
        raise RuntimeError("a bug")

    monkeypatch.setattr(stream, "release", fails)
    connector.shutdown()
    assert connector._membership.state == "closed"
    assert not connector._membership._thread.is_alive()
    assert not connector._auto_commit._thread.is_alive()
    assert "the shutdown goes on" in caplog.text


def test_H8_what_a_fetcher_reports_in_the_middle_of_a_release_does_not_come_back(connector, monkeypatch):
    """Else the finder would hand what is released to a fetcher, which holds it for good."""
    finder = connector._finder
    stream = connector._stream(0, None, None, None)
    cursor = Cursor(TP, stream, 0)
    connector._cursors = {TP: cursor}
    remove, release = finder.remove, stream.release

    def at_the_same_time(then):
        def step(argument):
            then(argument)
            finder.leaderless([cursor], "its broker is gone")

        return step

    monkeypatch.setattr(finder, "remove", at_the_same_time(remove))
    monkeypatch.setattr(stream, "release", at_the_same_time(release))
    connector.release([TP], lost=True)
    assert finder._waiting == {}
