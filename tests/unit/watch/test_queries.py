"""Which runs of queries the page keeps, and in which state it shows them."""

from __future__ import annotations

from dataclasses import replace

from penstock.watch.queries import LOST_SECONDS, MAX_QUERIES, QueryRegistry
from support.made_reports import report


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def registry(**more):
    clock = Clock()
    return QueryRegistry(clock=clock, **more), clock


def states(queries):
    return {row["name"]: row["state"] for row in queries.rows()}


def test_a_row_has_the_essence_and_the_detail_has_everything():
    queries, _ = registry()
    queries.put(report())
    (row,) = queries.rows()
    assert row == {
        "name": "run-1",
        "title": "orders",
        "state": "running",
        "lag": 14,
        "input_rate": 500.0,
        "processing_rate": 750.5,
        "batch": 3,
        "trigger_ms": 700,
        "event_time_lag": 3.5,
        "started_at": 1_700_000_000.0,
        "error": None,
    }
    detail = queries.detail("run-1")
    assert detail["row"] == row
    assert detail["report"]["partitions"][1]["idle"] is True
    assert queries.detail("run-2") is None


def test_the_version_rises_with_changes_only():
    queries, _ = registry()
    before = queries.version
    queries.put(report())
    assert queries.version == before + 1
    queries.put(report())
    assert queries.version == before + 1
    queries.put(report(batches=4))
    assert queries.version == before + 2


def test_a_failed_query_keeps_its_error_and_a_late_report_does_not_revive_it():
    queries, _ = registry()
    failed = report(state="failed", error="\nthe first line\nat Class.method")
    queries.put(failed)
    queries.put(report())
    (row,) = queries.rows()
    assert (row["state"], row["error"]) == ("failed", "the first line")
    assert queries.detail("run-1")["report"]["error"] == failed.error


def test_a_restarted_query_is_another_run():
    queries, _ = registry()
    queries.put(report(state="failed", error="no"))
    queries.put(report("run-2"))
    assert states(queries) == {"run-1": "failed", "run-2": "running"}


def test_a_query_whose_driver_is_gone_is_lost_until_it_reports():
    queries, clock = registry()
    queries.put(report())
    queries.put(report("ended", state="finished"))
    clock.now += LOST_SECONDS + 1
    before = queries.version
    queries.sweep()
    queries.sweep()
    assert queries.version == before + 1
    assert states(queries) == {"run-1": "lost", "ended": "finished"}
    queries.put(report())
    assert states(queries)["run-1"] == "running"


def test_a_query_of_this_process_cannot_be_lost():
    queries, clock = registry(repeated=False)
    queries.put(report())
    clock.now += 10 * LOST_SECONDS
    queries.sweep()
    assert states(queries) == {"run-1": "running"}


def test_the_number_of_runs_is_bounded_and_ended_ones_go_first():
    queries, clock = registry()
    for number in range(MAX_QUERIES):
        clock.now += 1
        queries.put(report(f"run-{number}", state="finished" if number == 50 else "running"))
    queries.put(report("new"))
    assert len(states(queries)) == MAX_QUERIES
    assert "run-50" not in states(queries)
    queries.put(replace(report("newer"), error=None))
    assert "run-0" not in states(queries)
    assert {"new", "newer"} <= states(queries).keys()


def test_a_query_without_a_name_is_shown_by_its_id():
    queries, _ = registry()
    queries.put(report(name=None))
    assert queries.rows()[0]["title"] == "query-1"
