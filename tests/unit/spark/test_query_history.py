"""Spark's events as reports for the page."""

from __future__ import annotations

import time
from typing import Any

import pytest

from penstock.metrics.sink import SinkMetrics
from penstock.metrics.source import SourceMetrics
from penstock.spark.listener import source_metrics
from penstock.spark.query_history import QueryHistory, shown_error
from penstock.watch.query_report import (
    MAX_BATCHES,
    MAX_ERROR,
    MAX_PARTITIONS,
    MAX_PARTS,
    BatchReport,
    PhaseReport,
    encode_report,
    parse_report,
)
from support.made_progress import RUN, progress
from support.made_snapshots import HOSTILE


def history(name: str | None = "orders") -> QueryHistory:
    return QueryHistory("query", RUN, name, "2025-01-31T11:59:00.000Z")


def after(history: QueryHistory, given: Any) -> Any:
    report = history.progressed(given, source_metrics(given), SinkMetrics(1500))
    assert parse_report(encode_report(report)) == report
    return report


def test_all_that_spark_and_the_source_report():
    report = after(history(), progress())
    assert (report.state, report.started_at, report.progress_at) == ("running", 1_738_324_740.0, 1_738_324_800.0)
    assert (report.batch, report.rows, report.rows_written) == (7, 500, 1500)
    assert (report.input_rate, report.processing_rate, report.lag) == (400.0, 700.0, 1)
    assert report.spark_watermark == 1_738_321_200_000
    assert set(report.phases) == {
        *(PhaseReport("triggerExecution", 700), PhaseReport("latestOffset", 20), PhaseReport("addBatch", 600)),
    }
    (source,) = report.sources
    assert (source.event_time_lag, source.late, source.malformed, source.dropped) == (3.0, 3, 5, 2)
    assert (source.dead_letters, source.commits_succeeded, source.commits_failed) == (3, 4, 1)
    (operator,) = report.operators
    assert (operator.rows, operator.memory, operator.updated, operator.dropped) == (10, 4096, 2, 6)
    assert [(each.partition, each.lag, each.idle, each.held) for each in report.partitions] == [
        (0, 0, True, False),
        (1, 1, False, True),
    ]
    assert report.batches == (BatchReport(7, 1_738_324_800.0, 500, 700),)


def test_batches_are_counted_once_and_idle_triggers_are_none():
    run = history()
    for batch in (0, 1, 1):
        after(run, progress(batch))
    assert run.report.operators[0].dropped == 12, "Spark reports those of one batch"
    report = after(run, progress(2, ran=False, numInputRows=0, durationMs={"triggerExecution": 3}))
    assert [each.number for each in report.batches] == [0, 1]
    assert max(each.milliseconds for each in report.phases) == 700, "those of the last batch"
    for batch in range(2, 500):
        report = after(run, progress(batch))
    assert len(report.batches) == MAX_BATCHES
    assert report.batches[-1].number == 499


def test_the_partitions_with_the_most_lag_stay_and_totals_have_all():
    many = {str(number): 100 for number in range(MAX_PARTITIONS + 200)}
    report = after(history(), progress(offsets=many))
    assert report.partition_count == MAX_PARTITIONS + 200
    assert [each.partition for each in report.partitions] == list(range(200, MAX_PARTITIONS + 200))
    assert report.lag == sum(range(MAX_PARTITIONS + 200))


def test_rates_that_are_no_numbers_are_unknown():
    report = after(history(), progress(inputRowsPerSecond=float("inf"), processedRowsPerSecond=float("nan")))
    assert (report.input_rate, report.processing_rate) == (None, None)


def test_hostile_names_are_cut_and_kept_as_they_are():
    run = history(HOSTILE * 50)
    report = after(run, progress(durationMs={HOSTILE * 50: 1} | {str(each): each for each in range(100)}))
    assert report.name.startswith(HOSTILE)
    assert len(report.name) == 250
    assert len(report.phases) == MAX_PARTS


def test_an_idle_query_has_no_rates():
    run = history()
    after(run, progress())
    report = run.rested()
    assert (report.rows, report.input_rate, report.processing_rate) == (0, 0.0, 0.0)
    assert report.sources[0].records_per_second == 0.0
    assert report.lag == 1


@pytest.mark.parametrize(("error", "state"), [(None, "finished"), ("java.lang.Error: no", "failed")])
def test_the_end_of_a_query(error, state):
    run = history()
    after(run, progress())
    report = run.ended(error)
    assert (report.state, report.error) == (state, error)
    assert report.ended_at == pytest.approx(time.time(), abs=60)
    assert len(report.batches) == 1


@pytest.mark.parametrize("length", [100, MAX_ERROR, MAX_ERROR + 500, 10_000_000])
def test_errors_are_masked_and_cut(length):
    text = "failed: password=hush-hush " + "x" * length + " http://me:hush-hush@host"
    shown = shown_error(text)
    assert len(shown) <= MAX_ERROR
    assert "hush" not in shown
    assert shown.startswith("failed: password=***")


def test_a_secret_that_is_cut_in_two_is_left_out():
    for before in range(MAX_ERROR - 50, MAX_ERROR + 1010):
        assert "hush" not in shown_error("x" * before + " http://me:hush-hush@host" + "y" * 5000)


def test_a_query_that_does_not_read_kafka_is_shown_too():
    given = progress(sources=[])
    report = history().progressed(given, {}, SinkMetrics())
    assert (report.lag, report.sources, report.partitions) == (None, (), ())
    assert SourceMetrics().lag == 0
