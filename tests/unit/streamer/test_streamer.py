"""The streamer's rules I1, I2 and I4 with a fake connector: which records are written before which commit."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from chaos.processes import until
from fixtures.streamer import CONFIG, P0, P1, SECONDS, ListSink, committed, running, value
from penstock import (
    AdbcSink,
    OptionError,
    ParquetSink,
    SinkError,
    Streamer,
)
from penstock.streamer.other_members import OtherMembers

# --- I1 -------------------------------------------------------------------------------------------------------------

GOOD = {"topic": "t", "threads": 1, "sink": print, "config": CONFIG}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"topic": ""}, "option topic"),
        ({"topic": None}, "must be the name of a topic"),
        ({"threads": 0}, "option threads = 0: must be a whole number of at least 1"),
        ({"threads": "2"}, "option threads"),
        ({"sink": None}, "option sink: is not a sink"),
        ({"sink": 42}, "option sink = 42"),
        ({"sink": ParquetSink}, "Give an object: ParquetSink"),
        ({"config": None}, "option config: is missing"),
        ({"config": {"group.id": "g"}}, "bootstrap.servers"),
        ({"config": {"bootstrap.servers": "h:1"}}, "group.id"),
        ({"config": CONFIG | {"grup.id": "g"}}, "group.id?"),
        ({"config": CONFIG | {"enable.auto.commit": "true"}}, "it commits what its sink has taken"),
        ({"config": CONFIG | {"consumer.timeout.ms": 5000}}, "it waits until it is stopped"),
        ({"extractor": "value"}, "option extractor"),
        ({"extractor": value, "extracts": "record"}, "row, rows, batch"),
        ({"extractor": value, "sink": ParquetSink("x")}, "option schema: is missing"),
        ({"extractor": value, "schema": {"a": int}}, "must be a pyarrow.Schema"),
        ({"schema": pa.schema([])}, "without an extractor"),
        ({"value_decoder": bytes.decode}, "option value_decoder"),
        ({"extractor": value, "extracts": "batch", "key_decoder": bytes.decode}, "option key_decoder: is for messages"),
        ({"extractor": value, "value_decoder": "json"}, "option value_decoder = 'json': must be a function of bytes"),
        ({"columns": ["vallue"]}, "Did you mean value?"),
        ({"extractor": value, "columns": ["value"]}, "a message has all columns"),
        ({"dead_letter": "t"}, "would return forever"),
        ({"dead_letter": 3}, "option dead_letter = 3"),
        ({"flush_rows": 0}, "option flush_rows"),
        ({"flush_rows": 1e6}, "option flush_rows = .*whole number"),
        ({"flush_interval": "1"}, "option flush_interval"),
        ({"retry_timeout": 0}, "option retry_timeout"),
        ({"retry_timeout": "5"}, "option retry_timeout"),
        ({"max_retries": -1}, "option max_retries"),
        ({"limit": 0}, "option limit"),
    ],
)
def test_I1_a_missing_or_wrong_argument_is_named(wrong, said):
    with pytest.raises(OptionError, match=said.replace("?", r"\?").replace("(", r"\(")):
        Streamer(**(GOOD | wrong))


def test_I1_a_sink_that_cannot_be_opened_fails_the_start_and_leaves_nothing(fake_connector, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="Parquet files cannot be written"):
        Streamer("t", 2, sink=ParquetSink(tmp_path / "file" / "data"), config=CONFIG).start()
    with pytest.raises(SinkError, match="table 'missing' does not exist"):
        Streamer("t", 2, sink=AdbcSink(f"sqlite:{tmp_path}/x.db", "missing"), config=CONFIG).start()
    assert not fake_connector.streams
    assert until(lambda: not [t for t in threading.enumerate() if t.name.startswith("penstock-streamer")], SECONDS)


def test_the_connector_does_not_commit_by_itself(fake_connector):
    with running(fake_connector, ListSink()):
        assert fake_connector.settings["enable.auto.commit"] == "false"


# --- I2 -------------------------------------------------------------------------------------------------------------


def test_I2_each_stream_is_drained_by_a_thread_of_its_own(fake_connector):
    sink = ListSink()
    with running(fake_connector, sink, threads=3, partitions=range(6)):
        for partition in range(6):
            fake_connector.put(partition, [b"%d" % partition])
        assert until(lambda: len(sink.rows) == 6, SECONDS)
        readers = [stream.readers for stream in fake_connector.streams]
        assert all(len(each) == 1 for each in readers)
        assert len(set.union(*readers)) == 3
        assert sink.writers == set.union(*readers)
        assert sink.opened == ["t-0", "t-1", "t-2"]
    assert sink.closed == 3


# --- rows -----------------------------------------------------------------------------------------------------------


def test_without_an_extractor_columns_go_to_the_sink_as_arrow(fake_connector):
    seen = []
    with running(fake_connector, seen.append, columns=["value", "offset"]):
        fake_connector.put(0, [b"a", b"b"])
        assert until(lambda: seen, SECONDS)
    assert seen[0].to_pylist() == [{"value": b"a", "offset": 0}, {"value": b"b", "offset": 1}]


def test_an_extractor_makes_a_row_of_a_message_or_none_or_many(fake_connector):
    rows = []

    def words(message):
        assert (message.topic, message.partition, message.key) == ("t", 0, b"k%d" % message.offset)
        yield from message.value.split()

    with running(fake_connector, rows.extend, extractor=words) as streamer:
        fake_connector.put(0, [b"a b", b"", b"c"])
        committed(fake_connector, {P0: 3, P1: 0})
        assert rows == [b"a", b"b", b"c"]
        assert (streamer.metrics().records, streamer.metrics().rows, streamer.metrics().skipped) == (3, 3, 1)


def test_decoders_work_before_the_extractor(fake_connector):
    rows = []
    with running(fake_connector, rows.extend, extractor=value, value_decoder=int) as streamer:
        fake_connector.put(0, [b"1", b"x", b"3"])
        committed(fake_connector, {P0: 3, P1: 0})
        assert rows == [1, 3]
        assert streamer.metrics().failed == 1


def test_skipped_records_still_move_the_offset(fake_connector):
    sink = ListSink()
    with running(fake_connector, sink, extractor=lambda message: None):
        fake_connector.put(0, [b"a", b"b"])
        committed(fake_connector, {P0: 2, P1: 0})
    assert sink.rows == []


# --- at least once --------------------------------------------------------------------------------------------------


def test_offsets_are_committed_after_the_sink_has_the_rows_and_not_more_than_that(fake_connector):
    sink = ListSink()
    expected: list[tuple[int, int]] = []
    fake_connector.on_commit = lambda offsets: expected.append((sum(offsets.values()), len(sink.rows)))
    with running(fake_connector, sink, flush_rows=3, flush_interval=60):
        fake_connector.put(0, [b"a", b"b"])
        time.sleep(0.1)
        assert (sink.rows, fake_connector.commits) == ([], [])
        fake_connector.put(1, [b"c"])
        committed(fake_connector, {P0: 2, P1: 1})
        fake_connector.put(0, [b"d"])
        assert until(lambda: fake_connector.position()[P0] == 3, SECONDS)
    assert sink.rows == [b"a", b"b", b"c", b"d"]
    assert fake_connector.committed == {P0: 3, P1: 1}
    assert expected == [(3, 3), (3, 4)]


def test_a_gap_after_the_last_record_is_committed_too(fake_connector):
    """Transaction markers, aborted records: without them a group would lag forever."""
    with running(fake_connector, ListSink()):
        fake_connector.put(0, [b"a"], gap=5)
        committed(fake_connector, {P0: 6, P1: 0})


def test_where_a_partition_begins_is_committed_before_its_first_record(fake_connector):
    """A group that begins at the end would skip records between a crash and the next start."""
    with running(fake_connector, ListSink(), partitions=()):
        fake_connector.assign([0], starts={0: 100})
        committed(fake_connector, {P0: 100})


def test_bytes_and_rows_and_time_each_make_a_thread_write(fake_connector):
    for limit in ({"flush_rows": 2}, {"flush_bytes": 100}, {"flush_interval": 0.01}):
        fake_connector.__init__()
        sink = ListSink()
        with running(
            fake_connector, sink, **({"flush_rows": 10**9, "flush_bytes": 10**9, "flush_interval": 60} | limit)
        ):
            fake_connector.put(0, [b"x" * 60, b"y" * 60])
            assert until(lambda sink=sink: sink.rows, SECONDS), limit


# --- I4 and other ends ----------------------------------------------------------------------------------------------


def test_I4_stop_ends_the_threads_writes_what_they_have_then_commits(fake_connector):
    order = []
    sink = ListSink()
    sink.trouble = lambda rows: order.append("write")
    fake_connector.on_commit = lambda offsets: order.append("commit")
    with running(fake_connector, sink, threads=2, flush_rows=10**6, flush_interval=60) as streamer:
        fake_connector.put(0, [b"a"])
        fake_connector.put(1, [b"b"])
        assert until(lambda: fake_connector.position() == {P0: 1, P1: 1}, SECONDS)
        assert order == []
        streamer.stop()
        assert streamer.wait(0)
        assert not streamer.is_running
    assert sorted(sink.rows) == [b"a", b"b"]
    assert fake_connector.committed == {P0: 1, P1: 1}
    assert order[0] == "write"
    assert order[-1] == "commit"
    assert fake_connector.closed
    assert until(lambda: not [t for t in threading.enumerate() if t.name.startswith("penstock-streamer")], SECONDS)


def test_I4_what_a_sink_does_not_take_before_the_time_is_over_is_not_committed(fake_connector, caplog):
    sink = ListSink()

    def trouble(rows):
        raise OSError("gone")

    sink.trouble = trouble
    with running(fake_connector, sink, retry_timeout=60) as streamer:
        fake_connector.put(0, [b"a"])
        assert until(lambda: streamer.metrics().retries, SECONDS)
        streamer.stop(0.1)
        assert streamer.wait(SECONDS)
    assert fake_connector.committed.get(P0, 0) == 0, "its beginning at most"
    assert "1 records are not written and will be read again" in caplog.text


def test_I4_stop_does_not_wait_for_ever_for_a_sink_that_hangs(fake_connector, caplog):
    sink = ListSink()
    hanging, go_on = threading.Event(), threading.Event()

    def trouble(rows):
        hanging.set()
        assert go_on.wait(SECONDS)

    sink.trouble = trouble
    with running(fake_connector, sink) as streamer:
        fake_connector.put(0, [b"a"])
        assert hanging.wait(SECONDS)
        streamer.stop(0.1)
        assert "did not end within 0.1 s" in caplog.text
        go_on.set()


def test_a_sink_may_stop_its_own_streamer(fake_connector):
    rows = []

    def take(some):
        rows.extend(some)
        streamer.stop()

    streamer = Streamer("t", 1, value, take, config=CONFIG, flush_rows=1).start()
    fake_connector.assign([0])
    fake_connector.put(0, [b"a"])
    assert streamer.wait(SECONDS)
    assert rows == [b"a"]
    assert fake_connector.committed == {P0: 1}


def test_a_with_block_starts_stops_and_raises_what_went_wrong(fake_connector):
    sink = ListSink()

    def trouble(rows):
        raise SinkError("no")

    with Streamer("t", 1, sink=sink, config=CONFIG, flush_rows=1) as streamer:
        assert streamer.is_running
    assert streamer.wait(0)
    assert not streamer.is_running

    fake_connector.__init__()
    sink.trouble = trouble
    streamer = Streamer("t", 1, sink=sink, config=CONFIG, flush_rows=1)
    with pytest.raises(SinkError, match="no"), streamer:  # noqa: PT012 (the block's end is what raises)
        fake_connector.assign([0])
        fake_connector.put(0, [b"a"])
        assert until(lambda: streamer.error, SECONDS)


def test_a_streamer_is_started_once(fake_connector):
    streamer = Streamer("t", 1, sink=ListSink(), config=CONFIG)
    with pytest.raises(RuntimeError, match="was not started"):
        streamer.wait()
    streamer.stop()
    with streamer, pytest.raises(RuntimeError, match="was started before"):
        streamer.start()


def test_a_connector_that_is_shut_down_by_others_ends_the_streamer(fake_connector):
    with running(fake_connector, ListSink()) as streamer:
        fake_connector.shutdown()
        assert streamer.wait(SECONDS)


def test_a_limit_is_kept_to_the_record_and_the_rest_is_not_committed(fake_connector):
    sink = ListSink()
    with running(fake_connector, sink, limit=5, partitions=[0]) as streamer:
        fake_connector.put(0, [b"%d" % n for n in range(3)])
        fake_connector.put(0, [b"%d" % n for n in range(3, 9)])
        assert streamer.wait(SECONDS)
    assert sink.rows == [b"0", b"1", b"2", b"3", b"4"]
    assert fake_connector.committed == {P0: 5}


def test_until_the_end_stops_there_and_takes_nothing_beyond(fake_connector, monkeypatch):
    sink = ListSink()
    monkeypatch.setattr(Streamer, "_ends", lambda self: {P0: 3, P1: 2})
    with running(fake_connector, sink, until_end=True, threads=2) as streamer:
        fake_connector.put(0, [b"a", b"b", b"c", b"later"])
        assert until(lambda: len(sink.rows) == 3, SECONDS)
        assert streamer.is_running
        fake_connector.put(1, [b"d"], gap=1)
        assert streamer.wait(SECONDS)
    assert sorted(sink.rows) == [b"a", b"b", b"c", b"d"]
    assert fake_connector.committed == {P0: 3, P1: 2}


def test_a_partition_revoked_after_its_batch_was_read_is_not_an_error(fake_connector, monkeypatch):
    """A connector pauses and seeks only what it has; a group that has waited long enough takes a partition away."""

    def gone(partitions):
        raise ValueError("t-0 is not assigned to this consumer now")

    sink = ListSink()
    fake_connector.pause = gone
    monkeypatch.setattr(Streamer, "_ends", lambda self: {P0: 3, P1: 0})
    with running(fake_connector, sink, until_end=True) as streamer:
        fake_connector.put(0, [b"a", b"b", b"c", b"later"])
        assert streamer.wait(SECONDS)
    assert sink.rows == [b"a", b"b", b"c"]


def test_until_the_end_does_not_end_in_the_middle_of_a_rebalance(fake_connector, monkeypatch):
    """Without partitions there is nothing left to read, but the stream has not ended."""
    monkeypatch.setattr(Streamer, "_ends", lambda self: {P0: 1, P1: 1})
    sink = ListSink()
    with running(fake_connector, sink, until_end=True, partitions=[0]) as streamer:
        fake_connector.release([0])
        assert not streamer.wait(0.2)
        fake_connector.assign([0, 1])
        fake_connector.put(0, [b"a"])
        fake_connector.put(1, [b"b"])
        assert streamer.wait(SECONDS)
    assert sorted(sink.rows) == [b"a", b"b"]


def test_until_the_end_is_that_of_our_own_partitions_also_if_another_member_has_our_name(fake_connector, monkeypatch):
    """A config that several programs share may hold a consumer.id."""
    monkeypatch.setattr(Streamer, "_ends", lambda self: {P0: 1, P1: 1})
    monkeypatch.setattr(OtherMembers, "have_ended", lambda self, mine: mine == {P0})
    sink = ListSink()
    with running(fake_connector, sink, until_end=True, partitions=[]) as streamer:
        fake_connector.given = frozenset([P0])
        fake_connector.listener.assigned("fake", {"t": {0: "fake-0", 1: "fake-0"}})
        fake_connector.owners[P0], fake_connector.positions[P0] = "fake-0", 0
        fake_connector.put(0, [b"a"])
        assert streamer.wait(SECONDS)
    assert sink.rows == [b"a"]


def test_I4_until_the_end_waits_for_other_members_with_everything_committed(fake_connector, monkeypatch):
    """Another member may wait for the commits of this one."""
    monkeypatch.setattr(Streamer, "_ends", lambda self: {P0: 1, P1: 1})
    ended = threading.Event()
    monkeypatch.setattr(OtherMembers, "have_ended", lambda self, mine: ended.is_set())
    sink = ListSink()
    with running(fake_connector, sink, until_end=True, partitions=[0], flush_interval=SECONDS) as streamer:
        fake_connector.put(0, [b"a"])
        assert until(lambda: fake_connector.committed == {P0: 1}, SECONDS)
        assert not streamer.wait(0.2)
        ended.set()
        assert streamer.wait(SECONDS)
    assert sink.rows == [b"a"]


def test_metrics_know_the_lag(fake_connector):
    sink = ListSink()
    hanging, go_on = threading.Event(), threading.Event()

    def trouble(rows):
        hanging.set()
        assert go_on.wait(SECONDS)

    sink.trouble = trouble
    with running(fake_connector, sink) as streamer:
        fake_connector.put(0, [b"a"])
        assert hanging.wait(SECONDS)
        fake_connector.put(0, [b"b", b"c"])
        assert streamer.metrics().lag == 2
        go_on.set()
        assert until(lambda: streamer.metrics().lag == 0, SECONDS)
        assert until(lambda: streamer.metrics().rows == 3, SECONDS)
        assert streamer.metrics().flushes >= 2
