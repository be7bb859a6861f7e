"""How a stream is planned, trigger by trigger, against a real broker. The `stream` fixture plays Spark's part."""

from __future__ import annotations

import json
import logging
import time
import uuid

import pytest

from fixtures.produce import Rec
from fixtures.stream import EVERY_TRIGGER, HOUR, NOW, records, tp
from penstock.errors import (
    AuthenticationFailed,
    BrokerUnavailable,
    DataLoss,
    NoGroupOffset,
    OptionError,
    UnknownTopic,
    UnrelatedCheckpoint,
)

# --- F6 to F9: where a new stream starts ------------------------------------------------------------------------------


def test_F6_a_stream_without_a_group_starts_at_the_end(stream, two, produce):
    running = stream(subscribe=two)
    assert running.trigger() == {}
    produce(two, records(3))
    assert running.trigger() == {tp(two): (10, 13)}


def test_F6_earliest(stream, two):
    assert stream(subscribe=two, startingOffsets="earliest").trigger() == {tp(two): (0, 10), tp(two, 1): (0, 5)}


def test_F6_a_named_group_starts_at_its_offsets(stream, two, operator):
    group = uuid.uuid4().hex
    operator.commit(group, two, {0: 4, 1: 5})
    running = stream(subscribe=two, **{"kafka.group.id": group})
    assert running.run() == {tp(two): list(range(4, 10))}


def test_F6_a_timestamp_and_one_per_partition(stream, topic, produce):
    name = topic(partitions=2)
    for hours in range(10, 0, -1):
        produce(name, [Rec(b"v", timestamp=NOW - hours * HOUR, partition=p) for p in (0, 1)])
    at = str(NOW - 3 * HOUR)
    assert stream(subscribe=name, startingTimestamp=at).run() == {tp(name): [7, 8, 9], tp(name, 1): [7, 8, 9]}
    each = f'{{"{name}": {{"0": {NOW - 2 * HOUR}, "1": {NOW - HOUR}}}}}'
    assert stream(subscribe=name, startingOffsetsByTimestamp=each).run() == {tp(name): [8, 9], tp(name, 1): [9]}


def test_F7_explicit_offsets_name_the_next_record(stream, two):
    running = stream(subscribe=two, startingOffsets=f'{{"{two}": {{"0": 8, "1": -1}}}}')
    assert running.run() == {tp(two): [8, 9]}


def test_F7_an_unnamed_partition_falls_back_to_its_group_and_a_warning_lists_it(stream, two, operator, caplog):
    group = uuid.uuid4().hex
    operator.commit(group, two, {1: 3})
    running = stream(subscribe=two, startingOffsets=f'{{"{two}": {{"0": 9}}}}', **{"kafka.group.id": group})
    with caplog.at_level(logging.WARNING):
        assert running.run() == {tp(two): [9], tp(two, 1): [3, 4]}
    assert f"names no offset for {two}-1" in caplog.text


def test_F7_neither_named_nor_in_the_group_is_an_error(stream, two):
    running = stream(subscribe=two, startingOffsets=f'{{"{two}": {{"0": 9}}}}', **{"kafka.group.id": uuid.uuid4().hex})
    with pytest.raises(NoGroupOffset, match=f"{two}-1"):
        running.trigger()


def test_F8_no_record_that_young_starts_at_the_end(stream, two, produce):
    running = stream(subscribe=two, startingTimestamp=str(NOW + HOUR))
    assert running.trigger() == {}
    produce(two, records(1))
    assert running.trigger() == {tp(two): (10, 11)}


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 10), (None, 10)])
def test_F9_a_group_without_offsets_follows_the_reset_rule(stream, two, produce, reset, first):
    options = {"kafka.group.id": uuid.uuid4().hex} | ({"kafka.auto.offset.reset": reset} if reset else {})
    running = stream(subscribe=two, **options)
    running.run()
    produce(two, records(1))
    running.run()
    seen = [batch[tp(two)] for batch in running.read if tp(two) in batch]
    assert (seen[0][0], seen[-1][1]) == (first, 11)


def test_F9_none_is_an_error(stream, two):
    options = {"kafka.group.id": uuid.uuid4().hex, "kafka.auto.offset.reset": "none"}
    with pytest.raises(NoGroupOffset, match="has no committed offset"):
        stream(subscribe=two, **options).trigger()


@pytest.mark.parametrize("start", ["latest", "group"])
def test_F10_a_start_that_moves_is_in_the_offset_log_before_anything_is_read(stream, two, produce, operator, start):
    group = uuid.uuid4().hex
    operator.commit(group, two, {0: 10, 1: 5})
    options = {"startingOffsets": start, "kafka.group.id": group, "subscribe": two}
    running = stream(**options)
    running.trigger()
    produce(two, records(4))
    planned = running.state, running.planner.latest(dict(running.state))
    # The driver dies before the batch is done; offsets move on; another process replays from the log alone.
    produce(two, records(2))
    operator.commit(group, two, {0: 15, 1: 5})
    assert stream(**options, state=planned[0]).ranges(*planned) == {tp(two): (10, 14)}


def test_F10_a_first_batch_that_is_replayed_reads_nothing_twice(stream, two, produce):
    running = stream(subscribe=two)
    running.trigger()
    produce(two, records(2))
    again = stream(subscribe=two)
    assert again.ranges(again.planner.initial(), running.state) == {}


def test_F7_a_group_that_moves_does_not_move_a_first_batch_that_is_replayed(stream, two, operator):
    group = uuid.uuid4().hex
    operator.commit(group, two, {1: 2})
    options = {"subscribe": two, "startingOffsets": f'{{"{two}": {{"0": 9}}}}', "kafka.group.id": group}
    running = stream(**options)
    assert running.trigger() == {}, "the start is brought into the log first"
    planned = running.state, running.planner.latest(dict(running.state))
    operator.commit(group, two, {1: 4})
    assert stream(planned[0], **options).ranges(*planned) == {tp(two): (9, 10), tp(two, 1): (2, 5)}


def test_once_reads_everything_in_its_only_batch(stream, two, operator):
    group = uuid.uuid4().hex
    operator.commit(group, two, {0: 4, 1: 5})
    running = stream(subscribe=two, maxOffsetsPerTrigger="1", **{"kafka.group.id": group})
    assert running.trigger(everything=True) == {tp(two): (4, 10)}


# --- F11, F12: what a restored state means ----------------------------------------------------------------------------


def test_F11_partition_unknown_to_restored_state_starts_at_earliest(stream, two):
    running = stream({tp(two): 9}, subscribe=two, startingOffsets="latest")
    assert running.trigger() == {tp(two): (9, 10)}
    assert running.state == {tp(two): 10, tp(two, 1): 0}, "the beginning is in the log before anything is read"
    assert running.trigger() == {tp(two, 1): (0, 5)}


def test_F12_restored_partitions_outside_the_subscription_keep_their_offsets_and_are_not_read(
    stream, two, topic, produce, caplog
):
    other = topic()
    produce(other, records(3))
    running = stream({tp(two): 9, tp(two, 1): 5, tp(other): 1}, subscribe=two)
    with caplog.at_level(logging.WARNING):
        assert running.run() == {tp(two): [9]}
    assert running.state == {tp(two): 10, tp(two, 1): 5, tp(other): 1}
    assert caplog.text.count(f"{other}-0, which the subscription does not include") == 1
    assert set(running.planner.newest) == {tp(two), tp(two, 1)}, "so no lag is shown of it"
    assert running.planner.restored(running.state) == {tp(two): 10, tp(two, 1): 5}, "and nothing is committed of it"
    assert running.planner.checkpoint.unread == {tp(other): 1}


@pytest.mark.parametrize("by", ["subscribe", "subscribePattern", "assign"])
def test_F12_a_topic_that_comes_back_continues_where_it_was(stream, topic, produce, by):
    clicks, orders = topic(), topic()
    produce(clicks, records(4))
    produce(orders, records(2))

    def naming(*names: str) -> dict[str, str]:
        texts = {
            "subscribe": ",".join(names),
            "subscribePattern": "|".join(f"^{name}$" for name in names),
            "assign": json.dumps({name: [0] for name in names}),
        }
        return {by: texts[by], "startingOffsets": "earliest"}

    first = stream(**naming(clicks, orders))
    assert first.run() == {tp(clicks): [0, 1, 2, 3], tp(orders): [0, 1]}
    produce(clicks, records(1))
    produce(orders, records(1))
    second = stream(first.state, **naming(orders))
    assert second.run() == {tp(orders): [2]}
    third = stream(second.state, **naming(clicks, orders))
    assert third.run() == {tp(clicks): [4]}
    assert third.state == {tp(clicks): 5, tp(orders): 3}


def test_F12_state_and_subscription_that_share_no_topic_are_an_error_and_move_nothing(stream, topic, produce):
    clicks, orders = topic(), topic()
    produce(clicks, records(4))
    produce(orders, records(2))
    state = {tp(clicks): 4}
    for wrong in ({"subscribe": orders}, {"subscribePattern": f"^{orders}$"}, {"assign": f'{{"{orders}": [0]}}'}):
        with pytest.raises(UnrelatedCheckpoint, match="allowUnrelatedCheckpoint") as raised:
            stream(state, **wrong).trigger()
        assert clicks in str(raised.value)
        assert orders in str(raised.value)
        with pytest.raises(UnrelatedCheckpoint):
            stream(state, **wrong).ranges({tp(clicks): 2}, state)
    assert stream(state, subscribe=clicks).run() == {}


def test_F12_an_unrelated_checkpoint_can_be_allowed_and_its_offsets_stay(stream, topic, produce):
    clicks, orders = topic(), topic()
    produce(clicks, records(4))
    produce(orders, records(2))
    allowed = stream({tp(clicks): 3}, subscribe=orders, allowUnrelatedCheckpoint="true")
    assert allowed.run() == {tp(orders): [0, 1]}, "F11: the state does not know it"
    assert allowed.state == {tp(clicks): 3, tp(orders): 2}
    assert stream(allowed.state, subscribe=clicks).run() == {tp(clicks): [3]}
    both = stream({tp(clicks): 3}, subscribe=orders, filterRestoredPartitions="false")
    assert both.run() == {tp(clicks): [3], tp(orders): [0, 1]}


def test_F12_another_partition_of_the_same_topic_is_a_related_checkpoint(stream, two):
    running = stream({tp(two): 4}, assign=f'{{"{two}": [1]}}')
    assert running.run() == {tp(two, 1): [0, 1, 2, 3, 4]}
    assert running.state == {tp(two): 4, tp(two, 1): 5}


def test_F12_unread_partitions_are_not_held_against_the_cluster(stream, two, kafka, topic, operator):
    gone, recreated = topic(), topic()
    kafka.delete_topic(gone)
    operator.recreate(recreated)
    running = stream({tp(two): 9, tp(two, 1): 5, tp(gone): 7, tp(recreated): 30}, subscribe=two, **EVERY_TRIGGER)
    assert running.run() == {tp(two): [9]}
    assert running.state == {tp(two): 10, tp(two, 1): 5, tp(gone): 7, tp(recreated): 30}
    with pytest.raises(DataLoss, match=f"{recreated}-0: wanted from offset 30"):
        stream(running.state, subscribe=f"{two},{recreated}").run()


def test_F12_a_batch_that_was_planned_is_replayed_with_what_the_subscription_has_lost(stream, two, topic, produce):
    other = topic()
    produce(other, records(3))
    start, end = {tp(two): 9, tp(other): 1}, {tp(two): 10, tp(other): 3}
    again = stream(start, subscribe=two)
    assert again.ranges(start, end) == {tp(two): (9, 10), tp(other): (1, 3)}
    again.state = end
    again.run()
    assert again.state[tp(other)] == 3


def test_F4_unread_partitions_do_not_keep_a_stream_from_its_end(stream, two, topic, produce):
    other = topic()
    produce(other, records(3))
    ending = f'{{"{two}": {{"0": 10, "1": 5}}}}'
    running = stream({tp(two): 9, tp(two, 1): 5, tp(other): 1}, subscribe=two, endingOffsets=ending)
    running.run()
    assert running.planner.finished is True


def test_F12_the_filter_can_be_switched_off(stream, two, topic, produce):
    other = topic()
    produce(other, records(3))
    running = stream({tp(two): 10, tp(two, 1): 5, tp(other): 1}, subscribe=two, filterRestoredPartitions="false")
    assert running.trigger() == {tp(other): (1, 3)}
    produce(other, records(1))
    assert running.trigger() == {tp(other): (3, 4)}


# --- F14, F15: discovery ----------------------------------------------------------------------------------------------


def test_F14_new_partitions_join_at_their_beginning(stream, two, operator, produce):
    running = stream(subscribe=two, startingOffsets="latest", **EVERY_TRIGGER)
    running.run()
    operator.grow(two, 4)
    produce(two, records(2, partition=3))
    deadline = time.monotonic() + 30
    while running.state.get(tp(two, 3)) != 2 and time.monotonic() < deadline:
        running.trigger()
    assert {tp(two, 3): (0, 2)} in running.read
    assert set(running.state) == {tp(two, p) for p in range(4)}


def test_a_partition_that_joined_is_committed_with_its_leader_epoch(stream, two, operator):
    running = stream(subscribe=two, startingOffsets="earliest", **EVERY_TRIGGER)
    running.run()
    operator.grow(two, 3)
    deadline = time.monotonic() + 30
    while tp(two, 2) not in running.state and time.monotonic() < deadline:
        running.trigger()
    assert set(running.planner.truncation.epochs(running.state)) == {tp(two, p) for p in range(3)}


def test_F14_the_interval_is_kept(stream, two, operator):
    running = stream(subscribe=two, **{"partition.discovery.interval.ms": "60000"})
    running.run()
    operator.grow(two, 3)
    running.run()
    assert tp(two, 2) not in running.state
    running.later = 61
    running.run()
    assert tp(two, 2) in running.state


def test_F14_never_looks_only_when_the_query_starts(stream, two, operator):
    running = stream(subscribe=two, **{"partition.discovery.interval.ms": "-1"})
    running.run()
    operator.grow(two, 3)
    running.later = 1e9
    running.run()
    assert tp(two, 2) not in running.state
    restarted = stream(running.state, subscribe=two, **{"partition.discovery.interval.ms": "-1"})
    restarted.run()
    assert tp(two, 2) in restarted.state


def test_F14_never_is_never_also_when_leaders_are_looked_up(stream, two, operator, produce):
    running = stream(subscribe=two, startingOffsets="earliest", **{"partition.discovery.interval.ms": "-1"})
    running.run()
    operator.grow(two, 3)
    produce(two, records(1, partition=2))
    deadline = time.monotonic() + 30
    while running.planner.cluster.metadata((two,)).leader(tp(two, 2)) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    running.run()
    assert tp(two, 2) not in running.state


def test_a_topic_that_a_restored_query_does_not_find_is_warned_of_once(stream, two, caplog):
    missing = uuid.uuid4().hex
    running = stream({tp(two): 10, tp(two, 1): 5}, subscribe=f"{two},{missing}", **EVERY_TRIGGER)
    with caplog.at_level(logging.WARNING):
        running.run()
        running.trigger()
    assert caplog.text.count(f"topics {missing!r} do not exist") == 1


def test_F14_and_F15_a_pattern_that_matches_nothing_runs_idle_and_picks_the_first_topic_up(stream, kafka, produce):
    family = uuid.uuid4().hex[:8]
    running = stream(subscribePattern=f"{family}-.*", **EVERY_TRIGGER)
    assert running.run() == {}
    assert running.state == {}
    kafka.create_topic(f"{family}-a", 2)
    produce(f"{family}-a", records(3))
    deadline = time.monotonic() + 30
    while not any(running.read) and time.monotonic() < deadline:
        running.trigger()
    assert {tp(f"{family}-a"): (0, 3)} in running.read


def test_a_named_topic_that_does_not_exist_is_an_error(stream, two):
    with pytest.raises(UnknownTopic, match=f"did you mean '{two}'"):
        stream(subscribe=two + "x").trigger()


# --- how much per trigger ---------------------------------------------------------------------------------------------


def test_max_offsets_are_shared_by_backlog(stream, two):
    running = stream(subscribe=two, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    assert running.trigger() == {tp(two): (0, 4), tp(two, 1): (0, 2)}
    assert running.run() == {tp(two): list(range(4, 10)), tp(two, 1): [2, 3, 4]}


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_max_bytes_stays_within_a_quarter_on_even_data(stream, topic, produce, operator, codec):
    name = topic(partitions=2)
    lines = [b"%06d" % n + b"abcdefghij" * 20 for n in range(20_000)]
    produce(name, [Rec(line, partition=n % 2) for n, line in enumerate(lines)], **{"compression.type": codec})
    stored = operator.stored_bytes(name)
    running = stream(subscribe=name, startingOffsets="earliest", maxBytesPerTrigger=str(stored // 10))
    triggers = []
    while batch := running.trigger():
        triggers.append(sum(stop - start for start, stop in batch.values()) * stored / len(lines))
    assert len(triggers) > 5
    assert all(0.75 < size / (stored / 10) < 1.25 for size in triggers[:-1]), triggers


def test_a_minimum_waits_for_more_or_for_the_delay(stream, two, produce):
    options = {"minOffsetsPerTrigger": "100", "maxTriggerDelay": "60s", "startingOffsets": "earliest"}
    running = stream(subscribe=two, **options)
    assert sum(stop - start for start, stop in running.trigger().values()) == 15
    produce(two, records(5))
    assert running.trigger() == {}
    running.later = 61
    assert running.trigger() == {tp(two): (10, 15)}
    produce(two, records(100))
    assert running.trigger() == {tp(two): (15, 115)}


def test_available_now_ends_at_what_was_there_also_with_limits(stream, two, produce, operator):
    running = stream(subscribe=two, startingOffsets="earliest", maxOffsetsPerTrigger="6", **EVERY_TRIGGER)
    running.planner.prepare_for_available_now()
    running.trigger()
    produce(two, records(50))
    operator.grow(two, 3)
    produce(two, records(5, partition=2))
    running.run()
    assert running.state == {tp(two): 10, tp(two, 1): 5}
    start = running.state
    assert running.planner.at_the_end(start, running.planner.latest(dict(start)))


def test_available_now_with_a_topic_that_vanishes(stream, two, topic, kafka, produce):
    other = topic()
    produce(other, records(20))
    options = {"subscribe": f"{two},{other}", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    strict, lenient = stream(**options), stream(**options, failOnDataLoss="false")
    for running in (strict, lenient):
        running.planner.prepare_for_available_now()
        running.trigger()
    kafka.delete_topic(other)
    with pytest.raises(DataLoss, match=other):
        strict.run()
    lenient.run()
    assert lenient.state == {tp(two): 10, tp(two, 1): 5}


def test_available_now_does_not_wait_for_a_minimum(stream, two, produce):
    running = stream(subscribe=two, startingOffsets="earliest", minOffsetsPerTrigger="12", maxOffsetsPerTrigger="12")
    running.planner.prepare_for_available_now()
    running.run()
    assert running.state == {tp(two): 10, tp(two, 1): 5}


def test_an_end_in_a_stream_is_where_it_stops(stream, two, produce):
    ending = f'{{"{two}": {{"0": 12, "1": 3}}}}'
    running = stream(subscribe=two, startingOffsets="earliest", endingOffsets=ending)
    running.run()
    assert running.state == {tp(two): 10, tp(two, 1): 3}
    assert not running.planner.finished
    produce(two, records(5))
    running.run()
    assert running.state == {tp(two): 12, tp(two, 1): 3}
    assert running.planner.finished


def test_an_end_by_time_is_reached_by_a_partition_without_records(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, records(4, timestamp=NOW - HOUR))
    running = stream(subscribe=name, startingOffsets="earliest", endingTimestamp=str(NOW - HOUR // 2))
    running.run()
    assert running.planner.finished
    assert running.state == {tp(name): 4, tp(name, 1): 0}


def test_ranges_are_split_for_more_tasks(stream, two):
    planner = stream(subscribe=two, startingOffsets="earliest", minPartitions="6", maxRecordsPerPartition="4").planner
    start = planner.initial()
    ranges = planner.ranges(start, planner.latest(dict(start)))
    assert len(ranges) >= 5
    assert max(r.size for r in ranges) <= 4
    assert sum(r.size for r in ranges) == 15


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ('{"TOPIC": {"0": 3, "1": 2, "7": 1}}', "which the subscription does not have"),
        ('{"TOPIC": {"0": 3}}', "names no offset for"),
    ],
)
def test_wrong_partitions_are_refused(stream, two, offsets, words):
    with pytest.raises(OptionError, match=words):
        stream(subscribe=two, startingOffsets=offsets.replace("TOPIC", two)).trigger()


def test_an_offset_past_the_end_is_refused(stream, two):
    with pytest.raises(DataLoss, match="wanted from offset 999, the broker has offsets 0 to 10"):
        stream(subscribe=two, startingOffsets=f'{{"{two}": {{"0": 999, "1": 2}}}}').trigger()


def test_an_unreachable_broker_is_an_error_within_the_timeout(stream):
    options = {"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.default.api.timeout.ms": "1500"}
    with pytest.raises(BrokerUnavailable, match=r"not done within 1\.5 s"):
        stream(subscribe="t", **options).trigger()


def test_a_broker_that_asks_for_no_password_refuses_one_by_name(stream, two):
    options = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": 'x required username="me" password="hush";',
        "kafka.default.api.timeout.ms": "3000",
    }
    with pytest.raises((BrokerUnavailable, AuthenticationFailed)) as caught:
        stream(subscribe=two, **options).trigger()
    assert "hush" not in str(caught.value)
