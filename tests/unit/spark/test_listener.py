"""F26: `LagListener` and `await_end`, without a Spark session: only the events and the query are made here."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import threading
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from penstock.errors import UnknownQuery, UnsupportedSpark
from penstock.metrics.source import SourceMetrics
from penstock.metrics.worker import WorkerMetrics
from penstock.spark import LagListener, await_end
from penstock.spark import listener as module
from penstock.spark.listener import describe
from support.own_logs import own_records

QUERY = uuid.UUID(int=1)
BEFORE_4_2 = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@7ad1a4cc"


def source(end: Any, latest: Any = None, rows: int = 0, start: Any = None, description: str = "a source") -> dict:
    return {
        "description": description,
        "startOffset": start,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": rows,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
    }


def progress(
    *sources: dict,
    run: int = 1,
    name: str | None = "orders",
    query: uuid.UUID = QUERY,
    batch: int = 7,
    written: int = -1,
) -> Any:
    """A progress that PySpark has read from JSON: as in a listener of Spark Connect, and in `lastProgress`."""
    return StreamingQueryProgress.fromJson(
        {
            "id": str(query),
            "runId": str(uuid.UUID(int=run)),
            "name": name,
            "timestamp": "2025-01-31T12:00:00.000Z",
            "batchId": batch,
            "batchDuration": 1000,
            "stateOperators": [],
            "sources": list(sources),
            "sink": {"description": "noop", "numOutputRows": written},
        }
    )


def event(*sources: dict, **more: Any) -> QueryProgressEvent:
    return QueryProgressEvent(progress(*sources, **more))


def started(run: int = 1, name: str | None = "orders", query: uuid.UUID = QUERY) -> QueryStartedEvent:
    return QueryStartedEvent(query, uuid.UUID(int=run), name, "2025-01-31T12:00:00.000Z", [])


def terminated(run: int = 1, query: uuid.UUID = QUERY) -> QueryTerminatedEvent:
    return QueryTerminatedEvent(query, uuid.UUID(int=run), None, None)


def behind(lag: int, **report: Any) -> dict:
    latest: dict[str, Any] = {"orders": {"0": 100 + lag, "1": 50}}
    if report:
        latest["#penstock"] = report
    return source({"orders": {"0": 100, "1": 50}}, latest, rows=500, start={"orders": {"0": 0, "1": 50}})


# --- for Python -------------------------------------------------------------------------------------------------------


def test_F26_the_newest_metrics_of_a_query_by_name_by_id_and_by_the_query_itself():
    listener = LagListener()
    listener.onQueryStarted(started())
    assert listener.lag("orders") is None
    assert listener.metrics("orders") == ()
    listener.onQueryProgress(event(behind(7)))
    listener.onQueryProgress(event(behind(3, commitsSucceeded=2)))
    for query in ("orders", str(QUERY), SimpleNamespace(id=str(QUERY), name="orders"), SimpleNamespace(id=QUERY)):
        assert listener.lag(query) == 3
        (metrics,) = listener.metrics(query)
        assert metrics.commits_succeeded == 2
    assert listener.lag(SimpleNamespace(id=uuid.UUID(int=9))) is None  # its start was not reported yet


def test_F26_the_lag_is_unknown_before_spark_4_2_where_the_end_of_a_batch_takes_the_place_of_the_end_of_the_log():
    listener = LagListener()
    end = {"orders": {"0": 100}}
    listener.onQueryProgress(event(source(end, latest=end, rows=500, description=BEFORE_4_2)))
    assert listener.lag("orders") is None
    (metrics,) = listener.metrics("orders")
    assert [partition.current_offset for partition in metrics.partitions] == [100]
    assert metrics.records_per_second == 500


def test_F26_an_unknown_name_is_an_error_that_lists_the_known_ones():
    listener = LagListener()
    for ask in (listener.lag, listener.metrics, listener.sink):
        with pytest.raises(UnknownQuery, match=r"no query named 'oders'.*no query so far.*addListener"):
            ask("oders")
    listener.onQueryStarted(started())
    listener.onQueryStarted(started(name="returns", query=uuid.UUID(int=2)))
    for ask in (listener.lag, listener.metrics, listener.sink):
        with pytest.raises(UnknownQuery, match=r"'oders'\. It has seen 'orders', 'returns'"):
            ask("oders")


def test_F26_a_query_that_started_before_the_listener_is_known_to_its_session():
    listener = LagListener()
    active = [SimpleNamespace(id=QUERY, name="orders"), SimpleNamespace(id=uuid.UUID(int=2), name=None)]
    listener._set_spark_session(SimpleNamespace(streams=SimpleNamespace(active=active)))
    assert listener.lag("orders") is None
    assert listener.lag(str(uuid.UUID(int=2))) is None
    with pytest.raises(UnknownQuery):
        listener.lag("oders")


def test_F26_the_start_of_a_run_that_is_reported_late_keeps_its_progress():
    listener = LagListener()
    listener.onQueryProgress(event(behind(7)))
    listener.onQueryStarted(started())
    assert listener.lag("orders") == 7
    listener.onQueryStarted(started(run=2))
    assert listener.lag("orders") is None


PLAIN_SCRIPT = """
import logging, sys
from penstock.spark import LagListener

LagListener(), LagListener()
lag = logging.getLogger("penstock.lag")
lag.info("first")
sys.stderr = sys.stdout  # as a notebook does for each cell
lag.info("second")
logging.basicConfig(format="by the program: %(message)s", stream=sys.stdout)
lag.info("third")
"""


def test_F26_lines_are_shown_once_without_set_up_and_until_the_program_configures_logging():
    ran = subprocess.run([sys.executable, "-c", PLAIN_SCRIPT], capture_output=True, text=True, timeout=120, check=True)
    assert re.fullmatch(r"\d\d:\d\d:\d\d first\n", ran.stderr)
    assert re.fullmatch(r"\d\d:\d\d:\d\d second\nby the program: third\n", ran.stdout)


@pytest.mark.parametrize(
    "set_up", ["logging.basicConfig()", "logging.getLogger('penstock').addHandler(logging.NullHandler())"]
)
def test_F26_a_program_that_has_configured_logging_decides(set_up):
    program = f"""
import logging
from penstock.spark import LagListener
{set_up}
LagListener()
logging.getLogger("penstock.lag").info("hidden")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stderr == ""


def test_F26_the_sources_of_a_query_are_summed_and_those_that_are_not_kafka_passed_over():
    listener = LagListener()
    listener.onQueryProgress(event(behind(7), source({"logOffset": 3}), behind(5)))
    assert listener.lag("orders") == 12
    assert [metrics.lag for metrics in listener.metrics("orders")] == [7, 5]


def test_F26_a_query_without_kafka_has_no_metrics(caplog):
    caplog.set_level(logging.INFO)
    listener = LagListener()
    listener.onQueryProgress(event(source(5, 5), source(None, None)))
    assert listener.lag("orders") is None
    assert own_records(caplog) == []


def test_F26_values_of_an_ended_query_stay_readable_but_not_for_ever(monkeypatch):
    monkeypatch.setattr(module, "ENDED_KEPT", 2)
    listener = LagListener()
    queries = [uuid.UUID(int=n) for n in range(1, 6)]
    for number, query in enumerate(queries):
        listener.onQueryProgress(event(behind(number), name=None, query=query))
    for query in queries[:4]:
        listener.onQueryTerminated(terminated(query=query))
    assert [listener.lag(str(query)) for query in queries[2:]] == [2, 3, 4]
    for query in queries[:2]:
        with pytest.raises(UnknownQuery):
            listener.lag(str(query))


def test_F26_it_can_be_read_while_spark_reports():
    listener = LagListener(prometheus=(registry := CollectorRegistry()), log_interval=None)
    listener.onQueryStarted(started())
    stop = threading.Event()
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            while not stop.is_set():
                listener.lag("orders")
                generate_latest(registry)
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=ask)
    reader.start()
    for run in range(300):
        listener.onQueryProgress(event(behind(run), run=run, query=uuid.UUID(int=run)))
        listener.onQueryTerminated(terminated(run=run, query=uuid.UUID(int=run)))
    stop.set()
    reader.join(60)
    assert not reader.is_alive()
    assert failures == []


# --- the log ----------------------------------------------------------------------------------------------------------


def test_F26_the_log_line(caplog):
    caplog.set_level(logging.INFO, logger="penstock.lag")
    report = {"commitsSucceeded": 12, "commitsFailed": 0, "bytesPerRecord": {"orders": {"0": 53_000}}}
    LagListener().onQueryProgress(event(behind(1234, **report)))
    assert [record.message for record in own_records(caplog, "penstock.lag")] == [
        "query orders: 1,234 records behind in 2 partitions (worst orders-0: 1,234), 500 records/s, 5.3 MB/s, "
        "committed 12 times (0 failed)"
    ]


def test_F19_the_log_line_has_event_time(caplog):
    caplog.set_level(logging.INFO, logger="penstock.lag")
    report = {
        "watermark": 1_738_324_797_000,  # 3 s before the progress
        "watermarks": {"orders": {"0": 1_738_324_797_000}},
        "idlePartitions": {"orders": [0]},
        "heldPartitions": {"orders": [1]},
        "lateRecords": 1200,
    }
    LagListener().onQueryProgress(event(behind(1, **report)))
    assert [record.message for record in own_records(caplog, "penstock.lag")] == [
        "query orders: 1 record behind in 2 partitions (worst orders-0: 1), 500 records/s, "
        "event-time watermark 2025-01-31T11:59:57Z (3 s behind), 1 idle, 1 held back, 1,200 late"
    ]


@pytest.mark.parametrize(
    ("watermark", "lag", "text"),
    [
        (0, None, "event-time watermark 1970-01-01T00:00:00Z"),
        (-1, 90_000.0, "event-time watermark 1969-12-31T23:59:59Z (25 h behind)"),
        (0, -1.4, "event-time watermark 1970-01-01T00:00:00Z (1 s ahead)"),
        (999, 119.0, "event-time watermark 1970-01-01T00:00:00Z (119 s behind)"),
        (0, 864_000.0, "event-time watermark 1970-01-01T00:00:00Z (10 d behind)"),
        (2**62, None, "event-time watermark 4,611,686,018,427,387,904 ms"),
    ],
)
def test_F19_the_log_line_has_the_watermark_and_its_lag(watermark, lag, text):
    slow = SourceMetrics(watermark=watermark, event_time_lag=lag)
    fast = SourceMetrics(watermark=2**62 + 1, event_time_lag=0.0, late_records=0)
    for sources in ([slow, fast], [SourceMetrics(), fast, slow]):
        assert describe("q", sources) == f"query q: 0 records behind in 0 partitions, {text}"


@pytest.mark.parametrize(
    ("metrics", "line"),
    [
        ([SourceMetrics()], "query q: 0 records behind in 0 partitions"),
        ([SourceMetrics(lost_ranges=3)], "query q: 0 records behind in 0 partitions, 3 ranges lost"),
        (
            [SourceMetrics(malformed_records=0, dropped_records=0, dead_letters=0, skipped_records=0)],
            "query q: 0 records behind in 0 partitions",
        ),
        (
            [SourceMetrics(malformed_records=1500, skipped_records=2), SourceMetrics(malformed_records=1)],
            "query q: 0 records behind in 0 partitions, 1,501 malformed, 2 skipped",
        ),
        (
            [SourceMetrics(malformed_records=5, dropped_records=2), SourceMetrics(malformed_records=3, dead_letters=3)],
            "query q: 0 records behind in 0 partitions, 8 malformed (2 dropped, 3 dead letters)",
        ),
        (
            [SourceMetrics(records_per_second=0.0, bytes_per_second=0.0, commits_succeeded=0, commits_failed=0)],
            "query q: 0 records behind in 0 partitions, 0 records/s, 0 B/s",
        ),
        (
            [SourceMetrics(bytes_per_second=1500.0, commits_failed=2), SourceMetrics(bytes_per_second=2e9)],
            "query q: 0 records behind in 0 partitions, 2.0 GB/s, committed 0 times (2 failed)",
        ),
        (
            [SourceMetrics(workers=(WorkerMetrics("a:1", throttle_seconds=0.25), WorkerMetrics("b:1", retries=1)))],
            "query q: 0 records behind in 0 partitions, throttled for 0.25 s, 1 retry",
        ),
        (
            [SourceMetrics(workers=(WorkerMetrics("a:1", 9, throttle_seconds=300.0, retries=1200),))],
            "query q: 0 records behind in 0 partitions, throttled for 5 min, 1,200 retries",
        ),
    ],
)
def test_F26_the_log_line_says_what_is_known(metrics, line):
    assert describe("q", metrics) == line


def test_F26_the_log_line_of_a_query_whose_lag_is_unknown():
    found = SourceMetrics.from_progress(None, '{"t": {"3": 5}}', None, 0, 10)
    assert found is not None
    assert describe("q", [found]).startswith("query q: lag unknown in 1 partition,")


@pytest.mark.parametrize(("interval", "lines"), [(3600.0, 2), (0.0, 6), (None, 0)])
def test_F26_log_lines_are_limited_for_each_query(caplog, interval, lines):
    caplog.set_level(logging.INFO, logger="penstock.lag")
    listener = LagListener(log_interval=interval)
    for _ in range(3):
        listener.onQueryProgress(event(behind(1), name="first"))
        listener.onQueryProgress(event(behind(1), name="second", query=uuid.UUID(int=2)))
    assert len(own_records(caplog, "penstock.lag")) == lines


# --- Prometheus -------------------------------------------------------------------------------------------------------


def test_F26_series_come_with_progress_and_go_with_the_query():
    listener = LagListener(prometheus=(registry := CollectorRegistry()))
    listener.onQueryProgress(event(behind(7)))
    listener.onQueryProgress(event(behind(9), name=None, query=uuid.UUID(int=2)))
    assert registry.get_sample_value("penstock_pending_records", {"query": "orders", "source": "0"}) == 7
    unnamed = {"query": str(uuid.UUID(int=2)), "source": "0"}
    assert registry.get_sample_value("penstock_pending_records", unnamed) == 9
    listener.onQueryTerminated(terminated())
    assert 'query="orders"' not in generate_latest(registry).decode()
    assert registry.get_sample_value("penstock_pending_records", unnamed) == 9
    assert listener.lag("orders") == 7


def test_W10_rows_of_the_sink_are_exported_logged_and_counted_once(caplog):
    caplog.set_level(logging.INFO, logger="penstock.lag")
    listener = LagListener(prometheus=(registry := CollectorRegistry()), log_interval=0.0)
    listener.onQueryStarted(started())
    assert listener.sink("orders") is None
    assert generate_latest(registry) == b""
    listener.onQueryProgress(event(behind(7), batch=7, written=300))
    listener.onQueryProgress(event(behind(7), batch=8, written=200))
    sink = {"query": "orders"}
    assert registry.get_sample_value("penstock_num_records_out_total", sink) == 500
    assert registry.get_sample_value("penstock_num_records_out_per_second", sink) == 200
    assert ", 200 rows/s written" in own_records(caplog, "penstock.lag")[-1].message
    listener._set_spark_session(session(progress(behind(0), batch=8, written=200)))
    listener.onQueryIdle(idle())
    assert registry.get_sample_value("penstock_num_records_out_total", sink) == 500
    assert registry.get_sample_value("penstock_num_records_out_per_second", sink) == 0
    found = listener.sink("orders")
    assert found is not None
    assert found.records_out == 500
    listener.onQueryTerminated(terminated())
    assert registry.get_sample_value("penstock_num_records_out_total", sink) is None


def test_W10_the_sink_of_a_query_that_does_not_read_kafka_is_not_exported():
    listener = LagListener(prometheus=(registry := CollectorRegistry()))
    listener.onQueryProgress(event(written=300))
    assert generate_latest(registry) == b""


def test_W10_the_rate_of_an_idle_sink_falls_to_zero_without_a_newer_progress():
    listener = LagListener()
    listener.onQueryProgress(event(behind(7), written=300))
    listener.onQueryIdle(idle())
    found = listener.sink("orders")
    assert found is not None
    assert (found.records_out, found.records_per_second) == (300, 0)


def test_F26_the_end_of_an_earlier_run_does_not_end_the_series_of_the_next():
    listener = LagListener(prometheus=(registry := CollectorRegistry()))
    listener.onQueryProgress(event(behind(7), run=1))
    listener.onQueryProgress(event(behind(5), run=2))
    listener.onQueryTerminated(terminated(run=1))
    assert registry.get_sample_value("penstock_pending_records", {"query": "orders", "source": "0"}) == 5


def test_F26_of_two_queries_of_one_name_the_newer_is_exported():
    listener = LagListener(prometheus=(registry := CollectorRegistry()))
    listener.onQueryProgress(event(behind(7)))
    listener.onQueryProgress(event(behind(5), query=uuid.UUID(int=2)))
    found = re.findall(r"^penstock_pending_records{.*", generate_latest(registry).decode(), re.MULTILINE)
    assert found == ['penstock_pending_records{query="orders",source="0"} 5.0']


def test_F26_close_frees_the_registry():
    registry = CollectorRegistry()
    first = LagListener(prometheus=registry)
    with pytest.raises(ValueError, match="close"):
        LagListener(prometheus=registry)
    first.close()
    first.close()
    LagListener(prometheus=registry)


# --- idle -------------------------------------------------------------------------------------------------------------


def idle(run: int = 1) -> QueryIdleEvent:
    return QueryIdleEvent(QUERY, uuid.UUID(int=run), "2025-01-31T12:00:00.000Z")


def session(last: Any) -> Any:
    return SimpleNamespace(streams=SimpleNamespace(get=lambda query: SimpleNamespace(lastProgress=last)))


def test_F26_an_idle_querys_last_progress_is_taken():
    listener = LagListener()
    listener.onQueryProgress(event(behind(7, commitsSucceeded=1)))
    listener._set_spark_session(session(progress(behind(0, commitsSucceeded=2))))
    listener.onQueryIdle(idle())
    (metrics,) = listener.metrics("orders")
    assert (metrics.lag, metrics.commits_succeeded) == (0, 2)


@pytest.mark.parametrize("last", [None, progress(behind(0), run=5)])
def test_F26_an_idle_query_of_which_nothing_is_known_reads_nothing(last):
    listener = LagListener()
    listener.onQueryProgress(event(behind(7)))
    assert listener.metrics("orders")[0].records_per_second == 500
    listener._set_spark_session(session(last))
    listener.onQueryIdle(idle())
    (metrics,) = listener.metrics("orders")
    assert (metrics.lag, metrics.records_per_second, metrics.num_input_rows) == (7, 0, 0)


def test_F26_an_error_in_the_listener_is_logged_and_not_raised(caplog):
    listener = LagListener()
    listener.onQueryProgress(SimpleNamespace(progress=None))  # type: ignore[arg-type]
    listener._set_spark_session(SimpleNamespace(streams=None))
    listener.onQueryIdle(idle())
    assert [record.levelno for record in own_records(caplog)] == [logging.ERROR, logging.ERROR]
    assert all("the query is not affected" in record.message for record in own_records(caplog))


# --- await_end --------------------------------------------------------------------------------------------------------


class Query:
    """A streaming query by its surface: what it reports, one progress after the other, and how it ends."""

    name = "orders"
    id = str(QUERY)

    def __init__(self, *reports: Any, error: Exception | None = None, ends: bool = False) -> None:
        self.reports = list(reports)
        self.error = error
        self.ends = ends
        self.idle = threading.Event()
        self.idle.set()
        self.idled = self.stopped = False

    @property
    def lastProgress(self) -> Any:
        if isinstance(self.reports[0], KeyError):
            raise self.reports.pop(0)
        return self.reports[0]

    def awaitTermination(self, timeout: float) -> bool:
        assert timeout > 0
        if len(self.reports) > 1:
            self.reports.pop(0)
            return False
        if self.error is not None:
            raise self.error
        return self.ends

    def processAllAvailable(self) -> None:
        assert self.idle.wait(60)
        self.idled = True

    def stop(self) -> None:
        assert self.idled, "stopped before a trigger found nothing more to do"
        self.stopped = True


def at(finished: bool | None) -> Any:
    return progress(behind(0, finished=finished))


def test_await_end_waits_for_the_end_and_then_for_a_trigger_without_data_and_stops():
    query = Query(None, at(False), KeyError("inputRowsPerSecond"), at(True))
    assert await_end(query, timeout=60)
    assert query.stopped


def test_await_end_waits_for_all_sources():
    some = progress(behind(0, finished=True), behind(0, finished=False))
    both = progress(behind(0, finished=True), behind(0, finished=True))
    query = Query(some, some, both)
    assert await_end(query, timeout=60)
    assert query.stopped


def test_await_end_passes_over_a_batch_that_was_run_again_after_a_restart():
    query = Query(progress(source({"orders": {"0": 100}})), at(True))
    assert await_end(query, timeout=60)


def test_await_end_of_a_query_that_ends_by_itself_says_whether_it_was_at_its_end():
    assert await_end(Query(at(True), ends=True))
    assert not await_end(Query(at(False), ends=True))
    assert not await_end(Query(None, ends=True))


def test_await_end_raises_what_the_query_failed_with():
    with pytest.raises(OSError, match="the sink is full"):
        await_end(Query(at(False), error=OSError("the sink is full")))


def test_await_end_times_out_and_says_where_the_query_was():
    query = Query(at(False))
    with pytest.raises(
        TimeoutError, match=r"query orders .* 0.05 s: after batch 7 it was at orders-0 at 100, orders-1"
    ):
        await_end(query, timeout=0.05)
    assert not query.stopped


def test_await_end_times_out_when_no_trigger_comes_after_the_last():
    query = Query(at(True))
    query.idle.clear()
    with pytest.raises(TimeoutError, match="did not become idle"):
        await_end(query, timeout=0.05)
    assert not query.stopped
    query.idle.set()


def test_await_end_is_refused_before_spark_4_2_where_a_source_cannot_report_its_end():
    end = {"orders": {"0": 100}}
    with pytest.raises(UnsupportedSpark, match=r"await_end needs Spark 4\.2"):
        await_end(Query(progress(source(end, latest=end, description=BEFORE_4_2))), timeout=60)


def test_await_end_times_out_before_the_first_progress():
    with pytest.raises(TimeoutError, match="no progress yet"):
        await_end(Query(None), timeout=0.02)


@pytest.mark.parametrize(
    ("reported", "message"),
    [
        (at(None), "source 0 of 1 has no end to wait for: set option endingOffsets"),
        (progress(behind(0)), "source 0 of 1 has no end to wait for: set option endingOffsets"),
        (
            progress(behind(0, finished=True), source(5, 5, description="RateStreamV2")),
            r"source 1 of 2 \(RateStreamV2\) has no end",
        ),
    ],
)
def test_await_end_refuses_a_query_without_end(reported, message):
    with pytest.raises(ValueError, match=message):
        await_end(Query(reported))


def test_json_of_a_progress_is_read_as_text_by_pyspark():
    """What `behind` builds on: PySpark turns the offset objects of a progress back into texts."""
    (read,) = progress(behind(1)).sources
    assert json.loads(read.latestOffset) == {"orders": {"0": 101, "1": 50}}
