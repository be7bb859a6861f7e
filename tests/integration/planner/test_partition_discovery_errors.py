"""What a stream's planner does when discovery fails (F14): it raises an error instead of reading on."""

import threading
import time

import pytest

from fixtures.consumer import Reading, eventually
from fixtures.stream import EVERY_TRIGGER, records, tp
from penstock import AuthorizationFailed, BrokerUnavailable
from penstock.consumer.group.coordinator import Coordinator
from penstock.wire.transport.connection import ConnectionLost

ASK_METADATA = "penstock.wire.cluster.ask_metadata"


@pytest.mark.parametrize("subscription", ["subscribe", "subscribePattern"])
def test_F14_what_a_broker_refuses_discovery_ends_the_query_at_once(stream, two, produce, monkeypatch, subscription):
    running = stream(**{subscription: two}, startingOffsets="earliest", **EVERY_TRIGGER)
    running.run()
    state = dict(running.state)
    produce(two, records(3))

    def refuse(connection, topics, timeout, create):
        raise AuthorizationFailed(f"Topic authorization failed for {two}")

    with monkeypatch.context() as patch:
        patch.setattr(ASK_METADATA, refuse)
        with pytest.raises(AuthorizationFailed, match=two):
            running.trigger()
        assert running.state == state, "nothing of the failed trigger is in the offset log"
    # A restart goes on where the last batch ended.
    restarted = stream(running.state, **{subscription: two}, **EVERY_TRIGGER)
    assert restarted.run() == {tp(two): [10, 11, 12]}


def test_F14_discovery_that_no_broker_answers_ends_the_query_after_the_deadline(stream, two, produce, monkeypatch):
    limits = {"kafka.default.api.timeout.ms": "1000", "kafka.request.timeout.ms": "1000"}
    running = stream(subscribe=two, startingOffsets="earliest", **EVERY_TRIGGER, **limits)
    running.run()
    produce(two, records(3))
    asked = []

    def lose(connection, topics, timeout, create):
        asked.append(topics)
        raise ConnectionLost("connection reset")

    monkeypatch.setattr(ASK_METADATA, lose)
    with pytest.raises(BrokerUnavailable, match="for topics: not done within 1 s") as caught:
        running.trigger()
    assert "connection reset" in str(caught.value), "the cause is in the history"
    assert len(asked) > 1, "a retriable failure is retried until the deadline"


def test_F14_between_two_looks_a_stream_does_not_depend_on_discovery(stream, two, produce, monkeypatch):
    running = stream(subscribe=two, startingOffsets="earliest", **{"partition.discovery.interval.ms": "60000"})
    running.run()
    produce(two, records(3))
    monkeypatch.setattr(ASK_METADATA, lambda *asked: pytest.fail("discovery is not due"))
    assert running.trigger() == {tp(two): (10, 13)}


@pytest.fixture
def discovering(monkeypatch):
    """While a consumer's discovery waits for an answer: the time at which it began to wait."""
    waiting = []
    listing = Coordinator.listing

    def watched(*arguments):
        waiting.append(time.monotonic())
        try:
            return listing(*arguments)
        finally:
            waiting.pop()

    monkeypatch.setattr(Coordinator, "listing", watched)
    return waiting


def test_F14_a_consumer_that_shuts_down_ends_its_discovery_quietly(
    kafka, consumers, topic, discovering, left, monkeypatch
):
    # Without the shutdown, discovery would wait longer than the test.
    monkeypatch.setattr("penstock.consumer.group.topic_watch.CHECK_SECONDS", 300.0)
    patience = {"session_timeout_ms": 300_000, "request_timeout_ms": 300_000}
    # A static member does not leave its group when it ends, so nothing but discovery waits for the broker.
    connector = consumers.connector(metadata_max_age_ms=200, group_instance_id="static", **patience)
    reading = Reading(connector, connector.create_message_streams_by_filter(topic()))
    eventually(lambda: connector.metrics().fetch_requests, "the partition is fetched")
    kafka.pause_node(1)
    try:
        # Not at once: the answer to a request from before the pause may still arrive.
        eventually(
            lambda: any(time.monotonic() - since > 1 for since in list(discovering)),
            "discovery asks, and gets no answer",
        )
        started = time.monotonic()
        connector.shutdown(60)
        assert time.monotonic() - started < 20, "discovery is interrupted, long before the shutdown gives up"
        assert not [thread.name for thread in threading.enumerate() if connector.config.group in thread.name]
    finally:
        kafka.resume_node(1)
    reading.join()
    assert reading.errors == [], "the iteration ends, without an error"
    left.nothing()
