"""F26 and `await_end` on real queries: what a listener sees, what Prometheus scrapes, when a bounded stream stops."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from fixtures.produce import Rec
from penstock.errors import UnknownQuery
from penstock.spark import LagListener, await_end

pytestmark = [pytest.mark.spark, pytest.mark.broker]

PARTITIONS = 3
RECORDS = 300
WAIT = 180.0
"""A deadline, not a measurement: a session's first query took 65 s where other work held the processors."""


class Recorder(LagListener):
    """Keeps the lag of every progress, not only the newest; with the query's name, for Spark tells of a query when it
    finds the time to, which may be in the next test."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.seen: list[tuple[str | None, int | None]] = []

    def onQueryProgress(self, event) -> None:
        super().onQueryProgress(event)
        self.seen.append((event.progress.name, self.lag(str(event.progress.id))))

    def lags(self, query: str) -> list[int | None]:
        return [lag for name, lag in self.seen if name == query]


def until(condition: Callable[[], object], seen: Callable[[], object] = lambda: "nothing to tell") -> None:
    """Wait for a condition. The failure shows what was `seen` instead."""
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT:g} s; seen: {seen()}"
        time.sleep(0.05)


def on_page(listener: LagListener, query) -> dict:
    """What the driver's own page says about a query. Its state is unknown while Spark has not told the listener."""
    with urllib.request.urlopen(f"{listener.page}api/query?name={query.runId}", timeout=WAIT) as answer:
        return json.load(answer) or {"row": {"state": "unknown"}}


@pytest.fixture
def events(topic, produce) -> str:
    name = topic(partitions=PARTITIONS)
    produce(name, [Rec(b"value %d" % i, timestamp=1_700_000_000_000, partition=i % PARTITIONS) for i in range(RECORDS)])
    return name


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def listener(spark, registry) -> Iterator[Recorder]:
    made = Recorder(prometheus=registry, page=True)
    spark.streams.addListener(made)
    yield made
    spark.streams.removeListener(made)
    made.close()


@pytest.fixture
def start(spark, kafka, tmp_path) -> Iterator[Callable]:
    """`start(topic, name, availableNow=True, maxOffsetsPerTrigger=60)`: a query into nowhere."""
    queries = []

    def run(topic: str, name: str, trigger: dict | None = None, **options: object):
        reader = spark.readStream.format("penstock").options(**kafka.client_options())
        stream = reader.options(**{"subscribe": topic, "startingOffsets": "earliest"} | options).load()
        writer = stream.writeStream.format("noop").queryName(name).option("checkpointLocation", str(tmp_path / name))
        queries.append(writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start())
        return queries[-1]

    yield run
    for query in queries:
        query.stop()


@pytest.fixture
def idle_reports(spark) -> Iterator[None]:
    """A query that is idle says so five times a second, not once in ten seconds."""
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "200")
    yield
    spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")


def test_F26_lag_falls_batch_by_batch_and_stays_readable_when_the_query_has_ended(listener, start, events, registry):
    query = start(events, "falling", {"availableNow": True}, maxOffsetsPerTrigger=60)
    assert query.awaitTermination(WAIT)
    until(lambda: len(listener.lags("falling")) >= RECORDS // 60, lambda: (listener.seen, query.recentProgress))
    assert listener.lags("falling") == [240, 180, 120, 60, 0]
    (metrics,) = listener.metrics(query)
    assert [(p.topic, p.partition, p.current_offset, p.lag) for p in metrics.partitions] == [
        (events, partition, RECORDS // PARTITIONS, 0) for partition in range(PARTITIONS)
    ]
    assert metrics.num_input_rows == 60
    assert metrics.bytes_per_second > 0
    until(lambda: generate_latest(registry) == b"", lambda: generate_latest(registry).decode())
    assert listener.lag("falling") == 0

    until(lambda: on_page(listener, query)["row"]["state"] == "finished", lambda: on_page(listener, query))
    shown = on_page(listener, query)["report"]
    assert (shown["id"], shown["name"], shown["lag"]) == (query.id, "falling", 0)
    assert [(batch["number"], batch["rows"]) for batch in shown["batches"]] == [(each, 60) for each in range(5)]
    phases = {each["name"]: each["milliseconds"] for each in shown["phases"]}
    assert {"addBatch", "latestOffset", "triggerExecution"} <= phases.keys()
    assert max(phases.values()) == phases["triggerExecution"]
    assert [each["current_offset"] for each in shown["partitions"]] == [RECORDS // PARTITIONS] * PARTITIONS


def test_F26_a_started_query_is_known_at_once_and_a_misspelt_name_is_an_error(listener, start, events):
    query = start(events, "spelt-right")
    assert listener.lag("spelt-right") in (None, 0, RECORDS)
    with pytest.raises(UnknownQuery, match="'spelt-right'"):
        listener.lag("spelt-wrong")
    query.stop()


def test_F26_prometheus_shows_a_running_query_down_to_its_commits_and_nothing_of_it_afterwards(
    listener, start, events, registry, idle_reports
):
    query = start(events, "running", **{"kafka.group.id": f"{events}-group"})
    labels = {"query": "running", "source": "0"}

    def value(name: str, **more: str) -> float | None:
        return registry.get_sample_value(name, labels | more)

    # The commit follows the last batch: only the progress of an idle trigger can show it.
    for partition in range(PARTITIONS):
        place = {"topic": events, "partition": str(partition)}
        until(
            lambda place=place: value("penstock_committed_offset", **place) == RECORDS // PARTITIONS,
            lambda: (query.status, query.lastProgress, generate_latest(registry).decode()),
        )
        assert value("penstock_current_offset", **place) == RECORDS // PARTITIONS
        assert value("penstock_records_lag", **place) == 0
    assert value("penstock_pending_records") == 0
    assert value("penstock_commits_succeeded_total") >= 1
    assert value("penstock_commits_failed_total") == 0
    until(lambda: value("penstock_num_records_in_per_second") == 0, lambda: generate_latest(registry).decode())
    text = generate_latest(registry).decode()
    assert f'penstock_latest_offset{{partition="0",query="running",source="0",topic="{events}"}} 100.0\n' in text
    query.stop()
    until(lambda: generate_latest(registry) == b"", lambda: generate_latest(registry).decode())


def test_F26_a_query_that_does_not_read_kafka_is_none_of_its_business(spark, listener, registry):
    writer = spark.readStream.format("rate").load().writeStream.format("noop").queryName("another")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT)
    until(lambda: listener.lags("another"))
    assert set(listener.lags("another")) == {None}
    assert generate_latest(registry) == b""


def test_await_end_stops_a_query_at_its_ending_offsets(start, events, listener):
    ends = {"0": 100, "1": 70, "2": 0}
    query = start(events, "bounded", endingOffsets=json.dumps({events: ends}), maxOffsetsPerTrigger=50)
    assert await_end(query, timeout=WAIT)
    assert not query.isActive
    assert query.exception() is None
    reached = json.loads(next(p for p in reversed(query.recentProgress) if p.numInputRows).sources[0].endOffset)
    assert reached == {events: ends}
    assert sum(progress.numInputRows for progress in query.recentProgress) == 170


def test_await_end_waits_for_records_that_are_still_to_come(start, events, produce):
    ends = {"0": 101, "1": 100, "2": 100}
    query = start(events, "slow", endingOffsets=json.dumps({events: ends}))
    until(lambda: query.lastProgress)
    with pytest.raises(TimeoutError, match=rf"query slow .*{events}-0 at 100"):
        await_end(query, timeout=0.5)
    assert query.isActive
    produce(events, [Rec(b"the last", timestamp=1_700_000_000_000), Rec(b"too late", timestamp=1_700_000_000_000)])
    assert await_end(query, timeout=WAIT)
    assert sum(progress.numInputRows for progress in query.recentProgress) == RECORDS + 1


def test_await_end_of_a_restarted_query_with_nothing_left(start, events):
    ends = json.dumps({events: {"0": 10, "1": 0, "2": 0}})
    assert await_end(start(events, "again", endingOffsets=ends), timeout=WAIT)
    query = start(events, "again", endingOffsets=ends)
    assert await_end(query, timeout=WAIT)
    assert sum(progress.numInputRows for progress in query.recentProgress) == 0


def test_await_end_raises_what_the_query_failed_with_and_the_page_shows_it(start, events, listener):
    query = start(events, "failing", startingOffsets=json.dumps({events: {"0": 10**9, "1": 0, "2": 0}}))
    with pytest.raises(Exception, match=str(10**9)):
        await_end(query, timeout=WAIT)
    until(lambda: on_page(listener, query)["row"]["state"] == "failed", lambda: on_page(listener, query))
    assert str(10**9) in on_page(listener, query)["report"]["error"]


CLIENT = """
import json, sys, time, urllib.request
from pyspark.sql import SparkSession
from penstock.spark import LagListener, await_end

url, options, checkpoint = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
spark = SparkSession.builder.remote(url).getOrCreate()
listener = LagListener(prometheus=True, page=True)
spark.streams.addListener(listener)
stream = spark.readStream.format("penstock").options(**options).load()
query = stream.writeStream.format("noop").queryName("remote").option("checkpointLocation", checkpoint).start()
reached = await_end(query, timeout=180)
deadline = time.monotonic() + 60
while listener.lag(query) != 130 and time.monotonic() < deadline:
    time.sleep(0.05)
with urllib.request.urlopen(f"{listener.page}api/query?name={query.runId}", timeout=60) as answer:
    shown = json.load(answer)["report"]
assert shown["lag"] == 130 and shown["batches"], shown
print(json.dumps({"reached": reached, "active": query.isActive, "lag": listener.lag("remote")}))
spark.streams.removeListener(listener)
spark.stop()
"""


@pytest.mark.extended
@pytest.mark.timeout(900)  # the server's start and the client's, one after the other, each with a deadline of its own
def test_F26_listener_and_await_end_through_spark_connect(connect_server, kafka, events, tmp_path):
    ends = json.dumps({events: {"0": 100, "1": 70, "2": 0}})
    options = {"subscribe": events, "startingOffsets": "earliest", "endingOffsets": ends}
    arguments = [connect_server.url, json.dumps(kafka.client_options() | options), str(tmp_path / "checkpoint")]
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLIENT, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {"reached": True, "active": False, "lag": 130}
