"""Event time in the planner, against a real broker: held and idle partitions, and what a replay knows. The `stream`
fixture plays Spark's part; no task tells anything here, so the planner asks the broker."""

from __future__ import annotations

import pytest
from kafka import KafkaProducer

from fixtures.produce import Rec
from fixtures.stream import EVERY_TRIGGER, HOUR, NOW, tp
from penstock.model.task_report import TaskReport
from penstock.planner.report_ledger import ReportLedger
from penstock.planner.stream import StreamPlanner

MINUTE = 60_000
START = NOW - 48 * HOUR
ALIGNED = {"startingOffsets": "earliest", "eventTime.maxDrift": "1h"}


def timed(count: int, partition: int = 0, start: int = START, gap: int = MINUTE) -> list[Rec]:
    """Records at regular intervals from a time on."""
    return [Rec(b"v", timestamp=start + i * gap, partition=partition) for i in range(count)]


def without_leader(running, partition):
    """From now on no broker answers for this partition."""
    cluster = running.planner.cluster
    ask = cluster.reachable_ends

    def reachable_ends(partitions, wait_for):
        return {each: end for each, end in ask(partitions, wait_for).items() if each.partition != partition}

    cluster.reachable_ends = reachable_ends


def lengths(read):
    return {each.partition: len(offsets) for each, offsets in read.items()}


# --- E4: partitions that wait -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, "3"])
def test_E4_available_now_reads_what_it_can_although_a_partition_has_no_leader(stream, topic, produce, limit):
    name = topic(partitions=2)
    produce(name, timed(5) + timed(5, partition=1))
    running = stream(subscribe=name, **ALIGNED, **({"maxOffsetsPerTrigger": limit} if limit else {}))
    running.planner.prepare_for_available_now()
    without_leader(running, 0)
    assert running.run() == {tp(name, 1): [0, 1, 2, 3, 4]}


def test_E4_a_partition_that_joins_is_waited_for_before_any_of_it_is_read(stream, topic, produce, operator):
    name = topic(partitions=1)
    produce(name, timed(100, gap=10 * MINUTE))
    running = stream(state={tp(name): 1}, subscribe=name, **ALIGNED, **EVERY_TRIGGER)
    running.planner.latest(dict(running.state))
    operator.grow(name, 2)
    produce(name, timed(100, partition=1, gap=10 * MINUTE))
    # Its beginning comes into the log first, and nothing of it is read: the other may go on by the drift alone.
    assert running.trigger() == {tp(name): (1, 7)}
    assert running.state == {tp(name): 7, tp(name, 1): 0}
    assert running.trigger() == {tp(name): (7, 100), tp(name, 1): (0, 100)}


def test_E4_a_partition_whose_beginning_was_deleted_is_held_too(stream, topic, produce, operator):
    """The broker finds the limit in the segment that is deleted, and says that nothing is so late."""
    name = topic(partitions=2, segment_ms=HOUR)
    produce(name, timed(5))
    produce(name, timed(5, partition=1, start=START + 2 * HOUR))
    produce(name, timed(5, partition=1, start=START + 10 * HOUR))
    operator.delete_records(name, {1: 5})
    running = stream(subscribe=name, **ALIGNED, **{"eventTime.idleness": "never"})
    assert running.trigger() == {tp(name): (0, 5)}
    produce(name, timed(5, start=START + 10 * HOUR))
    assert running.trigger() == {tp(name): (5, 10), tp(name, 1): (5, 10)}


def test_E4_a_partition_ended_by_its_deserializer_holds_back_no_others(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, timed(5) + timed(5, partition=1))
    running = stream(subscribe=name, **ALIGNED, **{"eventTime.idleness": "never"})
    ledger = ReportLedger()
    running.planner = StreamPlanner.connect(
        running.planner.options, clock=running.now, reports=ledger, deserializer_may_end=True
    )
    [ended] = [each for each in planned(running) if each.partition == 0]
    ledger.take(TaskReport(name, 0, ended.start, ended.stop, ended_at=4))
    assert running.trigger() == {}
    assert running.state == {tp(name): 4, tp(name, 1): 5}
    produce(name, timed(5, partition=1, start=START + 5 * HOUR))
    assert running.trigger() == {tp(name, 1): (5, 10)}


def planned(running):
    """The ranges of a trigger, as they are."""
    end = running.planner.latest(start := running.planner.initial())
    running.state = end
    return running.planner.ranges(start, end)


def test_E4_a_recreated_topic_is_waited_for_from_its_beginning(stream, topic, produce, operator):
    again, other = topic(partitions=1), topic(partitions=1)
    produce(again, timed(100, start=START + 20 * HOUR))
    produce(other, timed(5, start=START + 20 * HOUR))
    running = stream(subscribe=f"{again},{other}", failOnDataLoss="false", **ALIGNED, **EVERY_TRIGGER)
    running.run()
    operator.recreate(again)
    produce(again, timed(150))  # the history, loaded again
    produce(other, timed(10, start=START + 22 * HOUR))
    read = [running.trigger(), running.trigger(), running.trigger()]
    assert read == [{}, {tp(again): (0, 150)}, {}], "the other lies 20 hours ahead of it"
    assert running.planner.alignment.status().held == [tp(other)]


def test_E4_partitions_of_several_topics_wait_for_each_other(stream, topic, produce):
    slow, fast = topic(partitions=1), topic(partitions=1)
    produce(slow, timed(3))
    produce(fast, timed(300))
    running = stream(subscribe=f"{slow},{fast}", **ALIGNED)
    assert running.trigger() == {tp(slow): (0, 3), tp(fast): (0, 63)}
    assert running.planner.alignment.status().held == [tp(fast)]


def test_E4_a_partition_at_its_ending_offset_holds_back_no_others(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, timed(5) + timed(10, partition=1, gap=HOUR))
    ending = f'{{"{name}": {{"0": 2, "1": 9}}}}'
    running = stream(subscribe=name, endingOffsets=ending, **ALIGNED, **{"eventTime.idleness": "never"})
    assert running.trigger() == {tp(name): (0, 2), tp(name, 1): (0, 2)}
    assert running.trigger() == {tp(name, 1): (2, 9)}
    assert running.planner.finished


def test_E4_with_a_limit_of_bytes_both_apply(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, timed(50) + timed(50, partition=1, start=START + 5 * HOUR))
    running = stream(subscribe=name, maxBytesPerTrigger="200", **ALIGNED)
    running.planner.prepare_for_available_now()
    assert lengths(running.run(100)) == {0: 50, 1: 50}
    assert len(running.read) > 2, "the limit of bytes was kept"
    with_second = [number for number, batch in enumerate(running.read) if tp(name, 1) in batch]
    assert running.read[with_second[0] - 1][tp(name)][1] == 50, "it lies five hours ahead, and waits for all of these"


def test_E4_a_minimum_of_offsets_counts_what_may_be_read(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, timed(1) + timed(1, partition=1))
    running = stream(subscribe=name, minOffsetsPerTrigger="10", maxTriggerDelay="5m", **ALIGNED)
    assert running.trigger() == {tp(name): (0, 1), tp(name, 1): (0, 1)}, "the first trigger does not wait"
    produce(name, timed(1, start=START + MINUTE) + timed(50, partition=1, start=START + 5 * HOUR))
    assert running.trigger() == {}, "of the 51 records only one may be read now"
    running.later = 301
    assert running.trigger() == {tp(name): (1, 2)}
    running.later = 302
    assert running.trigger() == {}, "the partition that is waited for is not idle yet"
    running.later = 400
    assert running.trigger() == {tp(name, 1): (1, 51)}


# --- E3: partitions that others wait for ------------------------------------------------------------------------------


def test_E3_a_partition_whose_leader_is_away_is_waited_for_longer_than_the_idle_time_out(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, timed(100) + timed(100, partition=1))
    running = stream(state={tp(name): 10, tp(name, 1): 10}, subscribe=name, maxOffsetsPerTrigger="20", **ALIGNED)
    assert running.trigger() == {tp(name): (10, 20), tp(name, 1): (10, 20)}
    ask = running.planner.cluster.reachable_ends
    without_leader(running, 0)
    read = []
    for _ in range(5):
        running.later += 61
        read.append(running.trigger())
    # Up to an hour ahead of the record at offset 9: what was read since then is unknown.
    assert read == [{tp(name, 1): (20, 40)}, {tp(name, 1): (40, 60)}, {tp(name, 1): (60, 70)}, {}, {}]
    running.planner.cluster.reachable_ends = ask
    assert lengths(running.run()) == {0: 80, 1: 30}


def test_E3_a_partition_that_only_gets_aborted_records_becomes_idle(stream, topic, produce, transaction):
    name = topic(partitions=2)
    produce(name, timed(1) + timed(100, partition=1, gap=10 * MINUTE))
    committed = {"kafka.isolation.level": "read_committed", "eventTime.idleness": "10s"}
    running = stream(subscribe=name, **ALIGNED, **committed)
    for _ in range(4):
        with transaction(name, commit=False) as send:
            send(name, timed(1, start=NOW))
        running.trigger()
        running.later += 20
    assert running.state[tp(name, 1)] == 100
    assert running.planner.alignment.status().idle == [tp(name)]


# --- E2: the watermarks of a batch ------------------------------------------------------------------------------------


def test_E2_a_replayed_batch_has_the_watermarks_of_its_first_plan(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, timed(1) + timed(10, partition=1))
    options = ALIGNED | {"subscribe": name, "eventTime.idleness": "never"}
    start = {tp(name): 1, tp(name, 1): 5}
    first = stream(state=start, **options)
    assert first.trigger() == {tp(name, 1): (5, 10)}
    watermarks = first.planner.watermarks(tp(name, 1))
    assert watermarks == (START - 1, START + 4 * MINUTE - 1)
    # After a crash Spark plans the last batch of its log again, and asks for the next one only then.
    again = stream(state=start, **options)
    again.ranges(start, first.state)
    assert again.planner.watermarks(tp(name, 1)) == watermarks
    again.state = first.state
    produce(name, timed(1, start=START + MINUTE))
    assert again.trigger() == {tp(name): (1, 2)}
    assert again.planner.watermarks(tp(name)) == (START - 1, START - 1)


def test_E2_a_replayed_batch_knows_no_combined_watermark_while_a_partition_does_not_answer(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, timed(1) + timed(10, partition=1))
    start, end = {tp(name): 1, tp(name, 1): 5}, {tp(name): 1, tp(name, 1): 10}
    running = stream(state=start, subscribe=name, **ALIGNED)
    without_leader(running, 0)
    assert running.ranges(start, end) == {tp(name, 1): (5, 10)}
    assert running.planner.watermarks(tp(name, 1)) == (None, START + 4 * MINUTE - 1)


def test_E3_a_replayed_batch_does_not_wait_for_who_was_idle(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, timed(1) + timed(10, partition=1))
    start, end = {tp(name): 1, tp(name, 1): 5}, {tp(name): 1, tp(name, 1): 10}
    running = stream(state=start, subscribe=name, **ALIGNED)  # with idleness: no record came for two days
    running.ranges(start, end)
    assert running.planner.watermarks(tp(name, 1)) == (START + 4 * MINUTE - 1,) * 2


def test_E2_what_is_gone_does_not_stop_a_replay(stream, topic, produce):
    name = topic(partitions=1)
    produce(name, timed(10))
    gone = {tp(name, 7): 3}
    start = {tp(name): 5} | gone
    running = stream(state=start, subscribe=name, failOnDataLoss="false", **ALIGNED)
    assert running.ranges(start, {tp(name): 10} | gone) == {tp(name): (5, 10)}
    assert running.planner.watermarks(tp(name)) == (START + 4 * MINUTE - 1,) * 2


def test_E2_once_reads_all_without_waiting_and_has_the_watermark_of_the_slowest(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, timed(1) + timed(10, partition=1, gap=HOUR))
    running = stream(state={tp(name): 1, tp(name, 1): 5}, subscribe=name, **ALIGNED, **{"eventTime.idleness": "never"})
    assert running.trigger(everything=True) == {tp(name, 1): (5, 10)}
    assert running.planner.watermarks(tp(name, 1)) == (START - 1, START + 4 * HOUR - 1)


def test_E4_a_record_with_the_last_of_all_timestamps_does_not_end_the_query(stream, topic, produce, kafka):
    name = topic(partitions=2, message_timestamp_after_max_ms=2**63 - 1)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    producer.send(name, b"v", partition=0, timestamp_ms=2**63 - 1).get(30)
    producer.close()
    produce(name, timed(3) + timed(3, partition=1))
    for state in (None, {tp(name): 1, tp(name, 1): 0}):
        running = stream(state=state, subscribe=name, **ALIGNED)
        running.planner.prepare_for_available_now()
        running.run()
        assert running.state == {tp(name): 4, tp(name, 1): 3}


def test_F10_event_time_can_be_switched_on_and_off_on_a_checkpoint(stream, topic, produce):
    name = topic(partitions=2)
    produce(name, timed(50) + timed(200, partition=1))
    plain = stream(state={tp(name): 0, tp(name, 1): 0}, subscribe=name, maxOffsetsPerTrigger="50")
    plain.trigger()
    aligned = stream(state=plain.state, subscribe=name, **ALIGNED)
    assert aligned.trigger() == {tp(name): (10, 50), tp(name, 1): (40, 110)}
    assert aligned.planner.watermarks(tp(name)) == (START + 9 * MINUTE - 1, START + 9 * MINUTE - 1)
    assert stream(state=aligned.state, subscribe=name).run() == {tp(name, 1): list(range(110, 200))}
