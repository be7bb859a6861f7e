"""Option `where`: the rows that pass are those of Spark's own filter, and the rest of a query does not notice it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from penstock.predicate.evaluate import RowError
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
