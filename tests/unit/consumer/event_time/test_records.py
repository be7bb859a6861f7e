"""Streams with event time: the watermarks of each batch, and that no record is lost (E1, E2, E5,
F19)."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from hostile.record_batches import BASE_TIME, TOPIC
from penstock import ConsumerTimeout, EventBatch, EventTimeError, WatermarkStrategy
from penstock.consumer.event_time.batch import as_datetime
from penstock.eventtime.times import EventTimes
from support.fed_event_stream import ALIGNED, IDLE, MONOTONOUS, Fed, after, odd, times_of, until_time_out


def test_E2_a_batch_has_the_combined_watermark_after_it_and_that_of_its_partition():
    fed = Fed(WatermarkStrategy.bounded("10ms"))
    fed.put(0, 100, 130, 110)
    fed.put(1, 50)
    fed.put(0, 90)
    fed.put(1, 500)
    assert fed.batches() == [
        (0, [100, 130, 110], None, 119),
        (1, [50], 39, 39),
        (0, [90], 39, 119),
        (1, [500], 119, 489),
    ]
    assert fed.combined == 119


def test_F19_watermarks_are_of_the_connector_and_not_of_a_stream():
    fed = Fed(streams=2)
    fed.put(0, 100)
    fed.put(1, 70)
    assert fed.batches(stream=0) == [(0, [100], None, 99)]
    assert fed.batches(stream=1) == [(1, [70], 69, 69)]


def test_F19_the_watermark_covers_a_batch_when_its_reader_asks_for_more():
    fed = Fed(streams=2)
    for partition in range(2):
        fed.put(partition, 100)
    first, second = (next(stream.batches()) for stream in fed.streams)
    assert after(first.watermark) is after(second.watermark) is None, (
        "each without the batch that the other thread works on"
    )
    assert fed.combined is None
    fed.ask_for_more(0)
    assert fed.combined is None
    fed.ask_for_more(1)
    assert fed.combined == 99
    fed.put(0, 150)
    assert after(next(fed.stream.batches()).partition_watermark) == 149
    assert fed.event_time.status().partitions[fed.cursors[0].tp].watermark == BASE_TIME + 99


def test_E2_a_batchs_watermark_holds_even_if_a_partition_stops_being_idle_meanwhile():
    fed = Fed(IDLE)
    fed.put(0, 100)
    fed.put(1, 100)
    fed.batches()
    fed.look(1)
    fed.clock.now += 6
    fed.look(1)
    fed.put(0, 500)
    batches = until_time_out(fed.stream.batches(["partition"]))
    assert after(next(batches).watermark) == 499, "the other one is idle"
    fed.put(1, 300)
    fed.look()
    batch = next(batches)
    assert (batch["partition"][0].as_py(), after(batch.watermark), batch.late) == (1, 499, 1)


def test_E2_a_batch_of_a_partition_that_was_revoked_and_assigned_again_does_not_move_its_watermark():
    fed = Fed(partitions=1)
    fed.put(0, 500)
    tp = fed.cursors[0].tp
    next(fed.stream.batches())
    fed.reader.revoke(fed.cursors[0])
    fed.event_time.set_partitions([])
    fed.event_time.set_partitions([tp])
    fed.ask_for_more()
    assert fed.event_time.status().partitions[tp].watermark is None
    assert fed.combined == 499, "a watermark that was handed out holds"


def test_what_interrupts_a_hand_out_loses_no_batch_and_counts_none_twice():
    fed = Fed(IDLE, partitions=1)
    fed.put(0, 7)
    fed.batches()
    fed.put(0, 5)
    count = fed.reader._on_consumed

    def interrupted(*_):
        fed.reader._on_consumed = count
        raise KeyboardInterrupt

    fed.reader._on_consumed = interrupted
    with pytest.raises(KeyboardInterrupt):
        next(fed.stream.batches())
    assert fed.batches() == [(0, [5], 6, 6)]
    assert fed.event_time.late == 1
    assert not fed.cursors[0].in_use


def test_E2_assigning_or_revoking_a_partition_never_sets_the_combined_watermark_back():
    fed = Fed()
    fed.put(0, 100)
    fed.put(1, 70)
    fed.batches()
    assert fed.combined == 69
    fed.event_time.set_partitions([fed.cursors[0].tp])
    assert fed.combined == 99, "a revoked partition holds no other"
    fed.event_time.set_partitions([cursor.tp for cursor in fed.cursors])
    fed.put(1, 80)
    assert fed.batches() == [(1, [80], 99, 79)]
    assert fed.event_time.late == 1


def test_E1_messages_move_the_watermark_when_their_batch_is_handed_out():
    fed = Fed(partitions=1)
    fed.put(0, 10, 20, 30)
    fed.put(0, 40)
    assert fed.messages(2) == [(0, 10), (0, 20)]
    assert fed.combined is None, "not for messages that were not handed out yet"
    fed.reader.pause(fed.cursors[0])
    assert fed.combined == 19, "and not for those that wait"
    fed.reader.resume(fed.cursors[0])
    assert fed.messages() == [(0, 30), (0, 40)]
    assert fed.combined == 39
    assert fed.reader.position(fed.cursors[0]) == 4


def test_E1_a_punctuated_watermark_comes_from_the_records_alone():
    fed = Fed(WatermarkStrategy.punctuated(odd), partitions=1)
    fed.put(0, 100, 101, 200)
    fed.put(0, 300)
    fed.put(0, 51)
    found = [(times_of(batch), after(batch.watermark)) for batch in until_time_out(fed.stream.batches())]
    assert found == [([100, 101, 200], 101), ([300], 101), ([51], 101)]


def test_E5_late_records_are_counted_with_their_batch_and_in_all():
    fed = Fed(partitions=1)
    fed.put(0, 100, 200)
    fed.put(0, 199, 200, 150, 201)
    late = [batch.late for batch in until_time_out(fed.stream.batches())]
    assert late == [0, 2]
    assert fed.event_time.late == 2


def test_a_strategys_function_that_fails_is_called_again_and_nothing_is_lost():
    broken = [True]

    def times(batch):
        if broken[0]:
            raise ZeroDivisionError("no")
        return batch["timestamp"]

    fed = Fed(MONOTONOUS.with_timestamps(times), partitions=1)
    fed.put(0, 10, 20)
    place = f"{TOPIC}-0, 2 records from offset 0 on: function .*ZeroDivisionError: no.*seek"
    for _ in range(2):
        with pytest.raises(EventTimeError, match=place) as caught:
            next(fed.stream.batches())
    assert "ZeroDivisionError" in pickle.loads(pickle.dumps(caught.value)).details
    broken[0] = False
    assert next(fed.stream.batches()).num_rows == 2
    broken[0] = True
    fed.put(0, 30)
    with pytest.raises(EventTimeError, match="1 record from offset 2 on"):
        next(fed.stream)
    fed.reader.move(fed.cursors[0], 3)
    fed.put(0, 40)
    broken[0] = False
    assert fed.messages() == [(0, 40)], "what was passed over is gone"


def test_batches_have_the_selected_columns():
    fed = Fed(MONOTONOUS.with_alignment("1h"), partitions=1)
    fed.put(0, 10)
    fed.put(0, 20)
    assert next(fed.stream.batches(["value"])).schema.names == ["value"]
    assert next(fed.stream.batches(["offset", "key"])).schema.names == ["offset", "key"]


def test_a_column_that_has_no_time_is_refused_when_streams_are_made_and_one_that_messages_lack_when_they_are_read():
    with pytest.raises(EventTimeError, match="value is of type binary and has no fields"):
        Fed(MONOTONOUS.with_timestamps("value.created"))
    with pytest.raises(EventTimeError, match="string"):
        Fed(MONOTONOUS.with_timestamps("topic"))
    fed = Fed(MONOTONOUS.with_timestamps("offset"))
    fed.put(0, 10)
    batch = next(fed.stream.batches(["key"]))
    assert (batch.schema.names, after(batch.partition_watermark)) == (["key"], -1 - BASE_TIME)


def test_E5_records_are_late_by_the_watermark_that_was_reached_when_they_were_handed_out():
    fed = Fed(streams=2)
    fed.put(0, 200)
    fed.put(1, 50)
    for stream in range(2):
        fed.batches(stream=stream)
    fed.put(0, 150)
    assert next(fed.streams[0].batches()).late == 0
    fed.put(1, 180)
    fed.batches(stream=1)
    fed.ask_for_more(0)
    assert (fed.combined, fed.event_time.late) == (179, 0)


def test_E2_a_seek_back_sets_no_watermark_back_and_repeated_records_are_late():
    fed = Fed(partitions=1)
    fed.put(0, 100, 200)
    fed.batches()
    fed.reader.move(fed.cursors[0], 0)
    fed.put(0, 100, 200)
    batch = next(fed.stream.batches())
    assert (after(batch.watermark), after(batch.partition_watermark), batch.late) == (199, 199, 1)
    fed.ask_for_more()
    assert (fed.combined, fed.event_time.late) == (199, 1)


def test_a_batch_is_accepted_as_arrow_data():
    records = pa.record_batch({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    batch = EventBatch(records, EventTimes(pa.array([1, None, 2000], pa.int64()), "test"), 1999, 1999, late=1)
    assert pa.record_batch(batch) == records
    assert pa.schema(batch) == records.schema
    assert batch.watermark == batch.partition_watermark == datetime(1970, 1, 1, 0, 0, 1, 999000, tzinfo=UTC)
    assert batch.event_times.to_pylist()[1:] == [None, datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)]
    assert (len(batch), batch.num_rows, batch.num_columns, batch.schema.names) == (3, 3, 2, ["a", "b"])
    assert batch["a"] == batch.column("a") == batch.columns[0] == records["a"]
    assert batch.slice(1, 1) == records.slice(1, 1)
    assert batch.select(["b"]).to_pylist() == [{"b": "x"}, {"b": "y"}, {"b": "z"}]
    assert batch.to_pydict() == {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    assert batch.to_pandas().shape == (3, 2)
    assert "3 rows" in repr(batch)
    with pytest.raises(AttributeError):
        _ = batch.nothing


def test_a_watermark_outside_of_pythons_years_is_the_last_datetime():
    assert as_datetime(2**62) == datetime.max.replace(tzinfo=UTC)
    assert as_datetime(-(2**62)) == datetime.min.replace(tzinfo=UTC)


@pytest.mark.parametrize("strategy", [MONOTONOUS, ALIGNED])
def test_E2_F28_a_predicate_does_not_stop_a_watermark(strategy):
    """Rows that do not meet it move event time, and alignment counts them."""
    fed = Fed(strategy)
    for time in (10, 20, 30):
        fed.put(0, time)
        fed.put(1, time, time + 5)
    with pytest.raises(ConsumerTimeout):
        next(fed.stream.batches(["partition"], where="offset < 0"))
    fed.ask_for_more()
    assert fed.combined == 29


def test_E5_F28_a_batch_has_the_event_times_of_the_rows_that_pass():
    fed = Fed(partitions=1)
    fed.put(0, 10, 20, 30)
    [batch] = until_time_out(fed.stream.batches(["offset"], where="value = '20'"))
    assert (batch.column("offset").to_pylist(), times_of(batch), after(batch.watermark)) == ([1], [20], 29)
    assert batch.schema.names == ["offset"]
