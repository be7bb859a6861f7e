"""Partitions that the user assigns: no group, and no coordinator (H2)."""

import asyncio
from datetime import UTC, datetime

import pytest

import penstock
from fixtures.consumer import Reading, eventually
from fixtures.stream import HOUR, NOW, records, tp
from penstock import ConsumerConnector, ConsumerTimeout, MessageStreamsExist, OptionError
from penstock.wire.transport.connection import Connection

OF_GROUPS = {"FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetFetch"}


@pytest.fixture
def connector(kafka):
    """`connector(**settings)`: without a group."""
    made = []

    def make(start=None, **settings):
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = {"consumer.timeout.ms": 30_000, "auto.offset.reset": "earliest"} | kafka.client_options(prefix="")
        made.append(ConsumerConnector(config | given, start=start))
        return made[-1]

    yield make
    for each in made:
        each.shutdown()


@pytest.fixture
def name(topic, produce):
    """Three partitions, each with ten records of now, of 10 and of 20 hours ago. Hours apart, as a run takes long."""
    name = topic(partitions=3)
    for partition in range(3):
        for age in (20, 10, 0):
            produce(name, records(10, partition, timestamp=NOW - age * HOUR))
    return name


def firsts(connector, streams, count):
    """The first offset of each partition, and the number of its records, once `count` records have come."""
    reading = Reading(connector, streams)
    eventually(lambda: reading.count() >= count, lambda: f"{count} records, not {reading.records()}: {reading.errors}")
    connector.shutdown()
    reading.join()
    offsets = {}
    for _, partition, offset in sorted(reading.records().elements()):
        offsets.setdefault(partition, []).append(offset)
    assert all(found == list(range(found[0], found[0] + len(found))) for found in offsets.values()), "each once"
    return {partition: found[0] for partition, found in offsets.items()}


class TestStarts:
    def test_H2_each_partition_starts_where_the_user_says(self, connector, name):
        starts = {tp(name, 0): 25, (name, 1): datetime.fromtimestamp((NOW - 10 * HOUR) / 1000, UTC), tp(name, 2): None}
        made = connector()
        assert firsts(made, made.create_assigned_streams(starts, 2), 55) == {0: 25, 1: 10, 2: 0}

    @pytest.mark.parametrize(
        ("default", "reset", "first"),
        [
            ("earliest", "latest", 0),
            ("earliest-local", "none", 0),
            (datetime.fromtimestamp((NOW - 10 * HOUR) / 1000, UTC), "latest", 10),
            (None, "by_duration:PT15H", 10),
            (None, "earliest", 0),
        ],
    )
    def test_otherwise_start_decides_and_then_the_reset_rule(self, connector, name, default, reset, first):
        made = connector(default, auto_offset_reset=reset)
        streams = made.create_assigned_streams([tp(name, 0), tp(name, 2)])
        assert firsts(made, streams, 60 - 2 * first) == {0: first, 2: first}

    def test_latest_is_the_end_at_the_start(self, connector, name, produce):
        made = connector("latest")
        (stream,) = made.create_assigned_streams([tp(name)])
        eventually(lambda: made.position() == {tp(name): 30}, "the position")
        produce(name, records(5))
        assert [next(stream).offset for _ in range(5)] == list(range(30, 35))

    def test_an_offset_that_is_gone_is_reset(self, connector, name):
        made = connector()
        (stream,) = made.create_assigned_streams({tp(name): 1000})
        assert next(stream).offset == 0

    def test_a_time_that_no_record_has_is_the_end(self, connector, name):
        made = connector(datetime.fromtimestamp((NOW + 10 * HOUR) / 1000, UTC))
        made.create_assigned_streams([tp(name)])
        eventually(lambda: made.position() == {tp(name): 30}, "the position")


def test_H2_no_coordinator_is_asked_and_every_call_without_a_group_works(connector, name, monkeypatch):
    asked, send = [], Connection.send

    def record(self, request, timeout):
        asked.append(request.name.removesuffix("Request"))
        return send(self, request, timeout)

    monkeypatch.setattr(Connection, "send", record)
    made = connector()
    (stream,) = made.create_assigned_streams({tp(name, 0): 5, tp(name, 1): 7})
    assert made.assignment() == {tp(name, 0): stream.thread_id, tp(name, 1): stream.thread_id}
    assert made.assigned() == {tp(name, 0), tp(name, 1)}
    assert made.position() == {tp(name, 0): 5, tp(name, 1): 7}
    made.pause([tp(name, 1)])
    made.seek({tp(name, 0): 28})
    assert [next(stream).offset for _ in range(2)] == [28, 29]
    made.seek({tp(name, 1): 29})
    made.resume(made.paused())
    assert (message := next(stream)).offset == 29, message
    assert made.lag() == {tp(name, 0): 0, tp(name, 1): 0}
    assert made.metrics().rebalances == 0
    made.shutdown()
    assert made.assignment() == {}
    assert "Fetch" in asked
    assert not OF_GROUPS & set(asked)


def test_batches_and_asyncio_read_assigned_streams(connector, name):
    made = connector(consumer_timeout_ms=2000)
    (stream,) = made.create_assigned_streams({tp(name, 2): 20})
    assert next(stream.batches(["partition", "offset"])).to_pydict() == {
        "partition": [2] * 10,
        "offset": list(range(20, 30)),
    }
    made.seek({tp(name, 2): 25})

    async def read():
        found = []
        try:
            async for message in penstock.AsyncStream(stream):
                found.append(message.offset)
        except ConsumerTimeout:
            return found

    assert asyncio.run(read()) == list(range(25, 30))


class TestErrors:
    @pytest.mark.parametrize(
        "call",
        [
            lambda made: made.commit_offsets(),
            lambda made: made.commit_offsets({tp("t"): 1}),
            lambda made: made.set_rebalance_listener(Listener()),
            lambda made: made.transactional_offsets.take(),
        ],
    )
    def test_calls_that_need_a_group_say_so(self, connector, name, call):
        made = connector()
        made.create_assigned_streams([tp(name)])
        with pytest.raises(OptionError, match=r"group.id: is missing, and .* needs a group"):
            call(made)

    def test_streams_of_a_group_need_one(self, connector, name):
        for create in (lambda made: made.create_message_streams({name: 1}), create_by_filter):
            with pytest.raises(OptionError, match=r"group.id: is missing"):
                create(connector())

    def test_a_group_has_no_assigned_streams(self, connector, name):
        with pytest.raises(OptionError, match=r"group.id.*Leave it out, or call create_message_streams"):
            connector(group_id="g").create_assigned_streams([tp(name)])

    def test_auto_commit_needs_a_group(self, connector):
        with pytest.raises(OptionError, match=r"enable.auto.commit.* needs a group"):
            connector(enable_auto_commit=True)

    def test_settings_of_a_group_are_warned_of(self, connector, caplog):
        connector(session_timeout_ms=10_000)
        assert "session.timeout.ms has no effect: there is no group.id" in caplog.text

    def test_streams_are_created_once(self, connector, name):
        made = connector()
        made.create_assigned_streams([tp(name)])
        with pytest.raises(MessageStreamsExist):
            made.create_assigned_streams([tp(name)])

    @pytest.mark.parametrize(
        ("partitions", "says"),
        [
            ([], "are not partitions"),
            ("t", "are not partitions"),
            (None, "are not partitions"),
            ({("t", 0): -5}, "is not a start of t-0"),
            ({("t", 0): "group"}, "is not a start of t-0"),
            ({("t", 0): "earlier"}, "is not a place to start from"),
            ({("t", 0): datetime(2025, 1, 1)}, "is not a place to start from"),
        ],
    )
    def test_what_is_no_partition_or_start_is_an_error_at_once(self, connector, partitions, says):
        with pytest.raises(OptionError, match=says):
            connector().create_assigned_streams(partitions)

    def test_without_a_reset_rule_each_partition_needs_a_start(self, connector):
        with pytest.raises(OptionError, match="gives t-1 no start"):
            connector(auto_offset_reset="none").create_assigned_streams({("t", 0): 1, ("t", 1): None})

    def test_a_time_out_names_a_partition_or_topic_that_does_not_exist(self, connector, name, topic):
        for partitions, says in (([tp(name, 7)], "has no partition 7"), ([tp(f"{name}-x")], "does not exist")):
            (stream,) = connector(consumer_timeout_ms=100).create_assigned_streams(partitions)

            def reason(stream=stream):
                with pytest.raises(ConsumerTimeout) as caught:
                    next(stream)
                return str(caught.value)

            eventually(lambda reason=reason, says=says: says in reason(), says)


def create_by_filter(made):
    return made.create_message_streams_by_filter("t")


class Listener:
    def revoked(self, owned):
        pass

    def assigned(self, consumer_id, assignment):
        pass
