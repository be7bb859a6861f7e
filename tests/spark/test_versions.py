"""Older versions of PySpark: reads, streams, writes, and checkpoints that move to the newest version and back.

Other tests of this folder run on the newest version.
"""

import json
from collections import Counter
from functools import partial

import pytest

from chaos.committed import committed
from chaos.processes import Driver, until
from chaos.sink import read_back, values_of, written
from fixtures.produce import Rec
from penstock.errors import PenstockError
from penstock.watch.access import Access
from penstock.watch.feed import Feed
from penstock.watch.queries import QueryRegistry
from penstock.watch.server import PageServer
from penstock.watch.watched_cluster import WatchedCluster

# The first test of a version may have to fetch it, which is large.
pytestmark = [pytest.mark.broker, pytest.mark.timeout(2400)]

WITHOUT_START, WITH_START = ("4.0.0", "4.1.1"), ("4.2.0",)
"""Versions whose Spark passes no start to a stream reader, and versions that do."""

VERSIONS = WITHOUT_START + WITH_START
PARTITIONS = 3
RECORDS = 300
LIMIT = 60
HOUR = 3_600_000
RUN_SECONDS = 1200.0
ONE_BATCH = "Trigger.AvailableNow and Trigger.Once run one batch"


@pytest.fixture
def numbers(topic, produce):
    """A topic with the values `value 0` to `value 299` in three partitions."""
    name = topic(partitions=PARTITIONS)
    produce(name, [Rec(b"value %d" % i, timestamp=i + 1, partition=i % PARTITIONS) for i in range(RECORDS)])
    return name


@pytest.fixture
def orders(topic, produce):
    """A topic with JSON values, one of them malformed."""
    name = topic()
    values = [
        json.dumps({"id": i, "price": i / 4, "tags": ["a", None], "at": "2026-01-02T03:04:05Z"}) for i in range(9)
    ]
    produce(name, [Rec(value.encode(), timestamp=1, headers=[("h", b"x")]) for value in [*values, "{"]])
    return name


@pytest.fixture
def stream(kafka, numbers, tmp_path):
    """A step that reads `numbers` as a stream into Parquet."""

    def step(trigger="processingTime", **options: object) -> dict:
        given = {name: str(value) for name, value in options.items() if name != "batches"}
        return {
            "do": "stream",
            "format": "penstock",
            "options": kafka.client_options() | {"subscribe": numbers, "startingOffsets": "earliest"} | given,
            "path": str(tmp_path / "output"),
            "checkpoint": str(tmp_path / "checkpoint"),
            "trigger": {"processingTime": "0 seconds"} if trigger == "processingTime" else {trigger: True},
        } | ({"batches": options["batches"]} if "batches" in options else {})

    return step


def rows_of(answer: list[dict]) -> list[int]:
    return [batch["rows"] for batch in answer]


@pytest.mark.parametrize("version", VERSIONS)
def test_batch_reads_and_writes(version, spark_version, kafka, topic, numbers, orders, tmp_path):
    options, sink = kafka.client_options(), topic(partitions=2)
    typed = {
        "subscribe": orders,
        "includeHeaders": "true",
        "valueFormat": "json",
        "valueSchema": "id BIGINT, price DOUBLE, tags ARRAY<STRING>, at TIMESTAMP",
    }
    fields = "value.id, value.price, value.tags, unix_seconds(value.at), headers[0].key"
    rows = f"SELECT {fields} FROM orders ORDER BY offset"
    steps = [
        {"do": "read", "format": "penstock", "options": options | {"subscribe": numbers}, "path": f"{tmp_path}/read"},
        {"do": "sql", "statements": [using("TEMPORARY VIEW orders", options | typed), rows]},
        {
            "do": "sql",
            "statements": [
                using("TEMPORARY VIEW numbers", options | {"subscribe": numbers}),
                "SELECT count(*) FROM numbers WHERE partition = 1 AND offset >= 90",
            ],
        },
        {
            "do": "writes",
            "sink": options | {"topic": sink, "deliveryGuarantee": "exactly-once"},
            "rows": 100,
            "tasks": 2,
            "times": 1,
        },
        {
            "do": "sql",
            "statements": [
                using("TEMPORARY VIEW sink (value STRING)", options | {"topic": sink}),
                "INSERT INTO sink VALUES ('inserted')",
            ],
        },
        {
            "do": "sql",
            "statements": [
                using("TABLE numbers_table", options | {"subscribe": numbers}),
                "SELECT count(*) FROM numbers_table",
            ],
        },
    ]
    with spark_version(version, steps, tmp_path / "driver") as driver:
        _, parsed, filtered, _, _, counted = driver.answers(RUN_SECONDS)
    assert len(read_back(tmp_path / "read")) == RECORDS
    at = 1767323045
    assert parsed == [*([i, i / 4, ["a", None], at, "h"] for i in range(9)), [None, None, None, None, "h"]]
    assert (filtered, counted) == ([[10]], [[RECORDS]])
    found = committed(kafka, sink)
    assert sum(found.values()) == 101
    assert found["inserted"] == 1


def using(what: str, options: dict[str, str]) -> str:
    given = ", ".join(f"`{key}` '{value}'" for key, value in options.items())
    return f"CREATE {what} USING penstock OPTIONS ({given})"


@pytest.mark.parametrize("version", VERSIONS)
def test_F18_F22_streams_with_limits_restarts_and_commits(version, spark_version, kafka, stream, numbers, tmp_path):
    limited = partial(stream, maxOffsetsPerTrigger=LIMIT, **{"kafka.group.id": numbers})
    steps = [limited(batches=1), limited(batches=2), limited("availableNow"), stream("availableNow"), limited("once")]
    with spark_version(version, steps, tmp_path / "driver") as driver:
        first, second, third, fourth, fifth = driver.answers(RUN_SECONDS)
        log = driver.log()
    assert all(rows <= LIMIT for rows in rows_of(first) + rows_of(second) + rows_of(third))
    if version in WITHOUT_START:
        assert len(third) <= 1
        assert ONE_BATCH in log, "the first run does not know its trigger"
    else:
        assert fourth == []
        assert ONE_BATCH not in log
    assert fifth == [], "its only step is the last commit"
    assert written(tmp_path / "output") == {
        (numbers, i % PARTITIONS, i // PARTITIONS, b"value %d" % i): 1 for i in range(RECORDS)
    }
    ends = dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    assert until(lambda: group_offsets(kafka, numbers, numbers) == ends, 60), group_offsets(kafka, numbers, numbers)


def group_offsets(kafka, group: str, topic: str) -> dict[int, int]:
    from penstock.config.source import parse_options
    from penstock.model.topic_partition import TopicPartition
    from penstock.wire.cluster import Cluster

    options = parse_options(kafka.client_options() | {"subscribe": topic})
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    return {tp.partition: offset for tp, offset in Cluster(options.client).committed(group, places).items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_F26_queries_report_to_a_page(version, spark_version, stream, numbers, tmp_path):
    """Also what Spark says of a query that has failed. Sources of older versions report no lag."""
    registry = QueryRegistry()
    with (
        Feed(None, registry) as feed,
        PageServer("127.0.0.1", 0, {"": WatchedCluster(feed, no_search)}, Access(), registry) as server,
    ):
        page = f"http://127.0.0.1:{server.port}"
        reporting = stream(batches=2, maxOffsetsPerTrigger=LIMIT) | {"page": page}
        failing = stream(startingOffsets=json.dumps({numbers: {"0": 10**9, "1": 0, "2": 0}}))
        steps = [reporting, failing | {"checkpoint": str(tmp_path / "failing"), "path": str(tmp_path / "nothing")}]
        with spark_version(version, steps, tmp_path / "driver") as driver:
            assert driver.wait(RUN_SECONDS) != 0
        assert until(lambda: sorted(row["state"] for row in registry.rows()) == ["failed", "finished"], 60)
        reports = {row["state"]: registry.detail(row["name"])["report"] for row in registry.rows()}
    assert str(10**9) in reports["failed"]["error"]
    finished = reports["finished"]
    batches = [batch["rows"] for batch in finished["batches"]]
    assert batches[:2] == [LIMIT, LIMIT]
    assert {"addBatch", "triggerExecution"} <= {phase["name"] for phase in finished["phases"]}
    assert sum(each["current_offset"] for each in finished["partitions"]) == sum(batches)
    assert finished["lag"] == (None if version in WITHOUT_START else RECORDS - sum(batches))


def no_search(request):
    raise PenstockError("no cluster")


@pytest.mark.parametrize("version", VERSIONS)
def test_W5_streams_are_written_exactly_once(version, spark_version, kafka, topic, numbers, tmp_path):
    sink = topic(partitions=2)
    step = {
        "do": "pipe",
        "source": kafka.client_options() | {"subscribe": numbers, "startingOffsets": "earliest"},
        "sink": kafka.client_options() | {"topic": sink, "deliveryGuarantee": "exactly-once"},
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": {"availableNow": True},
        "windowed": False,
    }
    limited = step | {"source": step["source"] | {"maxOffsetsPerTrigger": str(LIMIT)}}
    with spark_version(version, [limited, step], tmp_path / "driver") as driver:
        answers = driver.answers(RUN_SECONDS)
    assert sum(rows_of(answers[0]) + rows_of(answers[1])) == RECORDS
    assert committed(kafka, sink) == Counter(f"row {i}" for i in range(RECORDS))


@pytest.mark.parametrize("version", WITHOUT_START)
def test_E4_a_partition_that_is_ahead_in_event_time_waits(version, spark_version, kafka, topic, produce, tmp_path):
    name = topic(partitions=2, **{"retention.ms": -1})
    times = [[hour * HOUR for hour in range(1, 11)], [hour * HOUR for hour in range(101, 111)]]
    produce(name, [Rec(b"%d" % at, timestamp=at, partition=p) for p, of in enumerate(times) for at in of])
    step = {
        "do": "stream",
        "format": "penstock",
        "options": kafka.client_options()
        | {"subscribe": name, "startingOffsets": "earliest", "eventTime.maxDrift": "2h", "maxOffsetsPerTrigger": "10"},
        "path": str(tmp_path / "output"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": {"processingTime": "0 seconds"},
        "batches": 2,
    }
    with spark_version(version, [step], tmp_path / "driver") as driver:
        [batches] = driver.answers(RUN_SECONDS)
    assert batches[0]["endOffset"][name]["1"] == 0, "100 hours ahead"
    assert batches[0]["endOffset"][name]["0"] > 0


@pytest.mark.parametrize("version", WITHOUT_START)
def test_the_wrapper_of_available_now_is_refused_where_it_would_read_records_twice(
    version, spark_version, stream, tmp_path
):
    wrapper = {"spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true"}
    steps = [stream("availableNow", maxOffsetsPerTrigger=LIMIT), stream("availableNow", maxOffsetsPerTrigger=LIMIT)]
    with spark_version(version, steps, tmp_path / "driver", settings=wrapper) as driver:
        assert driver.wait(RUN_SECONDS) != 0
        [first] = driver.answered()
        log = driver.log()
    assert rows_of(first) == [LIMIT]
    assert f"UnsupportedSpark: {next(iter(wrapper))} is true" in log
    assert sorted(path.name for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")) == ["0"]
    assert sum(written(tmp_path / "output").values()) == LIMIT


@pytest.mark.parametrize("version", VERSIONS)
def test_F20_a_checkpoint_moves_to_the_newest_spark_and_back(
    version, spark_version, stream, numbers, produce, tmp_path
):
    """Both drivers run at the same time, and wait for each other."""
    turns = [tmp_path / f"turn-{number}" for number in range(3)]
    step = stream("availableNow")
    there = [step, pause(turns[0]), step]
    with (
        spark_version(version, there, tmp_path / "there", name="there") as older,
        Driver([pause(turns[1]), step], tmp_path / "here", name="here") as newer,
    ):
        await_answers(older, 1)
        produce(numbers, [Rec(b"second %d" % i, timestamp=1, partition=i % PARTITIONS) for i in range(30)])
        turns[1].touch()
        _, by_newer = newer.answers(RUN_SECONDS)
        produce(numbers, [Rec(b"third %d" % i, timestamp=1, partition=i % PARTITIONS) for i in range(60)])
        turns[0].touch()
        by_older, _, by_older_again = older.answers(RUN_SECONDS)
    assert [rows_of(each) for each in (by_older, by_newer, by_older_again)] == [[RECORDS], [30], [60]]
    values = values_of(written(tmp_path / "output"))
    assert len(values) == RECORDS + 90
    assert set(values.values()) == {1}


def pause(path) -> dict:
    return {"do": "await", "path": str(path)}


def await_answers(driver: Driver, count: int) -> None:
    done = until(lambda: len(driver.answered()) >= count or not driver.running, RUN_SECONDS)
    assert done, driver.log()[-3000:]
    assert len(driver.answered()) >= count, driver.log()[-3000:]
