"""What a stream has lost (F27), and what it has not: retention, deleted and recreated topics, brokers that are down."""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import replace

import pytest

from fixtures.produce import Rec
from fixtures.stream import EVERY_TRIGGER, records, tp
from penstock.errors import BrokerUnavailable, DataLoss, PenstockError

# --- F27: what was lost -----------------------------------------------------------------------------------------------


def test_F27_retention_before_the_batch_is_planned_is_data_loss(stream, two, operator):
    running = stream({tp(two): 2, tp(two, 1): 1}, subscribe=two)
    operator.delete_records(two, {0: 6, 1: 3})
    with pytest.raises(DataLoss) as caught:
        running.trigger()
    assert sorted(caught.value.ranges) == [
        (two, 0, "from offset 2", "offsets from 6"),
        (two, 1, "from offset 1", "offsets from 3"),
    ]


def test_F27_retention_is_counted_and_warned_of_when_the_user_wants_what_is_left(stream, two, operator, caplog):
    running = stream({tp(two): 2, tp(two, 1): 5}, subscribe=two, failOnDataLoss="false")
    operator.delete_records(two, {0: 6})
    with caplog.at_level(logging.WARNING):
        assert running.trigger() == {tp(two): (6, 10)}
    assert "wanted from offset 2, the broker has offsets from 6" in caplog.text
    assert running.planner.losses.count == 1


def test_F27_a_state_past_the_end_of_the_log_is_data_loss(stream, two):
    with pytest.raises(DataLoss, match=f"{two}-0: wanted from offset 99"):
        stream({tp(two): 99, tp(two, 1): 5}, subscribe=two).trigger()


def test_F27_a_state_past_the_end_goes_on_at_the_end_if_asked_to(stream, two, produce):
    running = stream({tp(two): 99, tp(two, 1): 5}, subscribe=two, failOnDataLoss="false")
    assert running.trigger() == {}
    assert running.state[tp(two)] == 10
    produce(two, records(2))
    assert running.trigger() == {tp(two): (10, 12)}


def test_F27_a_planned_batch_past_the_end_of_the_log_is_data_loss(stream, two):
    start, end = {tp(two): 5, tp(two, 1): 5}, {tp(two): 20, tp(two, 1): 5}
    with pytest.raises(DataLoss, match=f"{two}-0: wanted up to offset 20, the broker has offsets up to 10"):
        stream(start, subscribe=two).ranges(start, end)
    assert stream(start, subscribe=two, failOnDataLoss="false").ranges(start, end) == {tp(two): (5, 10)}


def test_F27_a_deleted_topic_is_data_loss_and_names_every_partition(stream, two, kafka):
    running = stream(subscribe=two, startingOffsets="earliest", **EVERY_TRIGGER)
    running.trigger()
    kafka.delete_topic(two)
    with pytest.raises(DataLoss) as caught:
        running.run()
    assert [(place, partition) for place, partition, _, _ in sorted(caught.value.ranges)] == [(two, 0), (two, 1)]


def test_F27_a_deleted_topic_leaves_the_state_if_the_user_wants_to_go_on(stream, two, topic, kafka, produce):
    other = topic()
    names = f"{two},{other}"
    running = stream(subscribe=names, startingOffsets="earliest", failOnDataLoss="false", **EVERY_TRIGGER)
    running.trigger()
    kafka.delete_topic(two)
    produce(other, records(2))
    for _ in range(5):
        running.trigger()
    assert running.state == {tp(other): 2}
    assert {tp(other): (0, 2)} in running.read
    assert running.planner.losses.count == 2


def test_F27_a_recreated_topic_is_recognized_by_its_id(stream, two, operator, produce):
    running = stream(subscribe=two, startingOffsets="earliest", **EVERY_TRIGGER)
    running.trigger()
    operator.recreate(two, 2)
    produce(two, records(30) + records(30, partition=1))  # more than the old one had: offsets alone would not tell
    with pytest.raises(DataLoss, match="another topic of the same name"):
        running.trigger()


def test_F27_a_recreated_topic_is_read_from_its_beginning_if_the_user_wants_to_go_on(stream, two, operator, produce):
    running = stream(subscribe=two, startingOffsets="earliest", failOnDataLoss="false", **EVERY_TRIGGER)
    running.trigger()
    operator.recreate(two, 2)
    produce(two, records(30) + records(3, partition=1))
    assert running.run() == {tp(two): list(range(30)), tp(two, 1): [0, 1, 2]}
    assert running.planner.losses.count == 2


# --- brokers that are down --------------------------------------------------------------------------------------------


def test_F12_a_broker_that_is_down_takes_no_partition_from_the_state(stream, kafka_cluster, produce, caplog):
    name = f"t-{uuid.uuid4().hex[:12]}"
    kafka_cluster.create_topic(name, 3, 1)  # one replica: partitions that no other broker can serve
    produce(name, [Rec(b"v", partition=p) for p in range(3)], cluster=kafka_cluster)
    options = {"kafka.default.api.timeout.ms": "10000", "startingOffsets": "earliest", **EVERY_TRIGGER}
    running = stream(cluster=kafka_cluster, subscribe=name, **options)
    running.trigger()
    before = running.state
    assert len(before) == 3
    down = running.planner.cluster.known.leader(tp(name)).broker.node_id
    kafka_cluster.stop_node(down)
    try:
        for _ in range(3):
            running.trigger()
        assert running.state == before
    finally:
        kafka_cluster.restart_node(down)
    produce(name, [Rec(b"v", partition=p) for p in range(3)], cluster=kafka_cluster)
    deadline = time.monotonic() + 120
    while sum(running.state.values()) < 6 and time.monotonic() < deadline:
        running.trigger()
    assert running.state == dict.fromkeys(before, 2)


# --- steps of the log that only tidy up -------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [{}, {"0": 3}], ids=["dropped", "reset"])
def test_a_step_that_reads_nothing_is_replayed_by_a_process_that_knows_nothing(stream, two, end):
    start = {tp(two): 9}
    assert stream(start, subscribe=two).ranges(start, {tp(two, int(p)): offset for p, offset in end.items()}) == {}


def test_available_now_with_a_state_past_the_end_ends_at_the_end(stream, two):
    running = stream({tp(two): 99, tp(two, 1): 5}, subscribe=two, failOnDataLoss="false")
    running.planner.prepare_for_available_now()
    assert running.run() == {}
    assert running.state == {tp(two): 10, tp(two, 1): 5}


@pytest.mark.parametrize("restarted", [False, True])
def test_F27_a_recreated_topic_with_fewer_partitions_has_lost_the_others(stream, two, operator, produce, restarted):
    options = {"subscribe": two, "startingOffsets": "earliest", **EVERY_TRIGGER}
    running = stream(**options, failOnDataLoss="false")
    running.trigger()
    operator.recreate(two, 1)
    produce(two, records(2))
    if restarted:
        running = stream(running.state, **options, failOnDataLoss="false")
    with pytest.raises(DataLoss):
        stream(running.state, **options).run()
    deadline = time.monotonic() + 30
    while tp(two, 1) in running.state and time.monotonic() < deadline:
        running.trigger()
    assert set(running.state) == {tp(two)}


def test_F27_a_topic_recreated_while_the_log_still_has_it_is_read_from_its_beginning(
    stream, topic, operator, kafka, produce
):
    first, second = topic(), topic()
    produce(first, records(10))
    options = {"minOffsetsPerTrigger": "20", "maxTriggerDelay": "60s", "failOnDataLoss": "false", **EVERY_TRIGGER}
    running = stream(subscribe=f"{first},{second}", startingOffsets="earliest", **options)
    running.trigger()
    kafka.delete_topic(first)
    while running.planner.losses.count == 0:
        assert running.trigger() == {}  # held back: too few records for a batch
    assert running.state[tp(first)] == 10
    kafka.create_topic(first, 1)
    produce(first, records(35))
    running.later = 61
    seen = running.run()
    running.later = 200
    for place, offsets in running.run().items():
        seen.setdefault(place, []).extend(offsets)
    assert seen == {tp(first): list(range(35))}


def test_an_open_transaction_is_not_a_truncation(stream, topic, produce, transaction):
    name = topic()
    produce(name, records(3))
    with transaction(uuid.uuid4().hex) as send:
        send(name, records(6))
        running = stream({tp(name): 9}, subscribe=name, **{"kafka.isolation.level": "read_committed"})
        assert running.trigger() == {}
        assert running.state == {tp(name): 9}
    deadline = time.monotonic() + 30
    while running.state == {tp(name): 9} and time.monotonic() < deadline:
        running.trigger()
    assert running.state == {tp(name): 10}  # the marker that ends the transaction


def test_many_topics_deleted_at_once_are_found_at_once(stream, topic, kafka, produce):
    names = [topic() for _ in range(5)]
    for name in names:
        produce(name, records(2))
    running = stream(subscribe=",".join(names), startingOffsets="earliest")
    start = running.planner.initial()
    end = running.planner.latest(dict(start))
    for name in names:
        kafka.delete_topic(name)
    asked = []
    listing = running.planner.cluster.listing
    running.planner.cluster.listing = lambda topics, create=False: asked.append(topics) or listing(topics, create)
    with pytest.raises(DataLoss) as caught:
        running.planner.ranges(start, end)
    assert len(caught.value.ranges) == 5
    assert len(asked) <= 2


# --- errors in the middle of a trigger --------------------------------------------------------------------------------


def fails_once(monkeypatch, cluster, method):
    """The next call of a cluster's method fails as if no broker answered."""
    really = getattr(cluster, method)

    def fail(*args):
        monkeypatch.setattr(cluster, method, really)
        raise BrokerUnavailable("no broker answers")

    monkeypatch.setattr(cluster, method, fail)


def test_F27_a_loss_counts_once_although_the_batch_is_planned_again(stream, two, operator, monkeypatch):
    operator.delete_records(two, {0: 4})
    aligned = {"failOnDataLoss": "false", "eventTime.maxDrift": "1h"}
    start, end = {tp(two): 2, tp(two, 1): 0}, {tp(two): 10, tp(two, 1): 5}
    running = stream(start, subscribe=two, **aligned)
    fails_once(monkeypatch, running.planner.cluster, "reachable_ends")
    with pytest.raises(BrokerUnavailable):
        running.ranges(start, end)
    for _ in range(2):
        assert running.ranges(start, end) == {tp(two): (4, 10), tp(two, 1): (0, 5)}
    assert running.planner.losses.count == 1


@pytest.mark.parametrize("method", ["begin", "reachable_ends"])
def test_F27_a_recreated_topic_is_not_forgotten_when_a_broker_fails(
    stream, two, operator, produce, monkeypatch, method
):
    running = stream(subscribe=two, startingOffsets="earliest", failOnDataLoss="false", **EVERY_TRIGGER)
    running.trigger()
    operator.recreate(two, 2)
    produce(two, records(30) + records(30, partition=1))
    fails_once(monkeypatch, running.planner.cluster, method)
    with pytest.raises(BrokerUnavailable):
        running.run()
    assert running.run() == {tp(two): list(range(30)), tp(two, 1): list(range(30))}


def trigger_denied(running, monkeypatch, *names):
    """A trigger while brokers say that they do not have these topics."""
    cluster = running.planner.cluster
    listing = cluster.listing

    def denied(topics):
        metadata, unknown = listing(topics)
        cluster._known = cluster._known.without(names)
        return metadata.without(names), [*unknown, *names]

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "listing", denied)
        running.trigger()


def test_F12_a_topic_that_came_back_after_it_left_the_log_is_not_read_from_its_beginning(
    stream, two, topic, operator, monkeypatch, produce
):
    other = topic()
    options = {"failOnDataLoss": "false", "startingOffsets": "earliest", **EVERY_TRIGGER}
    running = stream(subscribe=f"{two},{other}", **options)
    running.run()
    trigger_denied(running, monkeypatch, two)
    assert running.state == {tp(other): 0}
    with pytest.raises(PenstockError, match=f'startingOffsets {{"{two}": {{"0": 10, "1": 5}}}}'):
        running.run()
    operator.recreate(two, 2)
    produce(two, records(3))
    assert running.run() == {tp(two): [0, 1, 2]}, "another topic of that name begins at its beginning"


def test_F12_a_topic_that_brokers_deny_for_a_while_goes_on_where_it_was(stream, two, produce, monkeypatch):
    options = {"minOffsetsPerTrigger": "20", "maxTriggerDelay": "60s", "failOnDataLoss": "false", **EVERY_TRIGGER}
    running = stream(subscribe=two, startingOffsets="earliest", **options)
    running.run()
    trigger_denied(running, monkeypatch, two)
    assert running.planner.losses.count == 2
    produce(two, records(25))
    assert running.run() == {tp(two): list(range(10, 35))}
    assert running.state == {tp(two): 35, tp(two, 1): 5}


@pytest.mark.parametrize("fail", [True, False])
def test_F27_available_now_finds_a_recreated_topic_under_its_batches(stream, two, operator, produce, fail):
    options = {"maxOffsetsPerTrigger": "6", "startingOffsets": "earliest", "failOnDataLoss": str(fail).lower()}
    running = stream(subscribe=two, **options)
    running.planner.prepare_for_available_now()
    running.trigger()
    operator.recreate(two, 2)
    produce(two, records(30) + records(30, partition=1))
    running.planner.cluster.metadata((two,))  # as a leader that has moved makes it ask
    if fail:
        with pytest.raises(DataLoss, match="another topic of the same name"):
            running.run()
    else:
        assert running.run() == {}
        assert running.state == {tp(two): 0, tp(two, 1): 0}


def test_F27_a_recreated_topic_right_after_the_start_is_found(stream, two, operator, produce):
    running = stream(subscribe=two, startingOffsets="latest", **EVERY_TRIGGER)
    running.trigger()
    operator.recreate(two, 2)
    produce(two, records(30) + records(30, partition=1))
    with pytest.raises(DataLoss, match="another topic of the same name"):
        running.run()


def test_F27_a_cut_is_found_although_a_broker_fails_meanwhile(stream, two, monkeypatch):
    running = stream(subscribe=two, startingOffsets="earliest", failOnDataLoss="false", **EVERY_TRIGGER)
    running.run()
    planner = running.planner
    planner.truncation._epochs = {tp(two): 0, tp(two, 1): 0}
    cluster = planner.cluster
    raised = {name: replace(topic, partitions={p: replace(leader, epoch=1) for p, leader in topic.partitions.items()})
              for name, topic in cluster.known.topics.items()}  # fmt: skip
    cluster._known = replace(cluster.known, topics=raised)
    ends = {tp(two): (0, 4), tp(two, 1): (0, 5)}
    monkeypatch.setattr(cluster, "epoch_ends", lambda epochs: {place: ends[place] for place in epochs})
    fails_once(monkeypatch, cluster, "epoch_ends")
    found = {tp(two): 12, tp(two, 1): 5}
    with pytest.raises(BrokerUnavailable):
        planner.truncation.find(running.state, found)
    assert planner.truncation.find(running.state, found) == {tp(two): 4}
