"""Option `where`: the rows that pass are those of Spark's own filter, and the rest of a query does not notice it."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from fixtures.produce import Rec
from penstock.predicate.evaluate import RowError
from penstock.spark.listener import source_metrics
from support.predicates import ERRORS, SHORT_CIRCUITS, conditions, parsed, results, table


@pytest.fixture(scope="module")
def frame(spark):
    """The rows of the predicates, in a session that compiles no Java for each of them."""
    before = {name: spark.conf.get(name) for name in ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")}
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    made = spark.createDataFrame(table()).coalesce(1).cache()
    yield made
    made.unpersist()
    for name, value in before.items():
        spark.conf.set(name, value)


def check_against_spark(frame, texts):
    """One query for all predicates."""
    ours = {text: results(parsed(text), table()) for text in texts}
    rows = frame.selectExpr(*[f"({text}) AS c{at}" for at, text in enumerate(ours)]).collect()
    for at, text in enumerate(ours):
        theirs = [row[at] for row in rows]
        different = [row for row, (one, other) in enumerate(zip(ours[text], theirs, strict=True)) if one is not other]
        assert not different, (text, different[0], theirs[different[0]], table().slice(different[0], 1).to_pylist())


MANY = {"deadline": None, "phases": [Phase.generate], "suppress_health_check": list(HealthCheck), "database": None}


def test_random_predicates_have_sparks_results(frame):
    @settings(max_examples=2, derandomize=True, **MANY)
    @given(st.lists(conditions(), min_size=75, max_size=75, unique=True))
    def check(texts):
        check_against_spark(frame, texts)

    check()


@pytest.mark.extended
def test_many_random_predicates_have_sparks_results(frame):
    @settings(max_examples=60, **MANY)
    @given(st.lists(conditions(), min_size=60, max_size=60, unique=True))
    def check(texts):
        check_against_spark(frame, texts)

    check()


def test_parts_that_spark_does_not_evaluate_are_not_errors(frame):
    check_against_spark(frame, SHORT_CIRCUITS)


def test_errors_are_sparks(frame):
    for text, condition in ERRORS.items():
        with pytest.raises(RowError):
            results(parsed(text), table())
        with pytest.raises(PySparkException) as caught:
            frame.selectExpr(f"({text}) AS c").collect()
        assert caught.value.getCondition().startswith(condition), text


# --- in queries -------------------------------------------------------------------------------------------------------

START = 1_700_000_000_000
ORDERS = {"valueFormat": "json", "valueSchema": "n INT, kind STRING, at TIMESTAMP"}


@pytest.fixture
def orders(topic, produce):
    """Two partitions; the second one has one malformed value at its end."""
    name = topic(partitions=2)
    records = []
    for n in range(40):
        value = json.dumps({"n": n, "kind": "tea" if n % 10 == 0 else "coffee", "at": f"2025-01-01T00:00:{n:02d}Z"})
        headers = [("h", b"%d" % n)]
        records.append(Rec(value.encode(), b"k%d" % n, partition=n % 2, timestamp=START + n, headers=headers))
    produce(name, [*records, Rec(b"{", partition=1, timestamp=START + 40)])
    return name


@pytest.fixture
def reader(spark, kafka, orders):
    def make(**options):
        given = kafka.client_options() | {"subscribe": orders} | options
        return spark.read.format("penstock").options(**given)

    return make


def test_F28_a_batch_has_the_rows_of_sparks_filter(reader):
    def passed(frame, *texts):
        """By Spark's own filter, in one query."""
        rows = frame.selectExpr("partition", "offset", *texts).collect()
        return [sorted(tuple(row[:2]) for row in rows if row[at]) for at in range(2, 2 + len(texts))]

    def filtered(where, **options):
        return sorted(map(tuple, reader(where=where, columns="partition, offset", **options).load().collect()))

    raw = ("key LIKE 'k1%' AND offset > 5", "length(value) < 5 OR timestamp < '2023-11-14T22:13:20.010Z'")
    assert [filtered(text) for text in raw] == passed(reader().load(), *raw)
    typed = ("value.kind = 'tea' OR value.n IS NULL", "value.at > '2025-01-01T00:00:30Z' AND value.n % 7 = 0")
    assert [filtered(text, **ORDERS) for text in typed] == passed(reader(**ORDERS).load(), *typed)
    flat = reader(**ORDERS, flatten="true", where="n = 3 AND kafka_key = 'k3'").schema("kind STRING, n INT").load()
    assert flat.collect() == [("coffee", 3)]
    errors = reader(**ORDERS, includeErrors="true", where="value.n IS NULL OR headers['h'] = '5'").load().collect()
    assert sorted((row.offset, row._corrupt_record) for row in errors) == [(2, None), (20, b"{")]


def test_F28_a_wrong_predicate_fails_when_the_dataframe_is_made(reader):
    with pytest.raises(PySparkException, match=r"where = 'value.m = 1': character 7: field m does not exist"):
        reader(**ORDERS, where="value.m = 1").load()
    with pytest.raises(
        PySparkException, match=r"PredicateFailed: .*, offset 0: where = '1 / value.n > 0': 1 / value.n"
    ):
        reader(**ORDERS, where="1 / value.n > 0").load().collect()


@pytest.mark.parametrize(
    "options",
    [
        {"where": "key = 'k3'", "columns": "key"},
        ORDERS | {"where": "value.n = 3", "columns": "value.kind", "eventTime.column": "value.at"},
    ],
)
def test_E2_F28_a_stream_reads_all_offsets_and_its_watermark_moves_with_rows_that_do_not_pass(
    spark, kafka, orders, tmp_path, options
):
    given = kafka.client_options() | {"subscribe": orders, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 10}
    given |= {"eventTime.outOfOrderness": "0s", "includeWatermarks": "false"} | options
    frame = spark.readStream.format("penstock").options(**given).load()
    writer = frame.writeStream.format("memory").queryName("passed").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    assert query.awaitTermination(180)
    assert spark.table("passed").count() == 1
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == 1
    [first, *_, last] = [source_metrics(progress)[0] for progress in query.recentProgress]
    assert {each.partition: each.current_offset for each in last.partitions} == {0: 20, 1: 21}
    assert (first.read_records, last.passed_records) == (0, 1)
    assert last.read_records >= 30, "the last batch is reported after it"
    assert last.watermark > first.watermark if first.watermark else last.watermark is not None
