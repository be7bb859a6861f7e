"""The streamer's rule I3, and rebalances, with a fake connector: failures at every step lose no record."""

from __future__ import annotations

import errno
import logging
import threading
import time

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from chaos.processes import until
from fixtures.streamer import P0, P1, SECONDS, ListSink, committed, running
from penstock import (
    AuthorizationFailed,
    BrokerUnavailable,
    CommitRefused,
    CorruptBatch,
    NoGroupOffset,
    OffsetOutOfRange,
    ParquetSink,
    RowsRefused,
    SinkError,
)
from support.own_logs import own_records

# --- I3: messages ---------------------------------------------------------------------------------------------------


def test_I3_a_message_that_fails_is_logged_with_its_place_skipped_and_counted(fake_connector, caplog):
    sink = ListSink()
    with running(fake_connector, sink, extractor=lambda message: 10 // int(message.value)) as streamer:
        fake_connector.put(1, [b"5", b"0", b"ten", b"2"])
        committed(fake_connector, {P0: 0, P1: 4})
        assert sink.rows == [2, 5]
        assert streamer.metrics().failed == 2
        assert streamer.metrics().dead_lettered == 0
        assert "ten" in streamer.metrics().last_error
    said = [record.getMessage() for record in own_records(caplog) if record.levelno == logging.ERROR]
    assert said == [
        "t-1, offset 1, was skipped. extractor: ZeroDivisionError: integer division or modulo by zero",
        "t-1, offset 2, was skipped. extractor: ValueError: invalid literal for int() with base 10: b'ten'",
    ]


def test_I3_and_goes_to_the_dead_letters_before_the_commit(fake_connector):
    letters = []
    fake_connector.on_commit = lambda offsets: letters or offsets.get(P1, 0) == 0 or pytest.fail("committed first")
    with running(fake_connector, ListSink(), extractor=lambda m: int(m.value), dead_letter=letters.extend) as streamer:
        fake_connector.put(1, [b"5", b"x"])
        committed(fake_connector, {P0: 0, P1: 2})
        assert streamer.metrics().dead_lettered == 1
    [letter] = letters
    assert (letter.topic, letter.partition, letter.offset, letter.timestamp) == ("t", 1, 1, 1_700_000_000_001)
    assert (letter.key, letter.value, letter.headers) == (b"k1", b"x", [("trace", b"1")])
    assert (letter.stage, letter.error) == ("extractor", "ValueError")
    assert "invalid literal" in letter.reason


def test_I3_letters_that_cannot_be_written_hold_the_commit_back_and_are_written_later(fake_connector, caplog):
    letters, down = [], [True, True]

    def write(some):
        if down:
            down.pop()
            raise OSError("no letters today")
        letters.extend(some)

    sink = ListSink()
    with running(fake_connector, sink, extractor=lambda m: int(m.value), dead_letter=write) as streamer:
        fake_connector.put(0, [b"1", b"x"])
        committed(fake_connector, {P0: 2, P1: 0})
        assert streamer.metrics().retries == 2
    assert sink.rows == [1], "rows are not written again because letters fail"
    assert "dead letters cannot be written. Retry after" in caplog.text
    assert [letter.value for letter in letters] == [b"x"]


def test_I3_many_failures_do_not_flood_the_log(fake_connector, caplog):
    with running(fake_connector, ListSink(), extractor=lambda m: int(m.value)):
        fake_connector.put(0, [b"x"] * 500 + [b"1"])
        committed(fake_connector, {P0: 501, P1: 0})
    said = [record.getMessage() for record in own_records(caplog) if record.levelno == logging.ERROR]
    assert len(said) == 11
    assert "490 more of the next 501 messages failed" in said[-1]


@pytest.mark.parametrize("extracts", ["row", "batch"])
def test_an_extractor_that_fails_on_everything_fails_the_streamer(fake_connector, extracts):
    def broken(_):
        raise KeyError("valeu")

    with running(fake_connector, ListSink(), extractor=broken, extracts=extracts, max_failures=100) as streamer:
        for _ in range(30):
            fake_connector.put(0, [b"x"] * 10)
        with pytest.raises(SinkError, match=r"consecutive messages failed in the extractor.*valeu"):
            streamer.wait(SECONDS)
    assert fake_connector.committed.get(P0, 0) <= 110


# --- I3: the sink ---------------------------------------------------------------------------------------------------


def test_I3_a_sink_that_is_down_for_a_while_gets_every_row_once(fake_connector, caplog):
    sink = ListSink()
    down = [OSError("no route to the database")] * 3

    def trouble(rows):
        if down:
            raise down.pop()

    sink.trouble = trouble
    with running(fake_connector, sink) as streamer:
        fake_connector.put(0, [b"a", b"b"])
        committed(fake_connector, {P0: 2, P1: 0})
        fake_connector.put(0, [b"c"])
        committed(fake_connector, {P0: 3, P1: 0})
        assert streamer.metrics().retries == 3
    assert sink.rows == [b"a", b"b", b"c"]
    assert "the sink does not take rows. Retry after 0.03 s. OSError: no route to the database" in caplog.text


def test_I3_a_disk_that_is_full_for_a_while_has_every_row_once(fake_connector, tmp_path, monkeypatch, caplog):
    full, honest = [OSError(errno.ENOSPC, "No space left on device")] * 3, pq.write_table

    def write_table(table, file, **options):
        if full:
            file.write(b"PAR1")  # as far as it comes
            raise full.pop()
        honest(table, file, **options)

    with running(fake_connector, ParquetSink(tmp_path)) as streamer:
        monkeypatch.setattr(pq, "write_table", write_table)  # after the trial that each sink makes at its start
        fake_connector.put(0, [b"a", b"b"])
        committed(fake_connector, {P0: 2, P1: 0})
        assert streamer.metrics().retries == 3
        fake_connector.put(1, [b"c"])
        committed(fake_connector, {P0: 2, P1: 1})
    assert sorted(ds.dataset(tmp_path).to_table().column("value").to_pylist()) == [b"a", b"b", b"c"]
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".parquet"}
    assert "Retry after 0.03 s. OSError: [Errno 28] No space left on device" in caplog.text


def test_I3_a_sink_that_stays_down_fails_the_streamer_after_so_many_retries(fake_connector):
    sink = ListSink()
    tries = []

    def trouble(rows):
        tries.append(rows)
        raise OSError("gone")

    sink.trouble = trouble
    with running(fake_connector, sink, max_retries=2) as streamer:
        fake_connector.put(0, [b"a"])
        with pytest.raises(SinkError, match=r"after 2 retries.*OSError: gone"):
            streamer.wait(SECONDS)
        assert streamer.error is not None
    assert len(tries) == 3
    assert fake_connector.committed.get(P0, 0) == 0, "its beginning at most"


def test_a_sink_that_is_set_up_wrongly_fails_at_once(fake_connector):
    sink = ListSink()

    def trouble(rows):
        raise SinkError("table 't' has no column 'x'")

    sink.trouble = trouble
    with running(fake_connector, sink) as streamer:
        fake_connector.put(0, [b"a"])
        with pytest.raises(SinkError, match="no column"):
            streamer.wait(SECONDS)
        assert streamer.metrics().retries == 0


def test_a_row_that_the_sink_refuses_is_found_and_dead_lettered_and_the_others_are_written_once(fake_connector):
    sink = ListSink()
    letters = []

    def trouble(rows):
        if b"bad" in rows:
            raise RowsRefused("a null where none may be")

    sink.trouble = trouble
    values = [b"%d" % n for n in range(100)]
    values[17] = values[80] = b"bad"
    with running(fake_connector, sink, dead_letter=letters.extend) as streamer:
        fake_connector.put(0, values)
        committed(fake_connector, {P0: 100, P1: 0})
        assert (streamer.metrics().failed, streamer.metrics().dead_lettered) == (2, 2)
    assert sorted(sink.rows, key=int) == [v for v in values if v != b"bad"]
    assert [(letter.offset, letter.stage) for letter in letters] == [(17, "sink"), (80, "sink")]


def test_a_sink_that_refuses_everything_fails_the_streamer(fake_connector):
    sink = ListSink()

    def trouble(rows):
        raise RowsRefused("incorrect binary data format")

    sink.trouble = trouble
    with running(fake_connector, sink, max_failures=20) as streamer:
        fake_connector.put(0, [b"x"] * 100)
        with pytest.raises(SinkError, match="21 consecutive messages failed in the sink"):
            streamer.wait(SECONDS)
    assert fake_connector.committed.get(P0, 0) == 0


# --- I3: the stream -------------------------------------------------------------------------------------------------


def test_I3_an_error_on_the_stream_is_retried_and_other_partitions_go_on(fake_connector, caplog):
    sink = ListSink()
    with running(fake_connector, sink, retry_timeout=0.2) as streamer:
        fake_connector.put(0, [b"a"])
        fake_connector.raise_at(0, CorruptBatch("t", 0, 1, 0, "CRC is wrong"))
        fake_connector.put(1, [b"b"])
        assert until(lambda: len(sink.rows) == 2, SECONDS)
        assert until(lambda: fake_connector.seeks == [{P0: 1}], SECONDS)
        assert streamer.metrics().retries == 1
    assert "t-0 cannot be read. Retry after 0.2 s. CorruptBatch" in caplog.text


def test_I3_an_error_that_stays_fails_the_streamer(fake_connector):
    with running(fake_connector, ListSink(), max_retries=1) as streamer:
        for _ in range(2):
            fake_connector.raise_at(0, CorruptBatch("t", 0, 1, 0, "CRC is wrong"))
        with pytest.raises(CorruptBatch):
            streamer.wait(SECONDS)


def test_an_error_of_a_revoked_partition_is_ignored(fake_connector, caplog):
    sink = ListSink()
    with running(fake_connector, sink) as streamer:
        fake_connector.raise_at(0, CorruptBatch("t", 8, 1, 0, "CRC is wrong"))
        fake_connector.put(0, [b"a"])
        committed(fake_connector, {P0: 1, P1: 0})
        assert streamer.metrics().retries == 0


def test_I3_errors_that_the_connector_recovers_from_are_logged_and_counted(fake_connector, caplog):
    sink = ListSink()
    with running(fake_connector, sink, max_retries=2) as streamer:
        for _ in range(3):
            for _ in range(2):
                fake_connector.raise_at(0, AuthorizationFailed("topic t"))
            fake_connector.put(0, [b"a"])
        committed(fake_connector, {P0: 3, P1: 0})
        assert streamer.metrics().retries == 6
        for _ in range(3):
            fake_connector.raise_at(0, AuthorizationFailed("topic t"))
        with pytest.raises(AuthorizationFailed):
            streamer.wait(SECONDS)


@pytest.mark.parametrize("error", [OffsetOutOfRange("t", 0, 5, "9 to 12"), NoGroupOffset("g", [("t", 0)])])
def test_an_error_by_auto_offset_reset_none_fails_the_streamer_at_once(fake_connector, error):
    with running(fake_connector, ListSink()) as streamer:
        fake_connector.raise_at(0, error)
        with pytest.raises(type(error)):
            streamer.wait(SECONDS)


def test_what_ends_the_connector_fails_the_streamer(fake_connector):
    sink = ListSink()
    with running(fake_connector, sink, flush_interval=60) as streamer:
        fake_connector.put(0, [b"a"])
        assert until(lambda: fake_connector.position()[P0] == 1, SECONDS)
        fake_connector.failure = BrokerUnavailable("no rebalance has worked")
        with pytest.raises(BrokerUnavailable, match="no rebalance"):
            streamer.wait(SECONDS)


# --- commits --------------------------------------------------------------------------------------------------------


def test_a_commit_that_fails_is_tried_again_and_stops_nothing(fake_connector, caplog):
    sink = ListSink()
    down = [BrokerUnavailable("no coordinator")] * 2

    def trouble(offsets):
        if down:
            raise down.pop()

    fake_connector.on_commit = trouble
    with running(fake_connector, sink) as streamer:
        fake_connector.put(0, [b"a"])
        committed(fake_connector, {P0: 1, P1: 0})
        assert streamer.metrics().commits_failed == 2
    assert sink.rows == [b"a"]
    assert "the commit failed" in caplog.text


def test_a_refused_commit_is_logged_and_the_next_one_succeeds(fake_connector, caplog):
    sink = ListSink()
    refused = [CommitRefused("g", "it is rebalancing")]

    def trouble(offsets):
        if offsets.get(P0) == 1 and refused:
            raise refused.pop()

    fake_connector.on_commit = trouble
    with running(fake_connector, sink):
        fake_connector.put(0, [b"a"])
        assert until(lambda: not refused, SECONDS)
        fake_connector.put(0, [b"b"])
        committed(fake_connector, {P0: 2, P1: 0})
    assert "may be read again" in caplog.text


# --- rebalances -----------------------------------------------------------------------------------------------------


def test_held_records_of_revoked_partitions_are_written_and_committed_first(fake_connector):
    sink = ListSink()
    with running(fake_connector, sink, threads=2, flush_rows=10**6, flush_interval=60):
        fake_connector.put(0, [b"a", b"b"])
        fake_connector.put(1, [b"c"])
        assert until(lambda: fake_connector.position() == {P0: 2, P1: 1}, SECONDS)
        assert sink.rows == []
        fake_connector.release([0, 1])
        assert sorted(sink.rows) == [b"a", b"b", b"c"]
        assert fake_connector.committed == {P0: 2, P1: 1}


def test_of_a_batch_in_the_middle_only_what_went_through_is_written_and_committed(fake_connector, monkeypatch):
    """The position of the consumer is past the whole batch then."""
    monkeypatch.setattr("penstock.streamer.extraction.MessageExtraction.slice", 2)
    sink = ListSink()
    reached, go_on = threading.Event(), threading.Event()

    def slow(message):
        if message.offset == 3:
            reached.set()
            assert go_on.wait(SECONDS)
        return message.value

    with running(fake_connector, sink, extractor=slow, flush_interval=60):
        fake_connector.put(0, [b"%d" % n for n in range(10)])
        assert reached.wait(SECONDS)
        leaving = threading.Thread(target=fake_connector.release, args=[[0]])
        leaving.start()
        until(lambda: fake_connector.listener._streamer._workers[0]._revocations, SECONDS)
        go_on.set()
        leaving.join(SECONDS)
        assert sink.rows == [b"0", b"1", b"2", b"3"]
        assert fake_connector.committed[P0] == 4
    assert len(sink.rows) == 4, "the rest of the batch belongs to the new owner"


@pytest.mark.parametrize("why", ["interval", "stop", "rebalance"])
def test_a_slow_extractor_does_not_delay_due_work(fake_connector, monkeypatch, why):
    """A slice of it would take minutes."""
    monkeypatch.setattr("penstock.streamer.worker.SLICE_SECONDS", 0.05)
    sink, begun = ListSink(), threading.Event()

    def slow(message):
        begun.set()
        time.sleep(0.02)
        return message.value

    with running(fake_connector, sink, extractor=slow, flush_interval=0.1 if why == "interval" else 60) as streamer:
        fake_connector.put(0, [b"%d" % n for n in range(5000)])
        assert begun.wait(SECONDS)
        if why == "interval":
            assert until(lambda: sink.rows, SECONDS)
        elif why == "rebalance":
            fake_connector.release([0])
        streamer.stop()
    assert 0 < len(sink.rows) < 5000
    assert fake_connector.committed[P0] == len(sink.rows)


def test_a_sink_that_is_down_does_not_hold_partitions_back_that_leave(fake_connector, caplog):
    sink = ListSink()
    down = threading.Event()
    down.set()
    tried = threading.Event()

    def trouble(rows):
        if down.is_set():
            tried.set()
            raise OSError("gone")

    sink.trouble = trouble
    with running(fake_connector, sink, retry_timeout=60):
        fake_connector.put(0, [b"a"])
        fake_connector.put(1, [b"b"])
        assert tried.wait(SECONDS)
        began = time.monotonic()
        fake_connector.release([0])
        assert time.monotonic() - began < SECONDS
        down.clear()
        fake_connector.listener._streamer._workers[0].wake()
        assert until(lambda: fake_connector.committed.get(P1) == 1, SECONDS), fake_connector.committed
        assert fake_connector.committed.get(P0, 0) == 0, "its beginning at most"
    assert sink.rows == [b"b"], "the new owner writes the revoked partition"
    assert "1 records of t-0 are not written and will be read again" in caplog.text


def test_a_thread_that_hangs_is_not_waited_for_longer_than_allowed(fake_connector, monkeypatch, caplog):
    monkeypatch.setattr("penstock.streamer.streamer.REVOKE_SECONDS", 0.1)
    sink = ListSink()
    hanging, go_on = threading.Event(), threading.Event()

    def trouble(rows):
        hanging.set()
        assert go_on.wait(SECONDS)

    sink.trouble = trouble
    with running(fake_connector, sink):
        fake_connector.put(0, [b"a"])
        assert hanging.wait(SECONDS)
        fake_connector.release([0])
        assert "did not write its records of revoked partitions within 0.1 s" in caplog.text
        # It comes back to the same stream, from the last commit, and goes on before the thread knows.
        fake_connector.assign([0])
        fake_connector.put(0, [b"a", b"b"])
        go_on.set()
        committed(fake_connector, {P0: 2, P1: 0})
    assert sink.rows == [b"a", b"a", b"b"], "at least once, and nothing of the second time is lost"


def test_a_partition_assigned_again_starts_at_the_committed_offset(fake_connector):
    sink = ListSink()
    with running(fake_connector, sink):
        fake_connector.put(0, [b"a", b"b", b"c"])
        committed(fake_connector, {P0: 3, P1: 0})
        fake_connector.release([0])
        fake_connector.assign([0], starts={0: 1})
        fake_connector.put(0, [b"b"])
        committed(fake_connector, {P0: 2, P1: 0})


@pytest.mark.parametrize("middle_of_a_batch", [False, True])
def test_dropped_records_are_not_committed_while_the_consumer_still_lists_their_partition(
    fake_connector, monkeypatch, middle_of_a_batch
):
    """Its position counts records that were read, and a worker may look at it before the revocation ends."""
    monkeypatch.setattr("penstock.streamer.extraction.MessageExtraction.slice", 1 if middle_of_a_batch else 100)
    sink = ListSink()
    down, busy, ticks = threading.Event(), threading.Event(), []
    if not middle_of_a_batch:
        down.set()

    def trouble(rows):
        busy.set()
        if down.is_set():
            raise OSError("gone")

    def slow(message):
        if middle_of_a_batch and message.offset == 1:
            busy.set()
            assert until(lambda: worker._revocations, SECONDS)
        return message.value

    def linger():
        down.clear()
        worker.wake()
        honest = worker._stop_at_the_end  # called at every idle tick
        monkeypatch.setattr(worker, "_stop_at_the_end", lambda: (ticks.append(1), honest()))
        assert until(lambda: len(ticks) > 3, SECONDS)

    sink.trouble = trouble
    with running(fake_connector, sink, extractor=slow, partitions=[0], retry_timeout=60) as streamer:
        [worker] = streamer._workers
        fake_connector.put(0, [b"a", b"b", b"c"])
        assert busy.wait(SECONDS)
        fake_connector.linger = linger
        fake_connector.release([0])
    assert fake_connector.committed.get(P0, 0) == len(sink.rows) == (2 if middle_of_a_batch else 0)
