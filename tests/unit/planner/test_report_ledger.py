"""How the reports of tasks add up."""

from __future__ import annotations

from dataclasses import replace

from penstock.model.offset_range import OffsetRange
from penstock.model.task_report import TaskReport
from penstock.model.topic_partition import TopicPartition
from penstock.model.worker_figures import WorkerFigures
from penstock.planner.report_ledger import WORKER_SECONDS, WORKERS_KEPT, ReportCounts, ReportLedger

FIRST, SECOND = OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 10)
A = TopicPartition("t", 0)


def of(each: OffsetRange, **met: int) -> TaskReport:
    return TaskReport(each.topic, each.partition, each.start, each.stop, **met)


def test_counts_are_summed_over_ranges_and_batches():
    ledger = ReportLedger()
    ledger.expect([FIRST, SECOND])
    ledger.take(of(FIRST, malformed=1, dropped=1))
    ledger.take(of(SECOND, malformed=2, dead_letters=2, skipped=5))
    assert ledger.counts() == ReportCounts(3, 1, 2, 5)
    ledger.expect([OffsetRange("t", 0, 10, 20)])
    ledger.take(of(OffsetRange("t", 0, 10, 20), malformed=10))
    assert ledger.counts() == ReportCounts(13, 1, 2, 5)


def test_E5_late_records_are_summed_and_those_of_a_task_that_is_run_again_count_once():
    ledger = ReportLedger()
    ledger.expect([FIRST, SECOND])
    ledger.take(of(FIRST, late=2))
    ledger.take(of(FIRST, late=2))
    ledger.take(of(SECOND, late=3))
    ledger.expect([OffsetRange("t", 0, 10, 20)])
    ledger.take(of(OffsetRange("t", 0, 10, 20), late=10))
    assert ledger.counts() == ReportCounts(late=15)


def test_F27_each_lost_stretch_of_a_log_counts_once_in_its_batch():
    ledger = ReportLedger()
    parts = [OffsetRange("t", 0, at, at + 10) for at in (0, 10, 20)]
    ledger.expect([*parts, SECOND])
    for _ in range(2):  # each task is run twice
        ledger.take(of(parts[1], lost_start=10, lost_stop=15))
        ledger.take(of(parts[0], lost_start=0, lost_stop=10))
    assert ledger.counts() == ReportCounts(lost_ranges=1)
    ledger.take(of(parts[2], lost_start=25, lost_stop=30))
    assert ledger.counts() == ReportCounts(lost_ranges=2), "with records in between"
    ledger.take(of(SECOND, lost_start=0, lost_stop=1))
    ledger.take(of(SECOND))
    assert ledger.counts() == ReportCounts(lost_ranges=3), "a reading that found all there does not take it back"
    ledger.expect([OffsetRange("t", 0, 30, 40)])
    ledger.take(of(OffsetRange("t", 0, 30, 40), lost_start=30, lost_stop=31))
    assert ledger.counts() == ReportCounts(lost_ranges=4)


def test_F19_the_highest_event_time_of_a_partition_is_that_of_all_its_ranges():
    ledger = ReportLedger()
    parts = [OffsetRange("t", 0, at, at + 10) for at in (0, 10, 20)]
    ledger.expect([*parts, SECOND])
    assert ledger.take_event_times() == {}
    ledger.take(of(parts[1], has_event_time=True, event_time=70))
    ledger.take(of(parts[0], has_event_time=True, event_time=50))
    assert ledger.take_event_times() == {A: (30, 70, False)}
    assert ledger.take_event_times() == {}, "no report has come since"
    ledger.take(of(SECOND, has_event_time=True))
    ledger.take(of(parts[2], has_event_time=True))
    assert ledger.take_event_times() == {A: (30, 70, True), TopicPartition("t", 1): (10, None, True)}


def test_F19_event_times_are_those_of_the_batch_at_hand():
    ledger = ReportLedger()
    ledger.expect([FIRST])
    ledger.take(of(FIRST, has_event_time=True, event_time=-5))
    ledger.expect([FIRST])  # Spark asks for a batch's plan more than once
    assert ledger.take_event_times() == {A: (10, -5, True)}
    ledger.take(of(FIRST, has_event_time=True, event_time=7))  # the task was run again
    assert ledger.take_event_times() == {A: (10, 7, True)}
    ledger.take(of(FIRST, has_event_time=True, event_time=9))
    ledger.expect([SECOND])
    assert ledger.take_event_times() == {}
    ledger.take(of(FIRST, has_event_time=True, event_time=9))
    assert ledger.take_event_times() == {}


def test_of_two_reports_of_one_range_the_last_counts():
    ledger = ReportLedger()
    ledger.expect([FIRST])
    ledger.take(of(FIRST, malformed=4))
    ledger.expect([FIRST])  # Spark asks for a batch's plan more than once
    ledger.take(of(FIRST, malformed=3))
    assert ledger.counts() == ReportCounts(malformed=3)


def test_a_second_reading_that_finds_its_letters_written_takes_none_back():
    ledger = ReportLedger()
    ledger.expect([FIRST])
    for written in (2, 0):
        ledger.take(of(FIRST, malformed=2, dropped=2, dead_letters=written))
    assert ledger.counts() == ReportCounts(malformed=2, dropped=2, dead_letters=2)


def test_a_task_of_an_earlier_batch_or_of_none_changes_nothing():
    ledger = ReportLedger()
    ledger.take(of(FIRST, malformed=4, ended_at=3))
    ledger.expect([FIRST])
    ledger.take(of(FIRST, malformed=1))
    ledger.expect([SECOND])
    ledger.take(of(FIRST, malformed=4, ended_at=3))
    ledger.take(of(OffsetRange("t", 1, 0, 9), malformed=4, ended_at=3))
    assert ledger.counts() == ReportCounts(malformed=1)
    assert ledger.take_ends() == {}


def test_F4_an_end_is_returned_once_and_a_second_reading_that_stops_before_it_does_not_take_it_back():
    ledger = ReportLedger()
    ledger.expect([FIRST])
    ledger.take(of(FIRST, ended_at=7))
    ledger.take(of(FIRST, skipped=1))
    assert ledger.take_ends() == {A: 7}
    assert ledger.take_ends() == {}


def test_F4_of_several_ends_of_a_partition_the_first_counts():
    ledger = ReportLedger()
    parts = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 0, 10, 20)]
    ledger.expect(parts)
    for part in reversed(parts):
        ledger.take(of(part, ended_at=part.start + 1))
    assert ledger.take_ends() == {A: 1}


def test_F26_the_last_figures_of_each_worker_count_whatever_the_batch():
    ledger = ReportLedger()
    for figures in (WorkerFigures("b:1", 5), WorkerFigures("a:1", 1), WorkerFigures("b:1", 4), WorkerFigures("a:1", 2)):
        ledger.take(replace(of(FIRST), worker=figures))
    assert [(each.worker, each.fetches) for each in ledger.workers()] == [("a:1", 2), ("b:1", 5)]
    assert ledger.counts() == ReportCounts()


def test_F26_workers_that_are_gone_are_forgotten():
    now = [0.0]
    ledger = ReportLedger(lambda: now[0])

    def report(name):
        ledger.take(replace(of(FIRST), worker=WorkerFigures(name, 1)))

    report("old:1")
    now[0] += WORKER_SECONDS / 2
    report("new:1")
    now[0] += WORKER_SECONDS / 2
    assert len(ledger.workers()) == 2, "a query that is idle keeps its workers"
    report("new:1")
    assert [each.worker for each in ledger.workers()] == ["new:1"]
    for number in range(WORKERS_KEPT):
        report(f"w:{number}")
    assert len(ledger.workers()) == WORKERS_KEPT
    assert "new:1" not in {each.worker for each in ledger.workers()}
