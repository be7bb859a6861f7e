"""How a stream is planned, trigger by trigger, over a cluster of plain values. The tests play Spark's part."""

from __future__ import annotations

import logging
import re

import pytest

from penstock.config.source import parse_options
from penstock.errors import BrokerUnavailable, DataLoss, PenstockError, UnknownTopic, UnrelatedCheckpoint
from penstock.model.task_report import TaskReport
from penstock.model.topic_partition import TopicPartition
from penstock.planner.report_ledger import ReportLedger
from penstock.planner.stream import StreamPlanner
from support.fake_cluster import FakeCluster, Log
from support.planned_stream import PlannedStream

A0, A1, A2, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0)
EARLIEST = {"startingOffsets": "earliest"}
EVERY_TRIGGER = {"partition.discovery.interval.ms": "0"}
KEEP_GOING = {"failOnDataLoss": "false"}


@pytest.fixture
def cluster():
    """Topic `a` with ten records in its first partition and five in its second."""
    fake = FakeCluster()
    fake.create("a", 10, 5)
    return fake


def stream(cluster, state=None, subscribe="a", recall=None, **options):
    parsed = parse_options({"kafka.bootstrap.servers": "broker:9092", "subscribe": subscribe} | options)
    return PlannedStream(lambda clock: StreamPlanner(parsed, cluster, recall=recall, clock=clock), state)


# --- where a query starts ---------------------------------------------------------------------------------------------


def test_F6_a_stream_without_a_group_starts_at_the_end(cluster):
    running = stream(cluster)
    assert running.trigger() == {}
    cluster.logs[A0].end = 13
    assert running.trigger() == {A0: (10, 13)}


def test_F6_a_stream_with_a_group_starts_at_its_offsets(cluster):
    cluster.groups["g"] = {A0: (4, -1), A1: (5, -1)}
    assert stream(cluster, **{"kafka.group.id": "g"}).run() == {A0: [4, 5, 6, 7, 8, 9]}


def test_F9_a_group_without_offsets_starts_at_the_end_by_default(cluster):
    assert stream(cluster, **{"kafka.group.id": "g"}).planner.initial() == {A0: 10, A1: 5}


def test_F10_a_start_that_moves_is_in_the_offset_log_before_anything_is_read(cluster):
    running = stream(cluster)
    assert running.planner.pins_start
    start = running.planner.initial()
    cluster.logs[A0].end = 20
    assert running.planner.latest(dict(start)) == start, "the first step of the log reads nothing"


def test_F10_the_earliest_offset_needs_no_step_of_its_own(cluster):
    running = stream(cluster, **EARLIEST)
    assert not running.planner.pins_start
    assert running.trigger() == {A0: (0, 10), A1: (0, 5)}


def test_F10_trigger_once_reads_in_its_only_batch(cluster):
    cluster.groups["g"] = {A0: (4, -1), A1: (5, -1)}
    assert stream(cluster, **{"kafka.group.id": "g"}).trigger(everything=True) == {A0: (4, 10)}


def test_F27_a_start_that_retention_has_passed_is_data_loss(cluster):
    cluster.logs[A0].begin = 6
    with pytest.raises(DataLoss, match="a-0: wanted from offset 3"):
        stream(cluster, startingOffsets='{"a": {"0": 3, "1": 5}}').planner.initial()


def test_only_the_end_of_a_finished_batch_is_durable(cluster):
    running = stream(cluster, **EARLIEST)
    start = running.planner.initial()
    assert not running.planner.is_durable(start)
    running.trigger()
    assert running.planner.is_durable(running.state)
    assert stream(cluster, {A0: 1, A1: 1}).planner.is_durable({A0: 1, A1: 1}), "restored from a checkpoint"


# --- partitions that join ---------------------------------------------------------------------------------------------


def test_F11_a_partition_unknown_to_the_state_starts_at_its_first_offset(cluster):
    running = stream(cluster, {A0: 10, A1: 5}, **EVERY_TRIGGER)
    running.trigger()
    cluster.grow("a", 7)
    cluster.logs[A2].begin = 3
    assert running.trigger() == {}
    assert running.state == {A0: 10, A1: 5, A2: 3}, "the offset log holds its start before it is read"
    assert running.trigger() == {A2: (3, 7)}


def test_F11_trigger_once_reads_a_new_partition_in_its_only_batch(cluster):
    running = stream(cluster, {A0: 10})
    assert running.trigger(everything=True) == {A1: (0, 5)}


def test_F14_partitions_are_discovered_at_every_interval(cluster):
    running = stream(cluster, {A0: 10, A1: 5}, **{"partition.discovery.interval.ms": "1000"})
    running.trigger()
    cluster.grow("a", 7)
    assert running.run() == {}
    running.later = 2.0
    assert running.run() == {A2: list(range(7))}


def test_F14_without_an_interval_new_partitions_are_not_read(cluster):
    running = stream(cluster, {A0: 10, A1: 5}, **{"partition.discovery.interval.ms": "-1"})
    running.trigger()
    cluster.grow("a", 7)
    running.later = 1e9
    assert running.run() == {}


# --- restored offsets (F12) -------------------------------------------------------------------------------------------


def test_F12_partitions_that_are_not_subscribed_to_stay_in_the_offset_log_unread(cluster, caplog):
    cluster.create("b", 9)
    running = stream(cluster, {A0: 8, A1: 5, B0: 1})
    with caplog.at_level(logging.WARNING):
        assert running.run() == {A0: [8, 9]}
    assert running.state == {A0: 10, A1: 5, B0: 1}
    assert running.planner.checkpoint.unread == {B0: 1}
    assert running.planner.restored(running.state) == {A0: 10, A1: 5}, "so that they are not committed"
    assert caplog.text.count("the checkpoint holds b-0") == 1


def test_F12_partitions_that_are_not_subscribed_to_are_read_if_the_user_wants_that(cluster):
    cluster.create("b", 9)
    running = stream(cluster, {A0: 10, A1: 5, B0: 8}, filterRestoredPartitions="false")
    assert running.run() == {B0: [8]}


def test_F12_a_checkpoint_without_a_subscribed_topic_is_refused(cluster):
    with pytest.raises(UnrelatedCheckpoint):
        stream(cluster, {B0: 1}).trigger()


def test_F12_a_partition_without_a_leader_keeps_its_offset_and_waits(cluster, caplog):
    cluster.logs[A0].has_leader = False
    running = stream(cluster, {A0: 4, A1: 3})
    with caplog.at_level(logging.WARNING):
        assert running.run() == {A1: [3, 4]}
    assert caplog.text.count("no leader answers for a-0") == 1
    assert running.state == {A0: 4, A1: 5}
    cluster.logs[A0].has_leader = True
    assert running.run() == {A0: list(range(4, 10))}


# --- deleted, recreated and truncated (F27) ---------------------------------------------------------------------------


def test_F27_a_deleted_topic_is_data_loss_and_names_every_partition(cluster):
    running = stream(cluster, **EARLIEST, **EVERY_TRIGGER)
    running.trigger()
    cluster.delete("a")
    with pytest.raises(DataLoss) as caught:
        running.trigger()
    assert [(topic, partition, wanted) for topic, partition, wanted, _ in caught.value.ranges] == [
        ("a", 0, "from offset 10"),
        ("a", 1, "from offset 5"),
    ]


def test_F27_a_deleted_topic_leaves_the_offset_log_if_the_user_wants_to_go_on(cluster):
    cluster.create("b", 2)
    running = stream(cluster, subscribe="a,b", **EARLIEST, **EVERY_TRIGGER, **KEEP_GOING)
    running.trigger()
    cluster.delete("a")
    assert running.trigger() == {}
    assert running.state == {B0: 2}
    assert running.planner.losses.count == 2


@pytest.mark.parametrize("restarted", [False, True])
def test_F27_a_recreated_topic_is_recognized_by_its_id(cluster, restarted):
    running = stream(cluster, **EARLIEST, **EVERY_TRIGGER)
    running.trigger()
    cluster.recreate("a", 30, 30)
    if restarted:
        again = stream(cluster, running.state, **EVERY_TRIGGER)
        assert again.trigger() == {A0: (10, 30), A1: (5, 30)}, "a restarted query does not know the old id"
        return
    with pytest.raises(DataLoss, match="another topic of the same name"):
        running.trigger()


def test_F27_a_recreated_topic_is_read_from_its_beginning_if_the_user_wants_to_go_on(cluster):
    running = stream(cluster, **EARLIEST, **EVERY_TRIGGER, **KEEP_GOING)
    running.trigger()
    cluster.recreate("a", 30, 3)
    cluster.logs[A0].begin = 4
    assert running.trigger() == {}
    assert running.state == {A0: 4, A1: 0}, "a step of its own in the log, that reads nothing"
    assert running.run() == {A0: list(range(4, 30)), A1: [0, 1, 2]}
    assert running.planner.losses.count == 2


def test_F27_a_topic_recreated_with_fewer_partitions_has_lost_the_others(cluster):
    running = stream(cluster, **EARLIEST, **EVERY_TRIGGER, **KEEP_GOING)
    running.trigger()
    cluster.recreate("a", 2)
    running.run()
    assert running.state == {A0: 2}
    assert running.planner.losses.count == 2


def test_F27_a_partition_at_offset_0_has_lost_nothing_when_its_topic_is_recreated(cluster):
    cluster.create("b", 0)
    running = stream(cluster, subscribe="b", **EARLIEST, **EVERY_TRIGGER)
    running.trigger()
    cluster.recreate("b", 4)
    assert running.run() == {B0: [0, 1, 2, 3]}


def test_F27_a_truncated_log_is_found_by_its_leader_epoch(cluster):
    running = stream(cluster, **EARLIEST, **EVERY_TRIGGER)
    running.trigger()
    cluster.truncate(A0, at=7, end=15)
    with pytest.raises(DataLoss, match="a-0: wanted from offset 10, the broker has offsets up to 7 of what was read"):
        running.trigger()


def test_F27_a_truncated_log_is_read_on_where_it_was_truncated_if_the_user_wants_to_go_on(cluster):
    running = stream(cluster, **EARLIEST, **EVERY_TRIGGER, **KEEP_GOING)
    running.trigger()
    cluster.truncate(A0, at=7, end=9)
    assert running.trigger() == {}
    assert running.state == {A0: 7, A1: 5}
    assert running.run() == {A0: [7, 8]}
    assert running.planner.losses.count == 1


def test_F27_the_epochs_of_a_restored_state_come_from_its_group(cluster):
    cluster.groups["g"] = {A0: (8, 0), A1: (1, 0)}
    cluster.logs[A0] = Log(end=12, epoch=1, epoch_ends={0: 6})
    cluster.logs[A1] = Log(end=12, epoch=1, epoch_ends={0: 2})
    options = {"kafka.group.id": "g"}
    with pytest.raises(DataLoss) as caught:
        stream(cluster, {A0: 8, A1: 5}, recall=cluster.commits, **options).trigger()
    [(topic, partition, _, found)] = caught.value.ranges  # the group's offset of a-1 is not that of the state
    assert (topic, partition, found) == ("a", 0, "offsets up to 6 of what was read")


def test_F27_an_open_transaction_below_the_state_is_not_a_truncation():
    cluster = FakeCluster(read_committed=True)
    cluster.create("a", 9)
    cluster.logs[A0].stable_end = 3
    running = stream(cluster, {A0: 9}, **{"kafka.isolation.level": "read_committed"})
    assert running.run() == {}
    cluster.logs[A0] = Log(end=12)
    assert running.run() == {A0: [9, 10, 11]}


def test_F27_retention_past_the_state_is_found_when_the_batch_is_planned(cluster, caplog):
    running = stream(cluster, {A0: 2, A1: 1}, **KEEP_GOING)
    cluster.logs[A0].begin, cluster.logs[A1].begin = 6, 3
    with caplog.at_level(logging.WARNING):
        assert running.trigger() == {A0: (6, 10), A1: (3, 5)}
    assert "a-0: wanted from offset 2, the broker has offsets from 6" in caplog.text
    assert running.planner.losses.count == 2


def test_F27_a_replayed_batch_past_the_end_of_a_log_is_data_loss(cluster):
    start, end = {A0: 5, A1: 5}, {A0: 20, A1: 5}
    with pytest.raises(DataLoss, match="a-0: wanted up to offset 20, the broker has offsets up to 10"):
        stream(cluster, start).ranges(start, end)
    assert stream(cluster, start, **KEEP_GOING).ranges(start, end) == {A0: (5, 10)}


def test_F27_a_topic_deleted_between_the_two_calls_of_a_trigger_is_data_loss(cluster):
    running = stream(cluster, **EARLIEST)
    start = running.planner.initial()
    end = running.planner.latest(dict(start))
    cluster.delete("a")
    with pytest.raises(DataLoss) as caught:
        running.planner.ranges(start, end)
    assert [wanted for _, _, wanted, _ in caught.value.ranges] == ["offsets 0 to 10", "offsets 0 to 5"]


def test_F27_a_loss_counts_once_although_the_batch_is_planned_again(cluster, monkeypatch):
    start, end = {A0: 2, A1: 0}, {A0: 10, A1: 5}
    running = stream(cluster, start, **KEEP_GOING)
    cluster.logs[A0].begin = 4
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "end", _unavailable)
        with pytest.raises(BrokerUnavailable):
            running.ranges(start, end)
    for _ in range(2):
        assert running.ranges(start, end) == {A0: (4, 10), A1: (0, 5)}
    assert running.planner.losses.count == 1


@pytest.mark.parametrize("method", ["begin", "reachable_ends"])
def test_F27_a_recreated_topic_is_not_forgotten_when_a_broker_fails(cluster, monkeypatch, method):
    running = stream(cluster, **EARLIEST, **EVERY_TRIGGER, **KEEP_GOING)
    running.trigger()
    cluster.recreate("a", 30, 30)
    with monkeypatch.context() as patch:
        patch.setattr(cluster, method, _unavailable)
        with pytest.raises(BrokerUnavailable):
            running.trigger()
    assert running.run() == {A0: list(range(30)), A1: list(range(30))}
    assert running.planner.losses.count == 2


def _unavailable(*_):
    raise BrokerUnavailable("no broker answers")


def test_a_topic_that_is_denied_again_and_again_ends_the_trigger(cluster, monkeypatch):
    running = stream(cluster, {A0: 10, A1: 5})

    def deny(*_):
        raise UnknownTopic("a")

    monkeypatch.setattr(cluster, "reachable_ends", deny)
    with pytest.raises(UnknownTopic):
        running.trigger()


# --- topics that come back --------------------------------------------------------------------------------------------


def test_F12_a_topic_that_is_denied_for_a_while_continues_where_it_was(cluster):
    few = {"minOffsetsPerTrigger": "20", "maxTriggerDelay": "60s"}
    running = stream(cluster, **EARLIEST, **EVERY_TRIGGER, **KEEP_GOING, **few)
    running.trigger()
    logs, topic_id = dict(cluster.logs), cluster.topic_ids["a"]
    cluster.delete("a")
    assert running.trigger() == {}, "too few records for a batch: the offset log still has the topic"
    cluster.logs, cluster.topic_ids = logs, {"a": topic_id}
    cluster.logs[A0].end = 35
    assert running.run() == {A0: list(range(10, 35))}


def test_F27_a_topic_recreated_while_the_log_still_has_it_is_read_from_its_beginning(cluster):
    few = {"minOffsetsPerTrigger": "20", "maxTriggerDelay": "60s"}
    running = stream(cluster, **EARLIEST, **EVERY_TRIGGER, **KEEP_GOING, **few)
    running.trigger()
    cluster.delete("a")
    running.trigger()
    cluster.create("a", 30, 1)
    running.later = 61
    seen = running.run()
    running.later = 200
    for tp, offsets in running.run().items():
        seen.setdefault(tp, []).extend(offsets)
    assert seen == {A0: list(range(30)), A1: [0]}


def test_F12_a_topic_that_comes_back_after_the_log_has_dropped_it_is_refused(cluster):
    cluster.create("b", 0)
    running = stream(cluster, subscribe="a,b", **EARLIEST, **EVERY_TRIGGER, **KEEP_GOING)
    running.run()
    logs, ids = dict(cluster.logs), dict(cluster.topic_ids)
    cluster.delete("a")
    running.run()
    assert running.state == {B0: 0}
    cluster.logs, cluster.topic_ids = logs, ids
    for _ in range(2):
        with pytest.raises(PenstockError, match=re.escape('startingOffsets {"a": {"0": 10, "1": 5}}')):
            running.trigger()
    cluster.recreate("a", 3)
    assert running.run() == {A0: [0, 1, 2]}, "another topic of that name starts at its first offset"


# --- Trigger.AvailableNow ---------------------------------------------------------------------------------------------


def test_available_now_reads_to_the_ends_at_its_first_trigger(cluster):
    running = stream(cluster, **EARLIEST, maxOffsetsPerTrigger="6")
    running.planner.prepare_for_available_now()
    running.trigger()
    cluster.logs[A0].end = 100
    seen = sum(len(offsets) for offsets in running.run().values())
    assert seen + 6 == 15
    assert running.planner.at_the_end(running.state, running.planner.latest(dict(running.state)))


def test_F27_available_now_does_not_read_a_topic_that_is_recreated_under_it(cluster):
    running = stream(cluster, **EARLIEST, **KEEP_GOING, maxOffsetsPerTrigger="6")
    running.planner.prepare_for_available_now()
    running.trigger()
    cluster.recreate("a", 30, 30)
    cluster.metadata(("a",))  # a leader that has moved makes the cluster refresh its metadata
    assert running.run() == {}
    assert running.state == {A0: 0, A1: 0}


# --- limits, ends and reports -----------------------------------------------------------------------------------------


def test_the_limit_is_shared_in_proportion_to_the_backlog(cluster):
    running = stream(cluster, **EARLIEST, maxOffsetsPerTrigger="6")
    assert running.trigger() == {A0: (0, 4), A1: (0, 2)}


def test_maxBytesPerTrigger_rests_on_the_size_of_the_next_records(cluster):
    running = stream(cluster, **EARLIEST, maxBytesPerTrigger="600")
    assert running.trigger() == {A0: (0, 4), A1: (0, 2)}
    assert running.planner.sizes.bytes_per_record == {A0: 100.0, A1: 100.0}


def test_a_trigger_with_too_few_records_waits(cluster):
    running = stream(cluster, {A0: 8, A1: 5}, minOffsetsPerTrigger="5", maxTriggerDelay="60s")
    assert running.trigger() == {A0: (8, 10)}, "the first does not wait"
    cluster.logs[A0].end = 12
    assert running.trigger() == {}
    running.later = 61
    assert running.trigger() == {A0: (10, 12)}


def test_an_ending_offset_finishes_the_stream(cluster):
    running = stream(cluster, **EARLIEST, endingOffsets='{"a": {"0": 4, "1": 2}}')
    assert running.planner.finished is False
    assert running.run() == {A0: [0, 1, 2, 3], A1: [0, 1]}
    assert running.planner.finished is True


def test_F4_a_stream_goes_back_to_the_record_by_which_a_deserializer_has_ended_it(cluster):
    ledger = ReportLedger()
    options = parse_options({"kafka.bootstrap.servers": "broker:9092", "subscribe": "a"} | EARLIEST)
    running = PlannedStream(
        lambda clock: StreamPlanner(options, cluster, reports=ledger, deserializer_may_end=True, clock=clock)
    )
    running.trigger()
    ledger.take(TaskReport("a", 0, 0, 10, ended_at=4))
    cluster.logs[A0].end = 20
    assert running.trigger() == {}
    assert running.state == {A0: 4, A1: 5}
    assert running.planner.finished is False
    cluster.logs[A1].end = 8
    assert running.trigger() == {A1: (5, 8)}
    ledger.take(TaskReport("a", 1, 5, 8, ended_at=6))
    running.run()
    assert running.state == {A0: 4, A1: 6}
    assert running.planner.finished is True


# --- what one trigger asks --------------------------------------------------------------------------------------------


def test_an_idle_trigger_asks_for_the_ends_of_logs_and_nothing_else(cluster):
    running = stream(cluster, {A0: 10, A1: 5})
    running.trigger()
    cluster.questions.clear()
    running.trigger()
    assert cluster.questions == ["reachable_ends"]


def test_newest_holds_the_ends_of_logs_and_the_offset_where_no_leader_answers(cluster):
    cluster.logs[A0].has_leader = False
    running = stream(cluster, {A0: 4, A1: 3})
    running.trigger()
    assert running.planner.newest == {A0: 4, A1: 5}
